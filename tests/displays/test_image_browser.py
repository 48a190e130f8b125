"""The page that searches pictures by their codes, and ``skhash browse``."""

import base64
import io
import json
import os
import re
import shutil
import sys
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skhash import ITQHasher
from skhash.cli import main
from skhash.codes import Codes, hamming_distances, pack, unpack
from skhash.datasets import load_images
from skhash.datasets.image_files import ImageFiles
from skhash.displays import write_image_browser
from skhash.neighbors import HammingNeighbors
from skhash.persistence import save

N = 200
NASTY = "a </script><b>&amp; #1 50%.png"  # the path of a stranger's file


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with 200 pictures of two classes, and their codes of 8 and 40 bits."""
    place = tmp_path_factory.mktemp("place")
    rng = np.random.default_rng(0)
    for i in range(N):
        path = place / f"pictures/{'red' if i % 2 else 'blue'}/{i:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (100, 90, 3), dtype=np.uint8)).save(path)
    (path.parent / NASTY).parent.mkdir()
    shutil.move(path, path.parent / NASTY)
    codes = {f"{nbits} bits": Codes.of(rng.integers(0, 2, (N, nbits))) for nbits in (8, 40)}
    return place, load_images(place / "pictures", size=32), codes


def content_of(page):
    text = page.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    return text, json.loads(data)


def test_the_page_has_codes_names_labels_and_thumbnails(place, tmp_path):
    _, images, codes = place
    write_image_browser(tmp_path / "page.html", images, codes, title="<Pictures>")
    text, content = content_of(tmp_path / "page.html")
    assert "<title>&lt;Pictures&gt;</title>" in text
    assert text.count("</script>") == 2
    assert content["names"] == images.names
    assert content["labels"] == [[label] for label in images.targets]
    for method, (name, of_images) in zip(content["methods"], codes.items(), strict=True):
        assert (method["name"], method["nbits"]) == (name, of_images.nbits)
        assert base64.b64decode(method["codes"]) == of_images.rows.tobytes()
    head, _, thumbnail = content["images"][0].partition(",")
    assert head == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(thumbnail))).size == (32, 32)


def test_thumbnails_are_small(place, tmp_path):
    folder, _, codes = place
    write_image_browser(tmp_path / "page.html", load_images(folder / "pictures", size=90), codes)
    _, content = content_of(tmp_path / "page.html")
    assert Image.open(io.BytesIO(base64.b64decode(content["images"][0].partition(",")[2]))).size == (64, 64)


def test_links_lead_to_the_files(place, tmp_path):
    folder, images, codes = place
    write_image_browser(folder / "page.html", images, codes, link=True, labels=np.eye(2, dtype=int)[np.arange(N) % 2])
    _, content = content_of(folder / "page.html")
    assert [unquote(address) for address in content["images"]] == [f"pictures/{name}" for name in images.names]
    assert all(re.fullmatch(r"[\w/%.-]+", address) for address in content["images"])
    assert content["labels"][:2] == [["0"], ["1"]]


@pytest.mark.parametrize(
    ("codes", "labels", "message"),
    [
        ({}, None, "`codes` must have codes for at least one name. Got none"),
        ({"a": np.zeros((3, 8), int)}, None, r"`codes\['a'\]` must have a code for each of the 200 pictures. Got 3"),
        ({"a": np.full((N, 1), 0.5)}, None, r"`codes\['a'\]` must hold only 0 and 1. Got other"),
        (
            {"a": np.zeros((N, 8), int)},
            [1],
            "`labels` must have one label for each of the 200 pictures",
        ),
    ],
)
def test_errors(place, tmp_path, codes, labels, message):
    with pytest.raises(ValueError, match=message):
        write_image_browser(tmp_path / "page.html", place[1], codes, labels=labels)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("trained", "message"),
    [
        ({"a": np.zeros(N, bool)}, "`trained` must have names of `codes`. Got 'a' instead"),
        (
            {"8 bits": np.zeros(3, bool)},
            r"`trained\['8 bits'\]` must be bools of shape \(200,\).* Got bool of shape \(3,\)",
        ),
        ({"8 bits": np.zeros(N)}, r"`trained\['8 bits'\]` must be bools .* Got float64"),
    ],
)
def test_marks_of_training_pictures_are_checked(trained, message, place, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_image_browser(tmp_path / "page.html", place[1], place[2], trained=trained)


def test_unknown_labels_are_empty(place, tmp_path):
    _, images, codes = place
    for unknown in ("", None, float("nan")):
        labels = np.array([unknown, *["a"] * (N - 1)], dtype=object)
        write_image_browser(tmp_path / "page.html", images, codes, labels=labels)
        assert content_of(tmp_path / "page.html")[1]["labels"] == [[], *[["a"]] * (N - 1)]


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names that are not UTF-8")
def test_a_name_may_have_another_encoding(tmp_path):
    name = os.fsdecode(b"caf\xe9.png")
    Image.new("RGB", (5, 5)).save(tmp_path / name)
    images = load_images(tmp_path, size=64)
    write_image_browser(tmp_path / "page.html", images, {"a": np.zeros((1, 8), int)}, link=True)
    _, content = content_of(tmp_path / "page.html")
    assert (content["names"], content["images"]) == ([name], ["caf%E9.png"])


def test_thumbnails_report_how_many_are_done(place, tmp_path):
    _, images, codes = place
    done = []
    write_image_browser(tmp_path / "page.html", images, codes, watch=done.append)
    assert done == list(range(1, N + 1))


# --- the command


def write_codes(path, images, packed, nbits, **more):
    np.savez(path, codes=packed, nbits=nbits, **{"paths": np.array(images.names), "labels": images.targets} | more)
    return str(path)


def test_browse(place, tmp_path, capsys):
    folder, images, codes = place
    files = [write_codes(tmp_path / f"{of.nbits}.npz", images, of.rows, of.nbits) for of in codes.values()]
    X = np.random.default_rng(0).normal(size=(N, 10))
    index = HammingNeighbors(make_pipeline(MinMaxScaler(), ITQHasher(9, random_state=0))).fit(X)
    save(index, tmp_path / "index")  # needs its hasher to be loaded
    words = ["browse", *files, f"{tmp_path}/index", "--images", f"{folder}/pictures", "--out", f"{tmp_path}/page.html"]
    assert main(words) == 0
    assert capsys.readouterr().out == f"200 pictures: {tmp_path}/page.html\n"
    _, content = content_of(tmp_path / "page.html")
    assert [method["name"] for method in content["methods"]] == ["8, 8 bits", "40, 40 bits", "index, 9 bits"]
    assert content["labels"][0] == ["blue"]
    assert base64.b64decode(content["methods"][2]["codes"]) == pack(index.hasher_.transform(X)).tobytes()
    (tmp_path / "labels.csv").write_text("".join(["path,label\n", *(f'"{name}",x\n' for name in images.names)]))
    assert main([*words, "--labels-from", f"{tmp_path}/labels.csv", "--link"]) == 0
    assert content_of(tmp_path / "page.html")[1]["labels"] == [["x"]] * N
    rows = [f'"{name}",{"a;b" if i % 2 else "b"}\n' for i, name in enumerate(images.names)]
    (tmp_path / "labels.csv").write_text("".join(["path,label\n", *rows]))
    assert main([*words, "--labels-from", f"{tmp_path}/labels.csv", "--label-separator", ";"]) == 0
    assert content_of(tmp_path / "page.html")[1]["labels"][:2] == [["b"], ["a", "b"]]
    (tmp_path / "labels.csv").write_text(f'path,label\n"{images.names[0]}",\n{"".join(rows[1:])}')
    assert main([*words, "--labels-from", f"{tmp_path}/labels.csv", "--label-separator", ";"]) == 0
    assert content_of(tmp_path / "page.html")[1]["labels"][:2] == [[], ["a", "b"]]
    (tmp_path / "labels.csv").write_text("path,label\nother,x\n")
    assert main([*words, "--labels-from", f"{tmp_path}/labels.csv"]) == 2
    assert "--labels-from must have" in capsys.readouterr().err
    assert main([*words[:-1], files[0]]) == 2  # --out would replace the codes
    assert "--out must not be a file that the command reads" in capsys.readouterr().err


def test_labels_of_a_table_in_another_form(place, tmp_path, capsys):
    folder, images, codes = place
    packed, nbits = (each := codes[next(iter(codes))]).rows, each.nbits
    words = ["browse", write_codes(tmp_path / "codes.npz", images, packed, nbits), "--images", f"{folder}/pictures"]
    words += ["--out", f"{tmp_path}/page.html"]
    rows = [f'"{name}";{"größe" if i else ""};x\n' for i, name in enumerate(images.names)]
    text = "".join(["path;Ort;label\n", *rows])
    (tmp_path / "labels.csv").write_text(text, encoding="latin-1")
    words_of_labels = ["--labels-from", f"{tmp_path}/labels.csv", "--labels", "Ort", "--separator", ";"]
    assert main([*words, *words_of_labels, "--encoding", "latin-1"]) == 0
    assert content_of(tmp_path / "page.html")[1]["labels"] == [[], *[["größe"]] * (N - 1)]
    capsys.readouterr()
    assert main([*words, *words_of_labels]) == 1
    assert "such as --encoding latin-1 " in capsys.readouterr().err
    for given in (["--encoding", "latin-1"], ["--separator", ";"], ["--labels", "Ort"], ["--label-separator", ";"]):
        assert main([*words, *given]) == 2
        assert f"{given[0]} must be used with --labels-from FILE." in capsys.readouterr().err


def test_codes_are_cut_to_numbers_of_bits(place, tmp_path):
    folder, images, codes = place
    packed, nbits = codes["40 bits"].rows, 40
    files = [tmp_path / "a/codes.npz", tmp_path / "b/codes.npz"]
    for file in files:
        file.parent.mkdir()
        write_codes(file, images, packed, nbits)
    words = ["browse", *map(str, files), "--images", f"{folder}/pictures", "--out", f"{tmp_path}/page.html"]
    assert main([*words, "--bits", "12,40"]) == 0
    _, content = content_of(tmp_path / "page.html")
    expected = [f"{file}, {n} bits" for file in files for n in (12, 40)]
    assert [method["name"] for method in content["methods"]] == expected
    assert base64.b64decode(content["methods"][0]["codes"]) == pack(unpack(packed, 40)[:, :12]).tobytes()
    assert base64.b64decode(content["methods"][3]["codes"]) == packed.tobytes()


def test_codes_and_pictures_must_belong_together(place, tmp_path, capsys):
    folder, images, codes = place
    packed, nbits = codes["8 bits"].rows, 8
    first = write_codes(tmp_path / "first.npz", images, packed, nbits)
    options = ["--images", f"{folder}/pictures", "--out", f"{tmp_path}/page.html"]
    other = write_codes(tmp_path / "other.npz", images, packed, nbits, paths=np.array(images.names[::-1]))
    np.savez(tmp_path / "few.npz", codes=packed[:9], nbits=nbits)
    missing = write_codes(tmp_path / "no.npz", images, packed, nbits, paths=np.array(["none.png", *images.names[1:]]))
    for files, more, message in [
        ([first, other], [], f"INDEX must be codes of the same pictures. Got different ones in {other} and {first}."),
        ([f"{tmp_path}/few.npz"], [], "INDEX must have a code for each of the 200 pictures. Got 9 codes in"),
        ([missing], [], f"--images must be the folder of the pictures of {missing}. {folder}/pictures has no none.png"),
        ([first], ["--bits", "4,9"], f"--bits must be ints from 1 to 8, the bits of {first}. Got '4,9' instead."),
        ([first], ["--bits", "x"], "--bits must be ints from 1 to 8"),
    ]:
        assert main(["browse", *files, *options, *more]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_a_damaged_index_is_named(place, tmp_path, capsys):
    path = tmp_path / "index"
    index = HammingNeighbors(ITQHasher(9, random_state=0)).fit(np.random.default_rng(0).normal(size=(N, 10)))
    save(index, path)
    content = bytearray(path.read_bytes())
    content[content.index(index._items.codes.blocks.tobytes())] ^= 1
    path.write_bytes(content)
    assert main(["browse", str(path), "--images", f"{place[0]}/pictures", "--out", f"{tmp_path}/page.html"]) == 1
    assert "the checksum of its codes is not that of their content" in capsys.readouterr().err


# --- in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium without a window."""
    selenium = pytest.importorskip("selenium.webdriver")
    driver, program = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
    if driver is None or program is None:
        pytest.skip("needs Chromium and its driver")
    options = selenium.ChromeOptions()
    options.binary_location = program
    off = ("background-networking", "component-update", "sync", "gpu")
    words = ["headless=new", "no-sandbox", "no-first-run", *(f"disable-{name}" for name in off)]
    for word in (*words, f"user-data-dir={tmp_path_factory.mktemp('browser')}", "window-size=1000,900"):
        options.add_argument(f"--{word}")
    from selenium.webdriver.chrome.service import Service

    browser = selenium.Chrome(options, Service(driver))
    browser.implicitly_wait(5)
    yield browser
    browser.quit()


@pytest.fixture
def page(place, tmp_path, browser):
    """The page of the pictures with 8 and 40 bits, open in a browser."""
    _, images, codes = place
    write_image_browser(tmp_path / "page.html", images, codes)
    browser.get((tmp_path / "page.html").as_uri())
    return browser


def go_to(browser, item, codes):
    browser.execute_script(f"location.hash = address({item}, '{codes}')")
    browser.find_element("css selector", f'.grid a[href$="codes={codes}"]')


def items_of(element):
    """Items and marks of the pictures in an element."""
    links = element.find_elements("css selector", ".grid a")
    items = [int(re.search(r"item=(\d+)", link.get_attribute("href"))[1]) for link in links]
    return items, [link.get_attribute("class") for link in links]


def tiles_of(element):
    return [" ".join(tile.text.split()) for tile in element.find_elements("css selector", ".distance")]


def neighbors(packed, nbits, query):
    """Items but the query by distance, ties in order, and all distances."""
    distances = hamming_distances(packed[[query]], packed, nbits=nbits)[0]
    order = np.argsort(distances, kind="stable")
    return order[order != query], distances


def expected_tiles(distances, order, k):
    tiles = []
    for distance in dict.fromkeys(distances[order[:k]].tolist()):
        total, n_shown = np.sum(distances[order] == distance), np.sum(distances[order[:k]] == distance)
        tied, cut = f" {total} tied" if total > 1 else "", f" {n_shown} shown" if n_shown < total else ""
        tiles.append(f"{distance} {'bit differs' if distance == 1 else 'bits differ'}{tied}{cut}")
    return tiles


def test_a_picture_shows_what_each_code_finds(place, page):
    _, images, codes = place
    start, marks = items_of(page)
    assert len(set(start)) == 60
    assert not any(marks)
    page.find_elements("css selector", ".grid a")[0].click()
    heading = page.find_element("css selector", "h2")
    assert heading.text == images.names[start[0]]
    assert page.switch_to.active_element == heading
    sections = page.find_elements("css selector", "section")
    assert [section.find_element("css selector", "h3").text for section in sections] == list(codes)
    for section, of in zip(sections, codes.values(), strict=True):
        order, distances = neighbors(of.rows, of.nbits, start[0])
        items, marks = items_of(section)
        assert items == order[:16].tolist()
        right = images.targets[order] == images.targets[start[0]]
        assert marks == ["right" if is_right else "wrong" for is_right in right[:16]]
        assert tiles_of(section) == expected_tiles(distances, order, 16)


def test_one_of_the_codes(place, page):
    from selenium.webdriver.support.select import Select

    _, images, codes = place
    go_to(page, 7, "all")
    Select(page.find_element("css selector", "#method")).select_by_visible_text("40 bits")
    page.find_element("css selector", '.grid a[href$="codes=1"]')
    order, distances = neighbors(codes["40 bits"].rows, 40, 7)
    assert items_of(page)[0] == order[:60].tolist()
    found = [int(b.text.split()[-1]) for b in page.find_elements("css selector", ".name b")]
    assert found == distances[order[:60]].tolist()
    right = images.targets[order] == images.targets[7]
    is_last = distances[order] == distances[order[59]]
    before, tied, n_left = right[distances[order] < distances[order[59]]], right[is_last], 60
    n_left -= len(before)
    worst = before.sum() + max(0, n_left - (~tied).sum())
    best = before.sum() + min(n_left, tied.sum())
    assert worst < best
    text = page.find_element("css selector", "section .quiet").text
    assert text.startswith(f"{worst} to {best} of the first 60 are right")
    page.find_element("css selector", ".more").click()
    assert items_of(page)[0] == order[:120].tolist()
    page.back()
    page.find_element("css selector", '.grid a[href$="codes=all"]')
    assert Select(page.find_element("css selector", "#method")).first_selected_option.text == "All"


def test_training_pictures_are_marked_and_not_counted(place, tmp_path, browser):
    _, images, codes = place
    trained = np.arange(N) % 4 < 3
    write_image_browser(tmp_path / "page.html", images, codes, trained={"8 bits": trained})
    browser.get((tmp_path / "page.html").as_uri())
    query = 7
    go_to(browser, query, "0")
    order, distances = neighbors(codes["8 bits"].rows, 8, query)
    items, _ = items_of(browser)
    known = [
        bool(link.find_elements("css selector", ".known")) for link in browser.find_elements("css selector", "li a")
    ]
    assert known == trained[items].tolist()
    new = order[~trained[order]]
    k = int((~trained[order[:60]]).sum())
    right, last = images.targets[new] == images.targets[query], distances[new[k - 1]]
    before, tied = right[distances[new] < last], right[distances[new] == last]
    worst = before.sum() + max(0, k - len(before) - (~tied).sum())
    best = before.sum() + min(k - len(before), tied.sum())
    number = f"{worst} to {best}" if worst < best else str(best)
    texts = [text.text for text in browser.find_elements("css selector", "section .quiet")]
    assert texts[0].startswith(f"{number} of the {k} new pictures among the first 60 are right")
    assert not trained[query]
    assert len(texts) == 1
    go_to(browser, 8, "0")
    texts = [text.text for text in browser.find_elements("css selector", "section .quiet")]
    assert texts[1].startswith("The hasher has learned from this picture")
    go_to(browser, query, "1")
    assert not browser.find_elements("css selector", ".known")


def test_search_by_path_and_keys(place, page):
    from selenium.webdriver.common.keys import Keys

    _, images, _ = place
    page.find_element("css selector", "body").send_keys("/")
    field = page.switch_to.active_element
    assert field.get_attribute("id") == "search"
    field.send_keys("red/")
    status = page.find_element("css selector", "#status").get_property("textContent")
    assert status == "100 pictures with “red/” in the path, 60 shown"
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("</SCRIPT>")
    nasty = next(i for i, name in enumerate(images.names) if "50%" in name)
    assert items_of(page)[0] == [nasty]
    field.send_keys(Keys.ENTER)
    assert page.find_element("css selector", "h2").text == images.names[nasty]
    assert page.find_element("css selector", ".grid img").get_attribute("alt") in images.names
    links = page.find_elements("css selector", ".grid a")
    page.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert page.switch_to.active_element == links[0]
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    below = page.switch_to.active_element
    assert below.rect["y"] > links[1].rect["y"]
    below.send_keys(Keys.ARROW_UP, Keys.ARROW_LEFT)
    chosen = page.switch_to.active_element
    assert chosen == links[0]
    path = chosen.get_attribute("title")
    chosen.send_keys(Keys.ENTER)
    page.find_element("css selector", f'.query img[alt="{path}"]')


def test_the_page_asks_for_nothing(page):
    go_to(page, 3, "all")
    loaded = page.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []


def test_linked_pictures_are_shown(place, browser):
    folder, images, codes = place
    write_image_browser(folder / "linked.html", images, codes, link=True)
    browser.get((folder / "linked.html").as_uri())
    go_to(browser, images.names.index(next(name for name in images.names if "50%" in name)), "0")
    assert (
        browser.execute_async_script(
            "const [image, done] = [document.querySelector('.query img'), arguments[0]];"
            "image.decode().then(() => done(image.naturalWidth), () => done(0))"
        )
        == 90
    )


def test_ten_thousand_codes_are_ranked_as_by_numpy(place, tmp_path, browser):
    _, images, _ = place
    many = ImageFiles(images.folder, images.names * 50, images.size, np.tile(images.targets, 50))
    packed = np.random.default_rng(0).integers(0, 256, (len(many), 8), dtype=np.uint8)
    write_image_browser(tmp_path / "page.html", many, {"64 bits": Codes.of(packed, 64)}, link=True)
    browser.get((tmp_path / "page.html").as_uri())
    order, distances = neighbors(packed, 64, 9_876)
    find = "const found = find(data.methods[0], 9876); return [[...found.ranked], [...found.distances]]"
    ranked, found = browser.execute_script(find)
    assert ranked == order.tolist()
    assert found == distances.tolist()

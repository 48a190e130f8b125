"""The page that searches pictures by their codes, and ``skhash browse``."""

import base64
import io
import json
import re
import shutil
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

from skhash import ITQHasher
from skhash.cli import main
from skhash.codes import hamming_distances, pack
from skhash.datasets import load_images
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
    codes = {f"{nbits} bits": (pack(rng.integers(0, 2, (N, nbits))), nbits) for nbits in (8, 40)}
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
    for method, (name, (packed, nbits)) in zip(content["methods"], codes.items(), strict=True):
        assert (method["name"], method["nbits"]) == (name, nbits)
        assert base64.b64decode(method["codes"]) == packed.tobytes()
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
        ({}, None, "`codes` must have packed codes and a number of bits for at least one name. Got none"),
        ({"a": (np.zeros((3, 1), np.uint8), 8)}, None, r"`codes\['a'\]` must be uint8 of shape \(200, 1\).*\(3, 1\)"),
        ({"a": (np.zeros((N, 1)), 8)}, None, r"`codes\['a'\]` must be uint8 .* Got float64"),
        (
            {"a": (np.zeros((N, 1), np.uint8), 8)},
            [1],
            "`labels` must have one label for each of the 200 pictures",
        ),
    ],
)
def test_errors(place, tmp_path, codes, labels, message):
    with pytest.raises(ValueError, match=message):
        write_image_browser(tmp_path / "page.html", place[1], codes, labels=labels)
    assert not (tmp_path / "page.html").exists()


def test_browse(place, tmp_path, capsys):
    folder, images, codes = place
    for name, (packed, nbits) in codes.items():
        paths = {"paths": np.array(images.names), "labels": images.targets}
        np.savez(tmp_path / f"{name[:2].strip()}.npz", codes=packed, nbits=nbits, **paths)
    X = np.random.default_rng(0).normal(size=(N, 10))
    save(HammingNeighbors(ITQHasher(9, random_state=0)).fit(X), tmp_path / "index")
    files = [f"{tmp_path}/{name}" for name in ("8.npz", "40.npz", "index")]
    words = ["browse", *files, "--images", f"{folder}/pictures", "--out", f"{tmp_path}/page.html"]
    assert main(words) == 0
    assert capsys.readouterr().out == f"200 pictures: {tmp_path}/page.html\n"
    _, content = content_of(tmp_path / "page.html")
    assert [method["name"] for method in content["methods"]] == ["8, 8 bits", "40, 40 bits", "index, 9 bits"]
    assert content["labels"][0] == ["blue"]
    assert len(base64.b64decode(content["methods"][2]["codes"])) == 2 * N
    (tmp_path / "labels.csv").write_text("".join(["path,label\n", *(f'"{name}",x\n' for name in images.names)]))
    assert main([*words, "--labels", f"{tmp_path}/labels.csv", "--link"]) == 0
    assert content_of(tmp_path / "page.html")[1]["labels"] == [["x"]] * N
    (tmp_path / "labels.csv").write_text("path,label\nother,x\n")
    assert main([*words, "--labels", f"{tmp_path}/labels.csv"]) == 2
    assert "--labels must have" in capsys.readouterr().err
    assert main([*words[:-1], files[0]]) == 2  # --out would replace the codes
    assert "--out must be another file" in capsys.readouterr().err


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


def shown(browser):
    """Indices and marks of the pictures on the page."""
    links = browser.find_elements("css selector", ".grid a")
    items = [int(re.search(r"item=(\d+)", link.get_attribute("href"))[1]) for link in links]
    return items, [link.get_attribute("class") for link in links]


def test_the_page_in_a_browser(place, tmp_path, browser):
    _, images, codes = place
    write_image_browser(tmp_path / "page.html", images, codes)
    browser.get((tmp_path / "page.html").as_uri())
    first, _ = shown(browser)
    assert len(set(first)) == 60
    browser.find_elements("css selector", ".grid a")[0].click()
    for method, (packed, nbits) in enumerate(codes.values()):
        browser.execute_script(f"location.hash = address({first[0]}, {method})")
        browser.find_element("css selector", f'.grid a[href$="codes={method}"]')
        distances = hamming_distances(packed[[first[0]]], packed, nbits=nbits)[0]
        order = np.argsort(distances, kind="stable")
        expected = order[order != first[0]][:60]
        items, marks = shown(browser)
        assert items == expected.tolist()
        is_right = images.targets[expected] == images.targets[first[0]]
        assert marks == ["right" if right else "wrong" for right in is_right]
        heads = [head.text for head in browser.find_elements("css selector", "section h2 b")]
        found = [f"{d} bit{' differs' if d == 1 else 's differ'}" for d in dict.fromkeys(distances[expected].tolist())]
        assert heads == found
    browser.find_element("css selector", ".more").click()
    assert len(shown(browser)[0]) == 120


def test_search_keys_and_requests_in_a_browser(place, tmp_path, browser):
    from selenium.webdriver.common.keys import Keys

    _, images, codes = place
    write_image_browser(tmp_path / "page.html", images, codes)
    browser.get((tmp_path / "page.html").as_uri())
    body = browser.find_element("css selector", "body")
    body.send_keys("/")
    field = browser.switch_to.active_element
    assert field.get_attribute("id") == "search"
    field.send_keys("50%")
    nasty = next(i for i, name in enumerate(images.names) if "50%" in name)
    assert shown(browser)[0] == [nasty]
    field.send_keys(Keys.ENTER)
    assert browser.find_element("css selector", ".query .path").text == images.names[nasty]
    links = browser.find_elements("css selector", ".grid a")
    browser.execute_script("arguments[0].focus()", links[0])
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element == links[1]
    browser.back()
    browser.find_element("css selector", ".more")
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []

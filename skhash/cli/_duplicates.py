"""The command ``skhash duplicates``: pairs and groups of near codes, and a page that shows groups of pictures."""

import argparse
import html
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from string import Template
from time import localtime, strftime
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._compat import cached_property
from skhash._files import check_writable, write_atomically
from skhash._progress import progress
from skhash.cli._browsing import images_of_codes
from skhash.cli._pictures import load_model, load_pictures, open_for
from skhash.cli._samples import check_no_table, csv_writer, errors_of, in_batches, open_samples, read_codes
from skhash.codes import Codes, hamming_distances
from skhash.datasets.kinds import kind_of
from skhash.displays.image_browser import address_of_file, address_of_pixels
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.duplicates import NearVectors, near_groups
from skhash.unwrap import codes_of

RADIUS = 2  # bits
#: of pictures without a model: bits of their perceptual codes, and root mean square difference of their colors
PICTURE_RADIUS, COLOR_DISTANCE = 6, 48.0
_BATCH = 256  # pictures between two lines of progress
_SHOWN = 10  # groups that are printed, and other items of each
_MAX_GROUPS, _MAX_PICTURES, _THUMBNAIL = 500, 24, 192  # of a page: groups, pictures of a group, pixels


@dataclass
class _Compared:
    """What is compared: packed codes and the names of the items, and perhaps vectors that confirm pairs."""

    codes: Codes
    names: Sequence[Any]  # paths of pictures, or identifiers
    images: Any = None  # ImageFiles in the order of the codes
    vectors: npt.NDArray[Any] | None = None
    kind: str = "path"  # of the names, in the table
    distance_of: str = "vector"
    n_links: int = 0  # to other pictures, which are left out

    @cached_property
    def paths(self) -> list[str]:
        """Paths of the pictures."""
        return [] if self.images is None else self.images.paths


@dataclass
class _File:
    """What `--keep largest` compares and the page shows."""

    width: int
    height: int
    n_bytes: int
    n_freed: int  # bytes that are free once it is removed: none of a link
    date: str


@dataclass
class _Group:
    """Positions of the items of a group, the one to keep, and how many bits of each differ from it."""

    members: npt.NDArray[np.int64]
    kept: int
    distances: list[int]
    files: list[_File]  # of pictures; else empty


def duplicates(options: argparse.Namespace) -> int:
    """Find duplicates, print the groups, and write the pairs and the page."""
    _check(options)
    items = _of_pictures(options) if kind_of(options.data).holds == "pictures" else _of_codes(options)
    items = _without_links(items)
    index = HammingNeighbors().fit(items.codes)
    near = None
    with errors_of(options.vectors or options.data), progress("Comparing", n := len(items.codes), "codes") as show:
        if items.vectors is not None:
            near = NearVectors(items.vectors, len(items.codes), options.metric, options.max_distance)
        found = near_groups(index, options.radius, near, lambda done: show(int(done * n)))
    groups = [_group(items, members, options.keep) for members in found]
    print("\n".join(_summary(options, items, groups)))
    if options.out is not None:
        print(f"\nFile: {options.out}, {_write_pairs(options, index, items, groups, near):,} pairs")
    if options.page is not None:
        _write_page(options, items, groups)
        print(f"Page: {options.page}")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Set defaults, and raise an error for options that do not fit each other, before any work."""
    if options.out is not None and not options.out.endswith(".csv"):
        raise ValueError(f"--out must be a .csv file. Got {options.out} instead.")
    for path in (options.out, options.page):
        if path is not None:
            check_writable(path)
    has_pictures = kind_of(options.data).holds == "pictures"
    is_perceptual = has_pictures and options.model is None
    if options.radius is None:
        options.radius = PICTURE_RADIUS if is_perceptual else RADIUS
    if is_perceptual:
        options.metric = "euclidean"
        options.max_distance = COLOR_DISTANCE if options.max_distance is None else options.max_distance
    if has_pictures:
        for name in ("images", "vectors"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name} must be used with codes or an index. Got the pictures {options.data}.")
        return
    if options.model is not None:
        raise ValueError(f"--model must be used with pictures. Got {options.data}, which has codes.")
    if (options.vectors is None) != (options.max_distance is None):
        raise ValueError("--vectors and --max-distance must be given together. They keep the pairs of near vectors.")
    if options.vectors is not None and kind_of(options.vectors).holds == "pictures":
        raise ValueError(
            f"--vectors must be a file of vectors. Got {options.vectors}. For the features of pictures: "
            "skhash duplicates PHOTOS --model MODEL --max-distance D."
        )
    for option, is_given in (("--page", options.page is not None), ("--keep largest", options.keep == "largest")):
        if is_given and options.images is None:
            raise ValueError(f"--images must be given with {option}: the folder of the pictures of {options.data}.")


# --- items


def _of_pictures(options: argparse.Namespace) -> _Compared:
    """Codes of pictures: perceptual ones, confirmed by colors, or those of MODEL, confirmed by its features."""
    if options.model is not None:
        return _of_model(options)
    from skhash.features import perceptual_codes

    images = load_pictures(options.data, options, size=32, broken=options.broken)
    parts = []
    with progress(f"Reading {options.data}", len(images), "pictures") as show:
        for start in range(0, len(images), _BATCH):
            parts.append(perceptual_codes(images.part(slice(start, start + _BATCH))))
            show(min(start + _BATCH, len(images)))
    codes, colors = map(np.concatenate, zip(*parts, strict=True))
    return _Compared(Codes(codes, 8 * codes.shape[1]), images.names, images, colors, distance_of="color")


def _of_model(options: argparse.Namespace) -> _Compared:
    """Codes of pictures by MODEL, and what its hasher was given, if this confirms pairs."""
    hasher, samples = open_for(load_model(options), options.data, options)
    codes, vectors = [], []
    for batch in in_batches(samples, f"Encoding {options.data}"):
        codes.append(codes_of(hasher, batch))
        if options.max_distance is not None:
            vectors.append(np.asarray(batch, np.float32).reshape(len(batch), -1))
    images = load_pictures(options.data, options)
    images = images.part(np.isin(images.names, samples.names or []))  # without broken ones
    together = Codes.joined(codes)
    return _Compared(together, images.names, images, np.concatenate(vectors) if vectors else None)


def _of_codes(options: argparse.Namespace) -> _Compared:
    """Codes of a file or an index, with the pictures in --images and the vectors in --vectors."""
    found = read_codes(options.data)
    images = None
    if options.images is not None:
        if found.names is None:
            raise ValueError(
                f"INDEX|CODES must have the paths of pictures for --images. Got {options.data} without them. Write "
                "it from a folder of pictures, with skhash index or skhash encode."
            )
        images = images_of_codes(options.images, {options.data: found})
    codes, ids, vectors = replace(found.codes, ids=None), found.codes.ids, None
    if options.vectors is not None:
        of_vectors = open_samples(options.vectors, options)
        vectors = of_vectors.in_order_of(ids if found.names is None else found.names, options.vectors, options.data)
    else:
        check_no_table(options.data, options)
    if found.names is None:
        names = range(len(codes)) if ids is None else ids.tolist()
        return _Compared(codes, names, images, vectors, kind="id")
    return _Compared(codes, found.names, images, vectors)


def _without_links(items: _Compared) -> _Compared:
    """The items without pictures that are links to others: their file would be called a copy of itself."""
    place_of: dict[tuple[int, int], int] = {}  # of each file, by its numbers in the file system
    for i, path in enumerate(items.paths):
        state = os.stat(path)
        first = place_of.setdefault((state.st_dev, state.st_ino), i)
        if os.path.islink(items.paths[first]) and not os.path.islink(path):
            place_of[state.st_dev, state.st_ino] = i
    n_links = len(items.paths) - len(place_of)
    if not n_links:
        return items
    chosen = sorted(place_of.values())
    return replace(
        items,
        codes=items.codes[chosen],
        names=[items.names[i] for i in chosen],
        images=items.images.part(chosen),
        vectors=None if items.vectors is None else items.vectors[chosen],
        n_links=n_links,
    )


# --- groups


def _group(items: _Compared, members: npt.NDArray[np.int64], keep: str | None) -> _Group:
    """A group, with its first or its largest item as the one to keep."""
    of_files = [_file_of(items.paths[i]) for i in members] if items.paths else []
    best = 0
    if of_files and keep != "first":
        sizes = [(file.width * file.height, file.n_bytes, file.n_freed) for file in of_files]  # a link is last
        best = sizes.index(max(sizes))
    distances = hamming_distances(items.codes[members[[best]]], items.codes[members])
    return _Group(members, int(members[best]), distances[0].tolist(), of_files)


def _file_of(path: str) -> _File:
    from PIL import Image

    with Image.open(path) as image:
        width, height = image.size
    state = os.stat(path)
    n_freed = 0 if os.path.islink(path) or state.st_nlink > 1 else state.st_size
    return _File(width, height, state.st_size, n_freed, strftime("%Y-%m-%d %H:%M", localtime(state.st_mtime)))


def _summary(options: argparse.Namespace, items: _Compared, groups: Sequence[_Group]) -> list[str]:
    """Lines that say what was found: the first groups, and what is not to keep."""
    what = "items" if items.images is None else "pictures"
    within = f"within {options.radius:g} of {items.codes.nbits} bits"
    found = _count(len(groups), "group") if groups else "no two are"
    lines = [f"{len(items.names):,} {what}: {found} {within}."]
    if items.n_links:
        lines.append(f"Left out: {_count(items.n_links, 'link')} to other pictures.")
    if not groups:
        return lines
    lines.append("")
    for number, group in enumerate(groups[:_SHOWN]):
        near = zip(group.members, group.distances, strict=True)
        others = [f"{items.names[i]} ({distance})" for i, distance in near if i != group.kept]
        more = f" and {len(others) - _SHOWN:,} more" if len(others) > _SHOWN else ""
        lines.append(f"{number + 1}. keep {items.names[group.kept]}, not {', '.join(others[:_SHOWN])}{more}")
    if len(groups) > _SHOWN:
        lines.append(f"... and {_count(len(groups) - _SHOWN, 'more group')}")
    of_others = [
        file.n_freed for group in groups for i, file in zip(group.members, group.files, strict=False) if i != group.kept
    ]
    n_others = sum(len(group.members) - 1 for group in groups)
    size = f" ({_bytes(sum(of_others))})" if of_others else ""
    return [
        *lines,
        "",
        "In parentheses: bits that differ from the one to keep.",
        f"Not to keep: {_count(n_others, what.removesuffix('s'))}{size}. No file was changed.",
    ]


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _bytes(n: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            break
        n /= 1000
    return f"{n:,.0f} {unit}" if unit == "bytes" or n >= 100 else f"{n:,.1f} {unit}"


# --- files


def _write_pairs(
    options: argparse.Namespace,
    index: HammingNeighbors,
    items: _Compared,
    groups: Sequence[_Group],
    near: NearVectors | None,
) -> int:
    """Write the pairs, ordered by groups as far as memory allows, and return their number."""
    order = np.concatenate([np.empty(0, np.int64), *(group.members for group in groups)])
    number = np.repeat(np.arange(len(groups)), [len(group.members) for group in groups])
    names = np.array(items.names, dtype=object)
    kept = names[[group.kept for group in groups]]
    n_pairs = 0
    with csv_writer(options.out) as table:
        more = [] if near is None else [f"{items.distance_of}_distance"]
        table.writerow(["group", f"{items.kind}_1", f"{items.kind}_2", "distance", *more, "keep"])
        for left, right, distances in index._near_pairs(options.radius, index._items.codes.words()[order]):
            sorting = np.lexsort((right, left))
            left, right, distances = left[sorting], right[sorting], distances[sorting]
            columns = [number[left] + 1, names[order[left]], names[order[right]], distances.astype(int)]
            if near is not None:
                by_vectors = near.distances(order[left], order[right])
                is_near = by_vectors <= near.max_distance
                left, columns = left[is_near], [column[is_near] for column in (*columns, by_vectors.round(6))]
            columns.append(kept[number[left]])
            table.writerows(zip(*(column.tolist() for column in columns), strict=True))
            n_pairs += len(columns[0])
    return n_pairs


def _write_page(options: argparse.Namespace, items: _Compared, groups: Sequence[_Group]) -> None:
    """Write a page that shows groups of pictures side by side, with what differs."""
    shown = groups[:_MAX_GROUPS]
    with progress(f"Writing {options.page}", len(shown), "groups") as show:
        sections = []
        for number, group in enumerate(shown):
            sections.append(_section(options.page, items, number + 1, group))
            show(number + 1)
    n_more = len(groups) - len(shown)
    content = {
        "title": html.escape(options.title),
        "count": f"{_count(len(groups), 'group')} among {len(items.names):,} pictures",
        "within": f"{options.radius:g} of {items.codes.nbits}",
        "groups": "\n".join(sections) or "<p>There are none.</p>",
        "more": f"<p>The file of --out has {_count(n_more, 'more group')}.</p>" if n_more else "",
    }
    template = Template(files("skhash.cli").joinpath("duplicates.html").read_text(encoding="utf-8"))
    with write_atomically(options.page) as file:
        file.write(template.substitute(content).encode("utf-8", "replace"))


def _section(page: str, items: _Compared, number: int, group: _Group) -> str:
    """One group: the picture to keep first, and what differs from it in bold type."""
    rows = list(zip(group.members.tolist(), group.distances, group.files, strict=True))
    rows.sort(key=lambda row: row[0] != group.kept)
    pixels = items.images.resized(_THUMBNAIL)
    first = rows[0][2]
    cards = []
    for i, distance, file in rows[:_MAX_PICTURES]:
        folder, name = os.path.split(items.names[i])
        facts = [
            (f"{file.width} &times; {file.height} pixels", (file.width, file.height) != (first.width, first.height)),
            (_bytes(file.n_bytes), file.n_bytes != first.n_bytes),
            (file.date, file.date != first.date),
            ("to keep" if i == group.kept else f"{_count(distance, 'bit')} differ{'s' * (distance == 1)}", False),
        ]
        lines = "".join(f"<li>{f'<b>{text}</b>' if differs else text}</li>" for text, differs in facts)
        picture = f'<img alt="" src="{address_of_pixels(pixels[i])}">'
        cards.append(
            f"<figure{' class=keep' if i == group.kept else ''}>"
            f'<a href="{address_of_file(items.paths[i], page)}">{picture}</a>'
            f"<figcaption><small>{html.escape(folder)}</small><strong>{html.escape(name)}</strong>"
            f"<ul>{lines}</ul></figcaption></figure>"
        )
    n_more = len(rows) - len(cards)
    more = f"<p>... and {_count(n_more, 'more picture')}</p>" if n_more else ""
    return f"<section><h2>Group {number}</h2><div>{''.join(cards)}</div>{more}</section>"

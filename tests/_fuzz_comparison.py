"""The files of a comparison that are fuzzed: finished fits, and tuned candidates."""

import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path

from _fuzz import Target
from _fuzz_mutators import to_json

from skhash.comparison import absences, compare, markdown_table
from skhash.comparison._page import render_page
from skhash.comparison._sealed import write_sealed
from skhash.comparison.provenance import provenance
from skhash.comparison.report import _newest
from skhash.comparison.store import Record, Store, read_candidates, read_record
from skhash.comparison.tuning import best_candidate


def rows():
    """Files of finished fits: with metrics, tuned, failed, and not applicable."""
    with tempfile.TemporaryDirectory() as folder:
        compare(methods=["lsh", "itq-cca"], nbits=[8], n_seeds=1, folder=folder)
        compare(methods=["itq-cca"], nbits=[8], n_seeds=1, tune=2, folder=folder, command="skhash compare")
        store = Store(folder)
        first = store.records()[0]
        for seed, without in ((1, {"error": "ValueError: no"}), (2, {"not_applicable": "no labels"})):
            settings = replace(first.settings, seed=seed)
            result = replace(first.result, seed=seed, ap=None, curves=None, **without)
            store.write_record(Record(settings, result, first.finished, None, "Traceback"))
        return {path.stem: path.read_bytes() for path in Path(folder, "rows").iterdir()}


def tunings():
    """Files of tuned candidates."""
    with tempfile.TemporaryDirectory() as folder:
        compare(methods=["itq-cca"], nbits=[8], n_seeds=1, tune=3, folder=folder)
        return {path.stem: path.read_bytes() for path in Path(folder, "tuning").iterdir()}


def read_row(path):
    """The record, and its report without pictures."""
    record = read_record(path)
    (record,) = _newest([record])
    results = [record.result]
    text = [markdown_table(results), *absences(results)]
    if record.result.nbits < 100:  # the page of a single result, except for its time
        text.append(render_page(results, provenance([record])))
    return record.to_dict(), text


def read_tuning(path):
    """The candidates, and the best one."""
    candidates = read_candidates(path)
    best = best_candidate(candidates) if candidates else None
    scores = [candidate.score for candidate in candidates if candidate.score is not None]
    return [candidate.to_dict() for candidate in candidates], math.fsum(scores), repr(best)


def unpack(data):
    content = json.loads(data)
    del content["sha256"]
    return content


def pack(tree):
    """A sealed file of a tree; without a seal if it is beyond JSON."""
    text = to_json(tree)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return text.encode()
    if not isinstance(content, dict):
        return text.encode()
    with tempfile.TemporaryDirectory() as folder:
        write_sealed(Path(folder, "file"), content)
        return Path(folder, "file").read_bytes()


COMPARISON = (
    Target("rows", ".json", rows, read_row, unpack, pack),
    Target("tunings", ".json", tunings, read_tuning, unpack, pack),
)

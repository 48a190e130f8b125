"""Hostile files: the runner notices what goes wrong, and nothing does."""

import signal
import sys

import numpy as np
import pytest
from _fuzz import GOOD, Outcome, Runner, failures, make_case, run_cases, table
from _fuzz_mutators import mutate_tree, to_json
from _fuzz_targets import TARGETS
from _fuzz_toy import TOY

linux = pytest.mark.skipif(sys.platform != "linux", reason="the limits are read from /proc")


@pytest.fixture(scope="module")
def toy():
    with Runner([TOY]) as runner:
        yield runner


@linux
@pytest.mark.parametrize("wrong", ["silent", "nameless", "error", "hang", "memory", "crash", "refused", "same"])
def test_the_runner_notices(wrong, toy):
    assert toy.run("toy", 0, to_json({"do": wrong}).encode()).kind == wrong


@linux
def test_the_runner_notices_what_hides(toy):
    assert toy.run("toy", 0, b'{"do": "wrapped memory"}').kind == "memory"
    assert toy.run("toy", 0, b'{"do": "wait"}', patience=0.5).kind == "hang"
    assert toy.run("toy", 0, b'{"do": "crash"}').message.endswith(str(int(signal.SIGABRT)))


def test_cases_depend_on_seed_and_number_alone():
    originals = {"a": bytes(range(256)), "b": b"{}" * 50}
    cases = [make_case(TOY, originals, number, seed) for seed in (0, 1) for number in range(20)]
    assert cases == [make_case(TOY, originals, number, seed) for seed in (0, 1) for number in range(20)]
    assert len({data for _, _, data in cases}) == 40


def test_trees_are_mutated_in_copies():
    tree = {"a": [1, 2.0, "b"], "c": {"d": np.arange(3.0)}}
    mutated = [mutate_tree(tree, np.random.default_rng(seed)) for seed in range(200)]
    assert repr(tree) == repr({"a": [1, 2.0, "b"], "c": {"d": np.arange(3.0)}})
    assert len({repr(other) for other in mutated} - {repr(tree)}) > 100


def test_the_table_counts_and_failures_are_told():
    outcomes = [Outcome("toy", i, "plain", kind) for i, kind in enumerate([*GOOD, "hang"])]
    assert table(outcomes).splitlines()[1].split() == ["toy", "1", "1", "1", "0", "0", "0", "1", "0", "0"]
    assert [str(outcome) for outcome in failures(outcomes)] == ["hang: toy 3 (plain)"]


@linux
@pytest.mark.parametrize("n_cases", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_hostile_files_are_refused(n_cases):
    """Of each kind of file, damaged and forged: no crash, no hang, no error without the path, no other content."""
    assert failures(run_cases(TARGETS, n_cases)) == []

"""Drift: its tests against scipy's, what a fit keeps, groups, alarms for new categories, files and prefixes."""

import json

import numpy as np
import pandas as pd
import pytest
from _helpers import sealed
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load as load_tensors
from scipy.stats import ttest_1samp, ttest_ind
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from skhash import EmbeddingHasher
from skhash.exceptions import InvalidFileError
from skhash.persistence import load, save
from skhash.vectors.codes import QueryFunction
from skhash.vectors.queries import HeldOutQueries

OPTIONS = {"metric": "euclidean", "n_epochs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    """Digits from 0 to 7 to learn from and to compare, and the digits 8 and 9, in random order."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    seen = X[y < 8]
    return Bunch(train=seen[:900], fresh=seen[900:], unseen=X[y >= 8])


@pytest.fixture(scope="module")
def hasher(digits):
    return EmbeddingHasher(64, **OPTIONS).fit(digits.train)


def errors_of(hasher, X):
    """Relative errors of the best linear reconstruction of X from the given codes, by the parameters of the hasher."""
    f, bits = hasher.function_, 2.0 * hasher.transform(X) - 1
    content, x = f.digits == 0, (X - f.mean) / f.scale
    offset = np.linalg.lstsq(f.decoder[content], -f.field_bias[content], rcond=None)[0]
    return ((x - bits[:, content] @ f.decoder[content] - offset) ** 2).sum(1) / (x**2).sum(1)


def holm(first, second):
    low, high = sorted([first, second])
    adjusted = {low: min(1, 2 * low), high: max(min(1, 2 * low), high)}
    return adjusted[first], adjusted[second]


def test_the_errors_are_those_of_the_reconstruction(hasher, digits):
    drift = hasher.drift(digits.fresh)
    assert_allclose(drift.error, errors_of(hasher, digits.fresh).mean(), rtol=1e-4)
    assert drift.n_samples == len(digits.fresh)


def test_held_out_samples_have_the_errors_of_new_ones(hasher, digits):
    drift, training = hasher.drift(digits.fresh), errors_of(hasher, digits.train).mean()
    assert abs(drift.error - drift.reference_error) < (drift.reference_error - training) / 2


def test_the_errors_are_compared_with_the_interval_of_the_old_mean(hasher, digits):
    mixed = np.concatenate([digits.fresh, digits.unseen[:60]])
    drift = hasher.drift(mixed)
    old = hasher._reference["errors"].astype(np.float64)  # the errors of held-out samples are not public
    upper = ttest_1samp(old, 0).confidence_interval(0.9).high  # two-sided
    p = ttest_1samp(errors_of(hasher, mixed), upper, alternative="greater").pvalue
    expected = [holm(p, shift / 1000)[0] for shift in range(1, 1001)]
    assert np.abs(np.array(expected) - drift.error_pvalue).min() < 1e-3 * drift.error_pvalue


@pytest.mark.parametrize("seed", range(3))
def test_new_categories_raise_an_alarm_and_other_samples_none(seed, digits):
    rng = np.random.default_rng(seed)
    fitted = EmbeddingHasher(64, **OPTIONS | {"random_state": seed}).fit(digits.train)
    fresh = rng.permutation(digits.fresh)
    assert not fitted.drift(fresh).alarm
    drift = fitted.drift(np.concatenate([fresh, digits.unseen]))
    assert drift.alarm
    assert min(drift.error_pvalue, drift.shift_pvalue) <= 0.05
    assert drift.error > drift.reference_error


def test_a_shift_of_the_bits_alone_raises_an_alarm(hasher, digits):
    one_side = digits.fresh[hasher.transform(digits.fresh)[:, 0] == 1]
    drift = hasher.drift(one_side)
    assert drift.alarm
    assert drift.shift_pvalue == 0.002  # none of 999 permutations, for two tests
    assert drift.largest_shift > 0.3


def test_copies_need_groups(hasher, digits):
    few = digits.fresh[:60]
    copies, groups = few.repeat(10, axis=0), np.arange(60).repeat(10)
    assert hasher.drift(copies).shift_pvalue <= 0.05
    drift = hasher.drift(copies, groups=groups)
    assert (drift.alarm, drift.n_samples) == (False, 60)
    assert drift.shift_pvalue > 0.05
    names = [f"document {group}" for group in groups]
    assert hasher.drift(copies, groups=names).n_samples == 60


def test_an_alarm_needs_a_loss_of_recall_that_can_exceed_the_tolerance(hasher, digits):
    X = np.concatenate([digits.fresh, digits.unseen])
    drift = hasher.drift(X)
    low, high = drift.recall_loss_interval
    assert_allclose((low + high) / 2, drift.reference_recall - drift.recall)
    assert hasher.drift(X, tolerance=high - 0.001).alarm
    assert not hasher.drift(X, tolerance=high + 0.001).alarm
    assert hasher.drift(X, tolerance=None).alarm


def test_the_recall_is_that_of_plain_loops(digits):
    X = digits.train[:300]
    hasher = EmbeddingHasher(64, validation_fraction=0.04, **OPTIONS).fit(X)
    n_items = 11  # of 12 held-out samples, without the query itself
    drift = hasher.drift(digits.fresh[:12])
    queries, items = hasher.project_queries(digits.fresh[:12]), 2.0 * hasher.transform(digits.fresh[:12]) - 1
    recalls = []
    for i in range(12):
        others = [j for j in range(12) if j != i]
        true = sorted(others, key=lambda j: ((digits.fresh[i] - digits.fresh[j]) ** 2).sum())[:10]
        found = sorted(others, key=lambda j: -queries[i] @ items[j])[:10]
        recalls.append(len(set(true) & set(found)) / 10)
    assert len(others) == n_items
    assert_allclose(drift.recall, np.mean(recalls))
    interval = ttest_ind(hasher._reference["recalls"], recalls, equal_var=False).confidence_interval(0.95)
    assert_allclose(drift.recall_loss_interval, interval, rtol=1e-4)
    assert hasher.drift(digits.fresh[:11]).recall is None


@pytest.mark.parametrize("options", [{"metric": "cosine"}, {"metric": "inner"}, {"factors": True}, {"hamming": False}])
def test_each_kind_of_codes(options, digits):
    hasher = EmbeddingHasher(64, **OPTIONS | options).fit(digits.train)
    drift = hasher.drift(digits.fresh)
    assert not drift.alarm
    assert abs(drift.error - drift.reference_error) < 0.05 * drift.error
    assert abs(drift.recall - drift.reference_recall) < 0.05


@pytest.mark.parametrize("factors", [False, True])
def test_a_data_frame_is_compared_without_a_warning_of_missing_names(factors, digits):
    train, fresh = (pd.DataFrame(X, columns=[f"x{i}" for i in range(64)]) for X in (digits.train, digits.fresh))
    hasher = EmbeddingHasher(64, factors=factors, **OPTIONS).fit(train)
    assert not hasher.drift(fresh, groups=fresh.index.to_series()).alarm


def test_it_depends_on_the_random_state_alone(hasher, digits):
    first, second = hasher.drift(digits.fresh), hasher.drift(digits.fresh.astype(np.float32))
    assert first == second
    assert hasher.drift(digits.fresh, random_state=1).recall != first.recall


def test_it_is_readable(hasher, digits):
    lines = repr(hasher.drift(digits.fresh)).splitlines()
    assert lines[:3] == ["Drift(", "    alarm=False,", f"    n_samples={len(digits.fresh)},"]
    assert max(map(len, lines)) < 50


def test_files_hold_what_a_fit_keeps(hasher, digits, tmp_path):
    save(hasher, tmp_path / "hasher.safetensors")
    loaded = load(tmp_path / "hasher.safetensors")
    assert loaded.drift(digits.fresh) == hasher.drift(digits.fresh)
    assert loaded.fingerprint_ == hasher.fingerprint_


def test_it_is_no_part_of_the_fingerprint(hasher, digits):
    kept = hasher.fingerprint_
    changed = EmbeddingHasher(64, **OPTIONS).fit(digits.train)
    del changed._reference
    assert changed.fingerprint_ == kept


@pytest.mark.filterwarnings("ignore:The bits of a code reconstruct the item together")
def test_a_prefix_compares_its_own_bits(hasher, digits, tmp_path):
    whole, short = hasher.drift(digits.fresh), hasher.prefix(20).drift(digits.fresh)
    assert (short.error, short.reference_error) == (whole.error, whole.reference_error)  # the search finds all bits
    assert short.recall is None
    assert short.recall_loss_interval is None
    assert short.largest_shift <= whole.largest_shift
    assert hasher.prefix(64).drift(digits.fresh) == whole
    save(hasher.prefix(20), tmp_path / "prefix.safetensors")
    assert load(tmp_path / "prefix.safetensors").drift(digits.fresh) == short


def test_a_stream_keeps_the_codes_and_what_the_fit_kept(digits):
    hasher = EmbeddingHasher(64, learning_rate=1e-2, **OPTIONS).fit(digits.train)
    codes, queries = hasher.encode(digits.fresh), hasher.project_queries(digits.fresh)
    drift = hasher.drift(digits.fresh)
    hasher.partial_fit(digits.unseen)
    assert_array_equal(hasher.encode(digits.fresh), codes)
    assert (hasher.project_queries(digits.fresh) != queries).any()
    after = hasher.drift(digits.fresh)
    assert (after.error, after.shift_pvalue) == (drift.error, drift.shift_pvalue)
    assert after.reference_recall == drift.reference_recall


def test_a_refit_replaces_what_the_fit_kept(hasher, digits):
    again = clone(hasher).fit(digits.train).fit(digits.unseen)
    assert again.drift(digits.fresh, tolerance=None).alarm
    assert not again.drift(digits.fresh, tolerance=1.0).alarm  # any loss of recall is tolerated
    assert not again.drift(digits.unseen, tolerance=None).alarm
    again.set_params(early_stopping=False).fit(digits.train)
    with pytest.raises(ValueError, match=r"`early_stopping` must be True when the hasher is fitted.*Got False instead"):
        again.drift(digits.fresh)


def test_signs_of_a_map_have_errors_too(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(HeldOutQueries, "recalls", lambda held_out, encoder: (encoder.codes is None,) * 2)
    hasher = EmbeddingHasher(64, **OPTIONS).fit(digits.train)
    assert isinstance(hasher.function_, QueryFunction)
    values = hasher.project(digits.fresh)
    signs = 2.0 * hasher.transform(digits.fresh) - 1
    factors = (values * signs).mean(axis=1, keepdims=True)
    expected = ((values - factors * signs) ** 2).sum(axis=1) / (values**2).sum(axis=1)
    drift = hasher.drift(digits.fresh)
    assert_allclose(drift.error, expected.mean(), rtol=1e-5)
    save(hasher, tmp_path / "hasher.safetensors")
    assert load(tmp_path / "hasher.safetensors").drift(digits.fresh) == drift
    with pytest.raises(ValueError, match="the prefix of a map has lost them"):
        hasher.prefix(40).drift(digits.fresh)


def test_codes_must_be_able_to_reconstruct(digits):
    hasher = EmbeddingHasher(16, **OPTIONS).fit(digits.train[:200])
    with pytest.raises(ValueError, match=r"`nbits` must be at least 32 to measure `drift`\. Got 16 instead"):
        hasher.drift(digits.fresh)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"groups": [1, 2, 3]}, r"`groups` must have one value per sample, shape \(\d+,\). Got \(3,\) instead"),
        ({"groups": np.full(len(load_digits().data), np.nan)}, "`groups` must be ints or text. Got NaN"),
        ({"tolerance": -0.1}, "`tolerance` must be None or a float from 0 to 1. Got -0.1 instead"),
        ({"tolerance": "low"}, "`tolerance` must be None or a float from 0 to 1. Got 'low' instead"),
        ({"random_state": "x"}, "'x' cannot be used to seed"),
    ],
)
def test_bad_arguments_are_named(options, match, hasher, digits):
    with pytest.raises(ValueError, match=match):
        hasher.drift(digits.fresh, **options)


def test_one_group_is_too_few(hasher, digits):
    with pytest.raises(ValueError, match=r"`X` must have at least 2 samples, of different groups\. Got 1 instead"):
        hasher.drift(digits.fresh, groups=np.zeros(len(digits.fresh), int))
    with pytest.raises(ValueError, match="`X` must have at least 2 samples"):
        hasher.drift(digits.fresh[:1])


def with_nan(array):
    return np.where(np.arange(array.size).reshape(array.shape) == 1, np.nan, array).astype(array.dtype)


ATTACKS = {
    "errors of NaN": ({"_reference.errors": with_nan}, {}, "`_reference.errors` must be finite"),
    "a negative error": ({"_reference.errors": lambda a: -a - 1}, {}, "`_reference.errors` must be at least 0"),
    "errors of text": ({}, {"errors": "x"}, "`_reference.errors` must be an array"),
    "codes of other bits": ({"_reference.codes": lambda a: a[:, 1:].copy()}, {}, "`_reference.codes` must have shape"),
    "no code": ({"_reference.codes": lambda a: a[:0]}, {}, "must have two samples or more"),
    "too few recalls": ({"_reference.recalls": lambda a: a[1:]}, {}, "`_reference.recalls` must have shape"),
    "too many items": ({}, {"n_items": 10**9}, "`_reference.n_items` must be from 1 to"),
    "a number of items that is true": ({}, {"n_items": True}, "`_reference.n_items` must be from 1 to"),
    "another array": ({}, {"other": 1}, "`_reference` must have codes, errors, recalls and n_items"),
}


@pytest.mark.parametrize(("tensors", "values", "match"), ATTACKS.values(), ids=ATTACKS)
def test_hostile_files_are_refused(tensors, values, match, hasher, tmp_path):
    path = tmp_path / "hostile.safetensors"
    save(hasher, path)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["skhash"])
    arrays = load_tensors(data)
    header["fitted"]["_reference"].update(values)
    for name, change in tensors.items():
        arrays[name] = change(arrays[name])
    path.write_bytes(sealed(header, arrays))
    with pytest.raises(InvalidFileError, match=match):
        load(path)

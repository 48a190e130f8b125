"""Files of finished results: found by their settings, and named when damaged."""

import sys

import numpy as np
import pytest
from _helpers import without_times

from skhash.comparison import compare, markdown_table, read_results
from skhash.datasets import load_dataset
from skhash.exceptions import InvalidFileError

DIGITS = {"methods": ["lsh"], "nbits": [8], "n_seeds": 1}


def test_other_data_of_the_same_name_are_other_settings(own_file, tmp_path):
    options = DIGITS | {"folder": tmp_path / "out"}
    first = compare(own_file, **options)[0]
    np.savez(own_file, X=np.random.default_rng(1).standard_normal((600, 8)))
    assert compare(own_file, **options)[0][0]["ap"] != first[0]["ap"]


def test_other_training_samples_outside_of_the_database_are_other_settings(tmp_path):
    rng, y = np.random.default_rng(0), np.repeat(np.arange(8), 10)
    X, file = rng.standard_normal((80, 4)), tmp_path / "mine.npz"
    options = {"protocol": "unseen", "methods": ["pca"], "nbits": [4], "n_seeds": 1, "folder": tmp_path / "out"}
    np.savez(file, X=X, y=y)
    before = compare(file, **options)[0][0]
    seen = np.isin(y, load_dataset(file, protocol="unseen").y_train)
    np.savez(file, X=np.where(seen[:, None], rng.standard_normal((80, 4)), X), y=y)
    assert compare(file, **options)[0][0].codes_sha256 != before.codes_sha256


def test_a_file_as_a_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match=r"must be a folder\. Got the file .*file instead"):
        compare(**DIGITS, folder=tmp_path / "file")


def test_values_of_queries_are_kept_up_to_a_number_of_queries(tmp_path, monkeypatch):
    options = DIGITS | {"folder": tmp_path, "metrics": ["ap", "ndcg_at_10"]}
    (result,) = compare(**options)[0]
    assert {name: values.mean() for name, values in result.per_query.items()} == pytest.approx(result.metrics)
    for read in (read_results(tmp_path)[0], compare(**options)[0][0]):
        for name, values in result.per_query.items():
            np.testing.assert_array_equal(read.per_query[name], values)
    assert compare(**options, per_query=False)[0][0].per_query is None
    monkeypatch.setattr(sys.modules[compare.__module__], "MAX_QUERIES", 100)
    assert compare(**options, fresh=True)[0][0].per_query is None
    assert compare(**options, per_query=True)[0][0].per_query is not None  # computed again


def test_a_result_without_a_metric_is_computed_again(tmp_path):
    reused = []
    options = DIGITS | {"folder": tmp_path, "report": lambda progress: reused.append(progress.reused)}
    compare(**options)
    (result,) = compare(**options, metrics=["ndcg"])[0]
    assert list(result.metrics) == ["ndcg"]
    compare(**options, metrics=["ndcg", "ndcg_at_10"])
    assert reused == [False, True, False]


@pytest.fixture
def damaged(tmp_path):
    """A tuned comparison, with its file of a result, of the values of its queries, and of its candidates."""
    options = {"methods": ["itq-cca"], "nbits": [8], "n_seeds": 1, "tune": 2, "folder": tmp_path}
    results = compare(**options)[0]
    paths = [next((tmp_path / "rows").glob(f"*.{ending}")) for ending in ("json", "npz")]
    return results, options, [*paths, *(tmp_path / "tuning").iterdir()]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[]", b'{"a": 1}', b"PK"])
def test_a_damaged_result_is_named_and_computed_again(damaged, which, content):
    results, options, paths = damaged
    paths[which].write_bytes(content)
    with pytest.raises(InvalidFileError, match=f"^{paths[which]} is damaged: .*Delete it, or run the comparison again"):
        read_results(options["folder"])
    with pytest.warns(UserWarning, match=f"^{paths[which]} is damaged: .*Its content is computed again"):
        assert without_times(compare(**options)[0]) == without_times(results)
    assert without_times(read_results(options["folder"])) == without_times(results)


def test_damaged_candidates_are_computed_again(damaged):
    results, options, (row, _, tuning) = damaged
    row.unlink()
    tuning.write_bytes(tuning.read_bytes()[:100])
    with pytest.warns(UserWarning, match=f"{tuning} is damaged: .*Its content is computed again"):
        assert without_times(compare(**options)[0]) == without_times(results)


def test_metrics_are_read_once_and_a_mean_has_no_values_of_queries():
    (result,) = compare(**DIGITS, metrics=iter(["ap", mean_of_one]))[0]
    assert (list(result.metrics), list(result.per_query)) == (["ap", "mean_of_one"], ["ap"])


def mean_of_one(H):
    return 1.0


def test_results_of_other_options_stay_in_the_list(own_file, tmp_path):
    def listed():
        return [(each.dataset, each.method, each.nbits, each.seed) for each in read_results(tmp_path)]

    compare(**DIGITS, folder=tmp_path)
    compare(methods=["pca"], nbits=[8, 16], n_seeds=2, folder=tmp_path)
    both = [("digits", "lsh", 8, 0), ("digits", "pca", 8, 0), ("digits", "pca", 16, 0)]
    both += [("digits", "pca", 8, 1), ("digits", "pca", 16, 1)]
    assert listed() == both
    compare(own_file, **DIGITS, folder=tmp_path)
    compare(**DIGITS, folder=tmp_path, metrics=["ndcg_at_10"])
    assert sorted(listed()) == sorted([*both, ("mine", "lsh", 8, 0)])
    (first,) = [each for each in read_results(tmp_path) if (each.dataset, each.method) == ("digits", "lsh")]
    last = read_results(tmp_path)[-1]
    assert first["ap"] is None  # the last comparison did not ask for it
    assert first["ndcg_at_10"] > 0
    assert last.dataset == "mine"
    assert "ndcg_at_10" not in last
    assert first.per_query["ndcg_at_10"].shape == (359,)
    table = markdown_table(read_results(tmp_path))
    assert [table.count(f"| {method} ") for method in ("lsh", "pca")] == [2, 2]

    compare(**DIGITS, folder=tmp_path, fresh=True)
    assert listed() == [("digits", "lsh", 8, 0)]


def test_results_of_data_that_have_changed_are_not_listed_beside_those_of_the_new_data(own_file, tmp_path):
    compare(own_file, methods=["lsh", "pca"], nbits=[8], n_seeds=1, folder=tmp_path)
    np.savez(own_file, X=np.random.default_rng(1).standard_normal((600, 8)))
    with pytest.warns(UserWarning, match="1 earlier results of mine in .* are no longer listed: the data have changed"):
        compare(own_file, **DIGITS, folder=tmp_path)
    assert [result.method for result in read_results(tmp_path)] == ["lsh"]

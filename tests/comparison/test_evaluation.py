"""What is measured of one hasher."""

from functools import partial

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils import Bunch

from skhash.comparison import METRICS, evaluate_hasher, make_hasher
from skhash.datasets import load_dataset
from skhash.exceptions import DegenerateCodesWarning
from skhash.metrics import Metric, average_precision, ndcg, precision, recall, relevance_histogram


@pytest.fixture(scope="module")
def data():
    return load_dataset("digits")


def test_curves_are_means_of_precision_and_recall(data):
    hasher = make_hasher("itq", 8, 0, "auto")
    values = evaluate_hasher(hasher, data, details=True)
    H = relevance_histogram(
        hasher.transform(data.X_query), hasher.transform(data.X_database), data.y_query, data.y_database
    )
    curves = values["curves"]
    np.testing.assert_allclose(curves["radius_precision"], [precision(H, radius=r) for r in range(9)], atol=1e-6)
    np.testing.assert_allclose(curves["radius_recall"], [recall(H, radius=r) for r in range(9)], atol=1e-6)
    np.testing.assert_allclose(curves["rank_precision"], [precision(H, k=k) for k in curves["ranks"]], atol=1e-6)
    assert values["precision_at_100"] == precision(H, k=100)


def test_a_warning_names_the_fit(data):
    flat = Bunch(**data | {"X_train": np.zeros_like(data.X_train)})
    for hasher in (make_hasher("lsh", 8, 0, "auto"), make_pipeline(MaxAbsScaler(), make_hasher("lsh", 8, 0, "auto"))):
        with pytest.warns(DegenerateCodesWarning, match="^LSHHasher, 8 bits: "):
            evaluate_hasher(hasher, flat)


def test_details_change_no_metric(data):
    short, long = (evaluate_hasher(make_hasher("lsh", 8, 0, "auto"), data, details=details) for details in (0, 1))
    assert set(short) == {*METRICS, "fit_seconds", "codes_per_second"}
    assert set(long) == {*short, "codes_sha256", "curves", "per_query"}
    assert all(short[name] == long[name] for name in METRICS)


def test_each_sample_is_encoded_once(data, monkeypatch):
    encoded = []
    hasher = make_hasher("lsh", 8, 0, "auto")
    monkeypatch.setattr(
        type(hasher), "_activations", lambda self, X: encoded.append(len(X)) or self.function_.activations(X)
    )
    evaluate_hasher(hasher, data, details=True)
    assert encoded.pop(0) == 1000  # fit looks whether bits are constant
    assert sum(encoded) == len(data.X_query) + len(data.X_database)


def test_a_radius_counts_bits_whatever_their_weights(data):
    plain, weighted = make_hasher("itq", 16, 0, "auto"), make_hasher("itq", 16, 0, "auto")
    weighted.bit_weights_ = np.linspace(0.01, 0.02, 16)
    plain, weighted = (evaluate_hasher(hasher, data, details=True) for hasher in (plain, weighted))
    assert set(plain) == set(weighted) >= set(METRICS)
    assert weighted["precision_radius_2"] == plain["precision_radius_2"]
    assert weighted["curves"]["radius_recall"] == plain["curves"]["radius_recall"]
    assert weighted["curves"]["rank_precision"] != plain["curves"]["rank_precision"]
    assert weighted["ap_best"] - weighted["ap_worst"] < 0.2 * (plain["ap_best"] - plain["ap_worst"])


def test_a_pipeline_is_ranked_as_its_hasher_on_transformed_samples(data):
    scaler = MaxAbsScaler().fit(data.X_train)
    scaled = type(data)(**data)
    for part in ("X_train", "X_query", "X_database"):
        scaled[part] = scaler.transform(data[part])
    of_pipeline = evaluate_hasher(make_pipeline(MaxAbsScaler(), make_hasher("itq", 8, 0, "auto")), data)
    of_hasher = evaluate_hasher(make_hasher("itq", 8, 0, "auto"), scaled)
    assert [of_pipeline[metric] for metric in METRICS] == [of_hasher[metric] for metric in METRICS]


def test_metrics_are_names_metrics_and_functions(data):
    hasher = make_hasher("itq", 8, 0, "auto")
    own = {
        "best": "ap_best",
        "five": partial(ndcg, k=5),
        "mean": lambda H: 0.25,
        "first": lambda H: H.counts[:, 0, 1],
    }
    values = evaluate_hasher(hasher, data, metrics=own, details=True)
    H = relevance_histogram(
        hasher.transform(data.X_query), hasher.transform(data.X_database), data.y_query, data.y_database
    )
    expected = {"best": average_precision(H, ties="best"), "five": ndcg(H, k=5), "mean": 0.25}
    expected["first"] = H.counts[:, 0, 1].mean()
    assert {name: values[name] for name in own} == pytest.approx(expected)
    assert set(values["per_query"]) == {"best", "five", "first"}  # a mean has no values of queries
    np.testing.assert_allclose(values["per_query"]["five"], ndcg(H, k=5, average=False))
    assert evaluate_hasher(hasher, data, metrics=[Metric.parse("recall_radius_2"), average_precision]).keys() == {
        "recall_radius_2",
        "average_precision",
        "fit_seconds",
        "codes_per_second",
    }


def test_a_function_of_another_shape_is_refused(data):
    with pytest.raises(ValueError, match=r"Got shape \(3,\) for \d+ queries from mine instead"):
        evaluate_hasher(make_hasher("lsh", 8, 0, "auto"), data, metrics={"mine": lambda H: np.zeros(3)})

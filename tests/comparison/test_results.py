"""Results as objects, as dicts, and as entries of results.json."""

import pytest

from skhash.comparison import METRICS, Result

KEYS = ["task", "source", "dataset", "protocol", "description", "method", "nbits", "seed", *METRICS, "fit_seconds"]
KEYS += ["codes_per_second", "codes_sha256", "parameters", "n_candidates", "tuning_seconds"]
KEYS += ["asked_seeds", "not_applicable", "error", "seconds"]

ENTRY = {"dataset": "usps", "method": "ksh", "nbits": 32, "seed": 0, "ap": 0.5, "ndcg": None, "note": "text"}


def test_a_result_is_a_flat_dict(results):
    result = results[0]
    assert list(result) == KEYS
    assert len(result) == len(KEYS)
    assert result["ap"] == dict(result)["ap"] == result.metrics["ap"]
    assert "metrics" not in result
    with pytest.raises(KeyError, match="from_dict"):
        result["from_dict"]


def test_a_result_is_read_back(results):
    for result in results:
        assert dict(Result.from_dict(dict(result))) == dict(result)
        assert Result.from_dict(dict(result) | {"curves": result.curves}).curves == result.curves


def test_numbers_under_other_names_are_metrics():
    result = Result.from_dict(ENTRY)
    assert result.metrics == {"ap": 0.5, "ndcg": None}
    assert (result.source, result.n_candidates, result.is_done) == (None, 1, True)


def test_missing_values_are_named():
    with pytest.raises(ValueError, match=r"method, nbits and seed\. method, nbits is missing"):
        Result.from_dict({"seed": 0})

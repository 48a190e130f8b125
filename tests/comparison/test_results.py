"""Results as objects, as dicts, and as entries of results.json."""

import pytest

from skhash.comparison import METRICS, Result

KEYS = ["source", "dataset", "protocol", "description", "method", "nbits", "seed", *METRICS, "fit_seconds"]
KEYS += ["codes_per_second", "codes_sha256", "parameters", "n_candidates", "tuning_seconds", "not_applicable", "error"]
KEYS += ["seconds"]

OLD = {  # an entry of a results.json of the first version
    "dataset": "usps",
    "protocol": "5k",
    "description": "usps, protocol '5k'.",
    "method": "ksh",
    "nbits": 32,
    "seed": 0,
    "ap": 0.5,
    "parameters": {"n_labelled": 1000},
    "not_applicable": None,
    "later": 1,
}


def test_to_dict_has_the_documented_keys(results):
    assert list(results[0].to_dict()) == KEYS
    assert set(results[0].to_dict(curves=True)) == {*KEYS, "curves"} == set(results[0])


def test_a_result_is_read_back(results):
    for result in results:
        assert Result.from_dict(result.to_dict(curves=True)) == result
        assert Result.from_dict(result.to_dict()).to_dict() == result.to_dict()


def test_results_of_earlier_versions_are_read():
    result = Result.from_dict(OLD)
    assert (result.ap, result.ndcg, result.source, result.n_candidates) == (0.5, None, None, 1)
    assert result.parameters == {"n_labeled": 1000}


def test_a_result_reads_like_a_dict():
    result = Result.from_dict(OLD)
    assert result["ap"] == result.ap == dict(result)["ap"]
    assert len(result) == len(KEYS) + 1
    assert "to_dict" not in result
    with pytest.raises(KeyError, match="to_dict"):
        result["to_dict"]

"""Results as objects, as dicts, and as entries of results.json."""

import pytest

from skhash.comparison import METRICS, Result

KEYS = ["task", "source", "dataset", "protocol", "description", "method", "nbits", "seed", *METRICS, "fit_seconds"]
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


def test_a_result_reads_like_a_dict():
    result = Result.from_dict(OLD)
    assert result["ap"] == result.ap == dict(result)["ap"]
    assert len(result) == len(KEYS) + 1
    assert "to_dict" not in result
    with pytest.raises(KeyError, match="to_dict"):
        result["to_dict"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ap": "0.5"}, r"`ap` must be of type float \| None\. Got '0\.5' instead"),
        ({"ap": float("nan")}, "`ap` must be .* Got nan"),
        ({"seconds": 10**400}, r"`seconds` must be of type float\. Got 1000.*\.\.\. instead"),
        ({"seed": True}, r"`seed` must be of type int\. Got True"),
        ({"curves": {"ranks": ["1"]}}, "`curves` must be of type .*Got"),
        ({"parameters": []}, r"`parameters` must be of type .*Got \[\] instead"),
    ],
)
def test_values_of_other_types_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Result.from_dict(OLD | change)


def test_missing_values_are_named():
    with pytest.raises(ValueError, match=r"method, nbits and seed\. method, nbits is missing"):
        Result.from_dict({"seed": 0})

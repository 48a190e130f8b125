"""Where results come from."""

from dataclasses import replace

from skhash.comparison import Result
from skhash.comparison._settings import Settings, Tuning
from skhash.comparison.provenance import provenance
from skhash.comparison.store import Record

SETTINGS = Settings("d", "p", "d.", "hash", "sdh", 8, 0, "SDHHasher", {}, Tuning(4, "ndcg"), {"numpy": "2.0"})
RECORD = Record(SETTINGS, Result(method="sdh", nbits=8, seed=0), "2026-11-20T22:59:21.666859+00:00", "skhash compare")


def test_records_say_how_they_were_made():
    other = replace(
        RECORD,
        settings=replace(SETTINGS, method="lsh", versions={"numpy": "2.1"}),
        result=Result(method="lsh", nbits=8, seed=0),
        finished="2026-11-21T01:02:03+00:00",
    )
    about = provenance([RECORD, other], ["A note."])
    assert about.commands == ["skhash compare"]
    assert about.versions == {"numpy": "2.0, 2.1"}
    assert about.finished == "2026-11-21 01:02 UTC"
    assert "4 candidates including the default were compared by NDCG_T" in about.tuning
    assert about.tuning.endswith("; nothing to tune: lsh")
    assert about.notes == ["A note."]


def test_without_tuning_the_defaults_are_named():
    about = provenance([replace(RECORD, settings=replace(SETTINGS, tuning=None), command=None)])
    assert (about.commands, about.tuning) == ([], "the defaults of every method")


def test_without_records_the_versions_are_those_of_now():
    assert "scikit-learn" in provenance([]).versions

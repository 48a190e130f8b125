"""How rows came about: which runs belong together, by which commands, versions and tuning."""

from skhash.comparison.leaders import NAMES
from skhash.comparison.methods import METHODS, SPACES
from skhash.comparison.tasks import versions

#: settings in which the rows of one table may differ
_OWN = ("method", "nbits", "seed", "class", "method_parameters")
_TUNED = (
    "of every method that has parameters to tune {budget} candidates, the defaults among them, were compared by "
    "{figure} on a fifth of the training rows, anew for each data set, code length and seed (unsupervised methods by "
    "the targets of these rows, too); the queries had no part in it"
)
_DEFAULTS = "the defaults of every method"


def newest(records):
    """Keep of each data set and protocol the rows that share all settings with the newest one.

    Parameters
    ----------
    records : list of dict
        As :meth:`skhash.comparison.store.Store.records` reads them.

    Returns
    -------
    list of dict
        Those that one table may hold: by data set, in the order of their first rows, code length, method and seed.
    """
    groups: dict = {}
    for record in sorted(records, key=lambda record: record["finished"]):
        settings = record["settings"]
        shared = {name: value for name, value in settings.items() if name not in _OWN}
        groups.setdefault((settings["dataset"], settings["protocol"]), []).append((shared, record))
    chosen = []
    for group in groups.values():
        chosen += sorted((record for shared, record in group if shared == group[-1][0]), key=_place)
    return chosen


def _place(record):
    row = record["row"]
    methods = list(METHODS)
    method = methods.index(row["method"]) if row["method"] in METHODS else len(methods)
    return row["nbits"], method, row["seed"]


def provenance(records):
    """Tell from the records of rows how they came about.

    Parameters
    ----------
    records : list of dict
        As :class:`skhash.comparison.store.Store` reads them; none for rows that were not kept.

    Returns
    -------
    dict
        Of "commands", "versions", "finished", "tuning" and "notes".

    Examples
    --------
    >>> from skhash.comparison.provenance import provenance
    >>> sorted(provenance([]))
    ['commands', 'finished', 'notes', 'tuning', 'versions']
    """
    if not records:
        return {"commands": [], "versions": versions(), "finished": None, "tuning": None, "notes": []}
    found: dict = {}
    for record in records:
        for name, version in record["settings"]["versions"].items():
            found.setdefault(name, {})[version] = None
    sentences = [_tuning_sentence(record["settings"]["tuning"]) for record in records]
    fixed = dict.fromkeys(record["row"]["method"] for record in records if record["settings"]["class"] not in SPACES)
    if fixed and any(record["settings"]["tuning"] for record in records):
        sentences.append(f"nothing to tune: {', '.join(fixed)}")
    return {
        "commands": list(dict.fromkeys(record["command"] for record in records if record["command"])),
        "versions": {name: ", ".join(several) for name, several in found.items()},
        "finished": max(record["finished"] for record in records)[:16].replace("T", " ") + " UTC",
        "tuning": "; ".join(dict.fromkeys(sentences)),
        "notes": [],
    }


def _tuning_sentence(tuning):
    if tuning is None:
        return _DEFAULTS
    return _TUNED.format(budget=tuning["budget"], figure=NAMES.get(tuning["figure"], tuning["figure"]))

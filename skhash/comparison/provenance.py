"""Where results come from: commands, versions, tuning."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from skhash.comparison._layouts import LAYOUTS
from skhash.comparison._settings import Tuning, versions
from skhash.comparison.store import Record
from skhash.metrics import Metric
from skhash.registry import VARIANTS

_TUNED = (
    "for every method with parameters to tune, {budget} candidates including the default were compared by {metric} "
    "on a fifth of the training samples, separately for each data set, number of bits and seed (of unsupervised "
    "methods, too, by the targets of these samples); the queries were not used"
)


@dataclass(frozen=True)
class Provenance:
    """Where the results of a report come from.

    Parameters
    ----------
    commands : list of str, default=[]
        Command lines.
    versions : dict of str to str
        Versions of Python and the libraries.
    finished : str, default=None
        Date and time of the last result.
    tuning : str, default=None
        How parameters were chosen.
    notes : list of str, default=[]
        Further sentences.
    """

    commands: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=versions)
    finished: str | None = None
    tuning: str | None = None
    notes: list[str] = field(default_factory=list)


def provenance(records: Sequence[Record], notes: Sequence[str] = ()) -> Provenance:
    """Provenance of stored results.

    Parameters
    ----------
    records : sequence of Record
        As :class:`skhash.comparison.store.Store` reads them; empty if nothing was stored.
    notes : sequence of str, default=()
        Sentences to add.

    Returns
    -------
    Provenance
        Commands, versions and tuning of the records.

    Examples
    --------
    >>> from skhash.comparison.provenance import provenance
    >>> provenance([]).commands
    []
    """
    if not records:
        return Provenance(notes=list(notes))
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for name, version in record.settings.versions.items():
            found.setdefault(name, {})[version] = None
    sentences = [_describe_tuning(record.settings.tuning) for record in records]
    fixed = dict.fromkeys(record.result.method for record in records if not _is_tunable(record))
    if fixed and any(record.settings.tuning for record in records):
        sentences.append(f"nothing to tune: {', '.join(fixed)}")
    return Provenance(
        commands=list(dict.fromkeys(record.command for record in records if record.command)),
        versions={name: ", ".join(several) for name, several in found.items()},
        finished=max(record.finished for record in records)[:16].replace("T", " ") + " UTC",
        tuning="; ".join(dict.fromkeys(sentences)),
        notes=list(notes),
    )


def _is_tunable(record: Record) -> bool:
    variant = VARIANTS.get(record.result.method)
    return variant is not None and bool(variant.method.search_space)


def _describe_tuning(tuning: Tuning | None) -> str:
    if tuning is None:
        return "the defaults of every method"
    metric = LAYOUTS["relevance"].heads.get(tuning.metric) or Metric.parse(tuning.metric).label()
    return _TUNED.format(budget=tuning.budget, metric=metric)

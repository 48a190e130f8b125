"""The settings that decide the metrics of a fit, in code and in files."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from platform import python_version
from typing import Any

from skhash import __version__
from skhash.comparison._checks import check_fields


@dataclass(frozen=True)
class Tuning:
    """Number of candidates per method, and the metric that compares them on held-out training samples."""

    budget: int
    metric: str = "ap"


@dataclass(frozen=True)
class Settings:
    """Everything that decides the metrics of a fit.

    A stored result is found by the hash of `to_dict`: do not change its keys.
    """

    dataset: str
    protocol: str
    description: str
    data: str
    method: str
    nbits: int
    seed: int
    class_name: str
    method_parameters: Mapping[str, Any]
    tuning: Tuning | None
    versions: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Settings for JSON."""
        values = dict(vars(self))
        values["class"] = values.pop("class_name")
        values["method_parameters"] = dict(self.method_parameters)
        values["tuning"] = self.tuning and {"budget": self.tuning.budget, "figure": self.tuning.metric}
        return values

    def to_tuning_dict(self) -> dict[str, Any]:
        """Everything that decides the score of a candidate: all settings except the budget."""
        return self.to_dict() | {"tuning": self.tuning and self.tuning.metric}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Settings":
        """Settings from JSON; a ValueError if a value has another type."""
        values = dict(values)
        values["class_name"] = values.pop("class")
        if (tuning := values["tuning"]) is not None:
            values["tuning"] = Tuning(tuning["budget"], tuning["figure"])
            check_fields(Tuning, vars(values["tuning"]))
        check_fields(cls, values)
        return cls(**values)

    @property
    def shared(self) -> "Settings":
        """The settings that all results of one table have in common."""
        return replace(self, method="", nbits=0, seed=0, class_name="", method_parameters={})


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions of Python, skhash and the libraries below it."""
    libraries = ("numpy", "scipy", "scikit-learn", "torch", "numba", "cvxpy")
    return {"python": python_version(), "skhash": __version__} | {name: version(name) for name in libraries}

"""Libraries that are imported when they are needed: torch at its first use, and optional ones."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any


class _Torch:
    """torch, which is imported at the first use of a name in it."""

    def __init__(self) -> None:
        self._module: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:  # the import waits, under Python's lock, for a thread that is importing it
            self._module = import_torch()
        return getattr(self._module, name)


if TYPE_CHECKING:
    import torch as torch
else:
    torch = _Torch()


def import_torch(needed_by: str = "hashers that train a network") -> Any:
    """torch; the ImportError says what to install where it is missing."""
    return library("torch", "torch", needed_by)


def library(module: str, package: str, needed_by: str) -> Any:
    """Module of an optional library; the ImportError for a missing one has the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        raise ImportError(f"{name} must be installed for {needed_by}: pip install {package}") from error


def check_installed(libraries: Iterable[tuple[str, str]], needed_by: str) -> None:
    """Raise ImportError with one command for all that are missing of some pairs of a module and its package."""
    missing = [package for module, package in dict.fromkeys(libraries) if find_spec(module) is None]
    if missing:
        names = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
        raise ImportError(f"{names} must be installed for {needed_by}: pip install {' '.join(missing)}")

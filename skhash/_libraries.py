"""Optional libraries, imported where they are needed."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


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

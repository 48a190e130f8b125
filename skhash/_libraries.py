"""Optional libraries, imported where they are needed."""

from importlib import import_module
from typing import Any


def library(module: str, package: str, needed_by: str) -> Any:
    """Module of an optional library; the ImportError for a missing one has the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        raise ImportError(f"{name} must be installed for {needed_by}: pip install {package}") from error

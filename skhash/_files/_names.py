"""Names of classes and parameters in saved files."""

from collections.abc import Mapping
from typing import Any

#: parameters that were renamed since a file may have been written: old name to new name
_RENAMED = {"n_labelled": "n_labeled", "max_rows": "max_samples"}


def qualified_name(value: Any) -> str:
    """Name of a class or function, or of the class of an object, with its module."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def with_current_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a saved file under their current names."""
    return {_RENAMED.get(name, name): value for name, value in parameters.items()}

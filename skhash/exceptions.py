"""Errors and warnings of skhash.

They derive from the built-in errors that scikit-learn raises in the same situation, so that
code which catches ``ValueError`` or ``UserWarning`` works as it did.
"""

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_ON_COMMAND_LINE = ContextVar("_ON_COMMAND_LINE", default=False)


def parameter(name: str, *value: Any) -> str:
    """A parameter in a message, with a value if one is given: `labels`, labels="y"; or --labels y as an option.

    The value is text, a list of text, or None.
    """
    parts = value[0] if value and isinstance(value[0], list) else [*value]
    if _ON_COMMAND_LINE.get():
        text = "none" if parts == [None] else ",".join(parts)
        return " ".join([f"--{name.replace('_', '-')}", *([shlex.quote(text)] if value else [])]).replace("\t", r"\t")
    if not value:
        return f"`{name}`"
    literal = "None" if parts == [None] else json.dumps(parts if len(parts) > 1 else parts[0], ensure_ascii=False)
    return f"{name}={literal}"


@contextmanager
def named_as_options() -> Iterator[None]:
    """Context manager in which messages name options of the command line in place of parameters."""
    token = _ON_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _ON_COMMAND_LINE.reset(token)


class InvalidFileError(ValueError):
    """Error of a file that cannot be read, whatever is wrong with it.

    The message begins with the path of the file. Models, checkpoints, data sets and the
    results of a comparison all raise it.

    Parameters
    ----------
    path : path-like
        The file.
    reason : str
        What is wrong, and what to do about it: the end of a sentence that begins with the path.

    Attributes
    ----------
    path : str
        The file.

    Examples
    --------
    >>> from skhash.exceptions import InvalidFileError
    >>> raise InvalidFileError("digits.safetensors", "is cut short. Save it again.")
    Traceback (most recent call last):
    ...
    skhash.exceptions.InvalidFileError: digits.safetensors is cut short. Save it again.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"{os.fspath(path)} {reason}")
        self.path, self.reason = os.fspath(path), reason

    def __reduce__(self) -> tuple[type["InvalidFileError"], tuple[str, str]]:
        return type(self), (self.path, self.reason)  # processes of joblib send errors as pickles


class DegenerateCodesWarning(UserWarning):
    """Warning about codes that tell nothing apart: a constant bit, or one code for all samples or for two classes.

    Examples
    --------
    >>> import warnings
    >>> from skhash.exceptions import DegenerateCodesWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DegenerateCodesWarning)  # make it an error
    """

"""Errors and warnings of skhash.

They derive from the built-in errors that scikit-learn raises in the same situation, so that
code which catches ``ValueError`` or ``UserWarning`` works as it did.
"""

import os


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

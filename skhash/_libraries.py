"""Optional libraries, imported where they are needed."""

from importlib import import_module
from typing import Any


def library(module: str, package: str, needed_by: str) -> Any:
    """Module of an optional library.

    Parameters
    ----------
    module : str
        Name of the module.
    package : str
        What pip installs.
    needed_by : str
        What needs the library, for the message.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ImportError
        If the library is not installed. The message has the command that installs it.

    Examples
    --------
    >>> from skhash._libraries import library
    >>> library("json", "json", "this example").dumps([1])
    '[1]'
    >>> library("no_such_module", "no-such-package", "this example")
    Traceback (most recent call last):
    ...
    ImportError: no_such_module must be installed for this example: pip install no-such-package
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        raise ImportError(f"{name} must be installed for {needed_by}: pip install {package}") from error

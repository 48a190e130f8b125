"""The public callables of skhash, and their parameters by annotation."""

import importlib
import inspect
import pkgutil

import skhash


def public_callables():
    """Dotted name of each callable in `__all__` of a public module, and of each public method of a class in it."""
    found = {}
    for module in pkgutil.walk_packages(skhash.__path__, "skhash."):
        if any(part.startswith("_") for part in module.name.split(".")):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:  # of an optional library
            continue
        for name in getattr(loaded, "__all__", []):
            value = getattr(loaded, name)
            if inspect.isclass(value):
                found[name] = value
                for method, function in inspect.getmembers(value, callable):
                    module_of_it = getattr(function, "__module__", None) or ""  # methods of a TypedDict have None
                    if not method.startswith("_") and module_of_it.startswith("skhash"):
                        names = [base.__name__ for base in value.__mro__ if method in vars(base)]
                        found[f"{names[0]}.{method}"] = function
            elif callable(value):
                found[name] = value
    return found


def annotations_of(function):
    """Parameters of a callable with their annotations as text."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {
        parameter.name: parameter.annotation
        if isinstance(parameter.annotation, str)
        else inspect.formatannotation(parameter.annotation)
        for parameter in parameters
    }

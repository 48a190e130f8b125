"""The methods that can be compared, and what each of them may be tuned by."""

from skhash import hashers, registry
from skhash.affinity import label_matrix

#: name of every method and variant, to the class name and the parameters that set it apart
METHODS: dict = {
    name + suffix: (method.class_name, {**method.parameters, **parameters})
    for name, method in registry.METHODS.items()
    for suffix, parameters in method.variants.items()
}
#: names that stand for several methods, and which: a question to the hasher
GROUPS: dict = {
    "all": lambda hasher: True,
    "deep": lambda hasher: getattr(hasher, "backbone", None) is not None,
    "shallow": lambda hasher: getattr(hasher, "backbone", None) is None,
    "supervised": lambda hasher: hasher.__sklearn_tags__().target_tags.required,
    "unsupervised": lambda hasher: not hasher.__sklearn_tags__().target_tags.required,
}
#: hasher classes that learn from labels themselves and not from which samples are relevant
NEED_LABELS = {method.class_name for method in registry.METHODS.values() if method.needs_labels}
#: hasher class -> parameter -> a list of candidates, or `Around`; a class that is not here has nothing to tune
SPACES: dict = {method.class_name: method.search_space for method in registry.METHODS.values() if method.search_space}


def expand_methods(names):
    """Replace groups by their methods, each method once.

    Parameters
    ----------
    names : sequence of str
        Keys of `METHODS` and of `GROUPS`.

    Returns
    -------
    list of str
        Keys of `METHODS`.

    Raises
    ------
    ValueError
        If a name is neither.

    Examples
    --------
    >>> from skhash.comparison.methods import METHODS, expand_methods
    >>> expand_methods(["lsh", "all"])[:2], len(expand_methods(["all"])) == len(METHODS)
    (['lsh', 'talr'], True)
    """
    found: list = []
    for name in names:
        if name in METHODS:
            found.append(name)
        elif name in GROUPS:
            found += [method for method in METHODS if name == "all" or GROUPS[name](make_hasher(method, 8, 0, "auto"))]
        else:
            known = f"{', '.join(METHODS)}, and the groups {', '.join(GROUPS)}"
            raise ValueError(f"method {name!r} is unknown; known ones are {known}.")
    return list(dict.fromkeys(found))


def make_hasher(method, nbits, seed, affinity, **parameters):
    """Build the hasher of a method name.

    Parameters
    ----------
    method : str
        A key of `METHODS`.
    nbits : int
        Code length.
    seed : int
        Its `random_state`.
    affinity : "auto" or callable
        Its affinity.
    **parameters
        Further parameters of the hasher.

    Returns
    -------
    BaseHasher
        Not fitted.

    Examples
    --------
    >>> from skhash.comparison import make_hasher
    >>> make_hasher("itq", 16, 0, "auto")
    ITQHasher(nbits=16, random_state=0, store_database=False)
    """
    name, own = METHODS[method]
    hasher = getattr(hashers, name)(nbits, affinity=affinity, **({"store_database": False} | own | parameters))
    return hasher.set_params(random_state=seed) if hasattr(hasher, "random_state") else hasher


def why_not(method, data):
    """Say why a method cannot learn from a data set.

    Parameters
    ----------
    method : str
        A key of `METHODS`.
    data : Bunch
        As :func:`skhash.datasets.load_dataset` returns it.

    Returns
    -------
    str or None
        The reason; None if it can.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash.comparison.methods import why_not
    >>> from skhash.datasets import split
    >>> data = split(load_digits().data, protocol="labelme")
    >>> why_not("sdh", data)
    'it learns from labels, and relevance is given by a DistanceAffinity'
    >>> why_not("ksh", data) is None
    True
    """
    if METHODS[method][0] in NEED_LABELS:
        try:
            label_matrix(data.affinity, data.y_train[:1])
        except ValueError:
            return f"it learns from labels, and relevance is given by a {type(data.affinity).__name__}"
    return None

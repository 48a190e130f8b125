"""Fitted hashers of several numbers of bits, of one fit where its prefixes are as good as shorter fits."""

from skhash.comparison import make_hasher

# they learn one bit after another; the bits of LSH are random
PREFIXES = ("lsh", "structhash", "cghash")


def fit_lengths(method, all_nbits, data, seed, **parameters):
    """Fitted hashers of one method on a split, one per number of bits.

    Parameters
    ----------
    method : str
        Name of a method.
    all_nbits : list of int
        Numbers of bits, in ascending order.
    data : Bunch
        Split as ``load_dataset`` returns it.
    seed : int
        The random_state of the hashers.
    **parameters
        Further parameters of the hashers.

    Returns
    -------
    list of BaseHasher
    """

    def fit(nbits):
        hasher = make_hasher(method, nbits, seed, data.affinity, **parameters)
        return hasher.fit(data.X_train, data.y_train)

    if method not in PREFIXES:
        return [fit(nbits) for nbits in all_nbits]
    longest = fit(all_nbits[-1])
    return [longest.prefix(nbits) for nbits in all_nbits]

"""Real data sets, and the named protocols that papers split them by.

Two results compare only if queries, training samples, database, cut-off and relevance rule
are the same. A `Protocol` holds all of these, `split` applies one to any arrays, and
`load_dataset` does both for a data set.
"""

from skhash.datasets.loading import load_dataset
from skhash.datasets.protocols import PROTOCOLS, Protocol
from skhash.datasets.splitting import split

__all__ = ["PROTOCOLS", "Protocol", "load_dataset", "split"]

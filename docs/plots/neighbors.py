"""Plot of the page on finding items: how many candidates a recall takes, by the length of codes."""

from sklearn.datasets import load_digits

from skhash import ITQHasher
from skhash.displays import RecallByCandidatesDisplay
from skhash.neighbors import choose_code


def candidates():
    """Plot the recall of the ten nearest digits against the number of candidates."""
    X, _ = load_digits(return_X_y=True)
    hasher = ITQHasher(random_state=0)
    chosen = choose_code(hasher, X, nbits=(16, 32, 64, 128), candidates=(10, 20, 40, 80, 160), random_state=0)
    RecallByCandidatesDisplay.from_choice(chosen)

"""The table that its readers in Python and on the command line are tested with."""

import numpy as np
import pandas as pd


def make_frame():
    """2,000 rows of 20 features, a text label and an integer id."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 2000)
    frame = pd.DataFrame(rng.normal(size=(2000, 20)) + y[:, None], columns=[f"x{i}" for i in range(20)])
    frame.insert(3, "label", np.array(["ant", "bee", "cat", "dog"])[y])
    frame.insert(0, "id", rng.permutation(2000) + 10**9)
    return frame


def features(frame):
    return frame.drop(columns=["id", "label"])

"""Queries of classes that are not in the training set, as in table 2 of HashNet."""

import numpy as np
from sklearn.utils import Bunch


def zero_shot_split(data, n_unseen=3, random_state=0):
    """Split with training samples of some classes and queries of the others.

    Parameters
    ----------
    data : Bunch
        As :func:`skhash.datasets.load_dataset` returns it, with class labels.
    n_unseen : int, default=3
        Number of unseen classes.
    random_state : int, default=0
        Seed that decides which classes are unseen.

    Returns
    -------
    Bunch
        As `data`, with the same database, and with the unseen classes as ``unseen``.
    """
    unseen = np.random.default_rng(random_state).choice(
        np.unique(data.y_database), n_unseen, replace=False
    )
    seen, asked = ~np.isin(data.y_train, unseen), np.isin(data.y_query, unseen)
    parts = {"X_train": data.X_train[seen], "y_train": data.y_train[seen]}
    parts |= {"X_query": data.X_query[asked], "y_query": data.y_query[asked]}
    return Bunch(**data | parts, unseen=unseen)

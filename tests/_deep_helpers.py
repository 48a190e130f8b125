"""What the tests of the deep hashers share: batches, plain loops in Python, small encoders, images, callbacks."""

import itertools
import math

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from skhash.affinity import ClassAffinity, SharedLabelsAffinity

CPU = torch.device("cpu")
NBITS, WIDTH = 6, 5

#: targets of small batches, with and without pairs of both kinds
CASES = {
    "classes": [0, 0, 1, 1, 2, 2, 2, 3],
    "several labels": [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 1, 1], [0, 0, 0]],
    "no similar pair": [0, 1, 2, 3],
    "no dissimilar pair": [4, 4, 4, 4],
}


def case_of(name):
    """Targets of a case, their affinity, and which pairs are similar."""
    y = np.array(CASES[name])
    if y.ndim == 1:
        return y, ClassAffinity(), [[a == b for b in y] for a in y]
    return y, SharedLabelsAffinity(), [[bool((a & b).any()) for b in y] for a in y]


def draw(*shape, seed=0):
    """Normal values that depend on the seed only."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def loss_of(objective, activations, y):
    """The loss of one batch whose samples are the activations themselves."""
    return objective(nn.Identity(), activations, y, np.arange(len(activations)))


def finite_at_extremes(objective):
    """Whether loss and gradients of 64 bits are finite for extreme activations, and NaN shows in the loss."""
    y = np.array([0, 0, 1, 1])
    for f in (torch.full((4, 64), 50.0), torch.zeros(4, 64), 50.0 * torch.eye(4, 64)):
        f = f.clone().requires_grad_()
        loss = loss_of(objective, f, y)
        loss.backward()
        if not (torch.isfinite(loss) and torch.isfinite(f.grad).all()):
            return False
    return bool(loss_of(objective, torch.full((4, 64), torch.nan), y).isnan())


# --- plain loops


def softplus(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def half_product(u, v):
    return sum(a * b for a, b in zip(u, v, strict=True)) / 2


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def squared_gap(u):
    """Mean squared distance of activations from their signs."""
    return mean(((1.0 if a >= 0 else -1.0) - a) ** 2 for row in u for a in row)


def pairwise(u, similar):
    """Mean negative log-likelihood of the pairs, pair by pair."""
    pairs = itertools.permutations(range(len(u)), 2)
    thetas = ((half_product(u[i], u[j]), similar[i][j]) for i, j in pairs)
    return mean(-(theta * s - math.log1p(math.exp(theta))) for theta, s in thetas)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def plain_nt_xent(views, others, tau):
    """NT-Xent of two lists of views, written out."""
    views, n = [*views, *others], len(views)
    total = 0.0
    for i in range(2 * n):
        scores = [math.exp(cosine(views[i], views[j]) / tau) for j in range(2 * n)]
        total -= math.log(scores[(i + n) % (2 * n)] / (sum(scores) - scores[i]))
    return total / (2 * n)


# --- encoders, data, callbacks


class Head(nn.Module):
    """An encoder whose features are the centered and scaled samples themselves."""

    def __init__(self, mean=0.5, scale=2.0):
        super().__init__()
        self.mean = torch.full((WIDTH,), mean, dtype=torch.float64)
        self.scale = torch.tensor(scale, dtype=torch.float64)
        self.hash = nn.Linear(WIDTH, NBITS, dtype=torch.float64)

    def features(self, X):
        return (X - self.mean) / self.scale

    def head(self, features):
        return self.hash(features)

    def forward(self, X):
        return self.head(self.features(X))


class Overflowing(nn.Module):
    """A backbone without finite outputs."""

    def forward(self, X):
        return X * 1e38 * 1e38


def digit_images(dtype, n=60):
    """Digits as images of one channel, with their classes."""
    X, y = load_digits(return_X_y=True)
    X = X[:n].reshape(-1, 1, 8, 8) / 16
    return ((255 * X).astype(np.uint8) if dtype is np.uint8 else X.astype(dtype)), y[:n]


class Dataset(torch.utils.data.Dataset):
    """Pairs (sample, target)."""

    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return torch.from_numpy(self.X[i].copy()), int(self.y[i])


class Stop:
    """A callback that stops the training after the first epoch."""

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        return True

"""Activations of samples, batch by batch."""

import numpy as np
import torch
from numpy.testing import assert_allclose

from skhash.engine import Encoder, seeded
from skhash.hashers.deep import _starts
from skhash.hashers.deep._starts import compute_activations


def test_batches_and_dropout_change_nothing(monkeypatch):
    X = np.random.default_rng(0).normal(size=(10, 4))
    with seeded(0, torch.device("cpu")):
        encoder = Encoder(4, 3, "mlp", input_dropout=0.5, hidden_dropout=0.5)
    encoder.set_statistics(X)
    with torch.no_grad():
        samples = encoder.eval().read(X, slice(None))
        expected, features = encoder(samples).numpy(), encoder.features(samples).numpy()
    monkeypatch.setattr(_starts, "ENCODE_BATCH_SIZE", 4)  # the last batch has 2 samples
    activations = compute_activations(encoder.train(), X)
    assert activations.dtype == np.float32
    assert_allclose(activations, expected, rtol=1e-5, atol=1e-5)
    assert_allclose(compute_activations(encoder.train(), X, encoder.features), features, rtol=1e-5, atol=1e-5)

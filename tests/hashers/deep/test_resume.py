"""A resume is of the same training or refused: what counts, what may change, and what a user is told."""

import functools
import os
import runpy
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from _helpers import Dataset, StopAfter, needs_callbacks
from numpy.testing import assert_array_equal

from skhash import OrthoHashHasher, TALRHasher
from skhash.exceptions import InvalidFileError


@pytest.fixture
def few(digits):
    return digits.X[:200], digits.y[:200]


def make(folder, Hasher=TALRHasher, **params):
    return Hasher(**{"nbits": 8, "n_epochs": 3, "batch_size": 50, "checkpoint": folder, "random_state": 0} | params)


def stop(hasher, X, y, n_epochs=2):
    with pytest.raises(KeyboardInterrupt):
        hasher.set_callbacks(StopAfter(n_epochs)).fit(X, y)


def same_class(a, b, n=10):
    return np.equal.outer(a % n, b % n).astype(float)


def same_parity(a, b):
    return same_class(a, b, 2)


def frozen(activation, seed=0):
    torch.manual_seed(seed)
    module = torch.nn.Sequential(torch.nn.Linear(64, 16), activation())
    return module.requires_grad_(False)


OTHER = {
    "functions": lambda: ({"affinity": same_class}, {"affinity": same_parity}),
    "arguments": lambda: (
        {"affinity": functools.partial(same_class, n=10)},
        {"affinity": functools.partial(same_class, n=2)},
    ),
    "frozen weights": lambda: ({"backbone": frozen(torch.nn.ReLU)}, {"backbone": frozen(torch.nn.ReLU, seed=1)}),
    "activations": lambda: ({"backbone": frozen(torch.nn.ReLU)}, {"backbone": frozen(torch.nn.Tanh)}),
    "learning rates": lambda: ({"learning_rate": 0.1}, {"learning_rate": 0.01}),
}
SAID = {
    "functions": r"`affinity` is .*same_class in the checkpoint and .*same_parity here",
    "arguments": r"`affinity` \(functools.partial\) has other code or other values",
    "frozen weights": "`backbone` starts with other weights: build it from the same seed",
    "activations": r"`backbone` \(.*Sequential\) has other code or other values",
    "learning rates": r"`learning_rate` is 0\.1 in the checkpoint and 0\.01 here",
}


@pytest.mark.parametrize("case", OTHER)
def test_another_training_is_refused(few, tmp_path, case):
    X, y = few
    first, second = OTHER[case]()
    torch.manual_seed(5)
    stop(make(tmp_path / "first", **first), X, y)
    (file,) = (tmp_path / "first").iterdir()
    (tmp_path / "second").mkdir()
    make(tmp_path / "second", **second).fit(X, y)
    (name,) = (tmp_path / "second").iterdir()
    shutil.copy(file, name)  # under the name of the other training
    with pytest.raises(InvalidFileError, match=f"^{name} is the checkpoint of another training: {SAID[case]}") as error:
        make(tmp_path / "second", **second).fit(X, y, resume=True)
    assert "Set the same parameters and data, or move the file away to train from scratch." in str(error.value)
    with pytest.warns(
        UserWarning, match=f"starts from scratch. In {file.name}, the one that differs least, {SAID[case]}"
    ):
        resumed = make(tmp_path / "first", **second).fit(X, y, resume=True)
    fresh = make(None, **second).fit(X, y)
    assert resumed.history_ == fresh.history_
    assert_array_equal(resumed.database_.codes.rows, fresh.database_.codes.rows)


@pytest.mark.parametrize("name", ["X", "y"])
def test_other_data_are_refused(few, tmp_path, name):
    X, y = few
    stop(make(tmp_path), X, y)
    other = {"X": X.copy(), "y": y.copy()}
    other[name][1] = (other[name][1] + 1) % 10  # of 200 samples, or targets, a single one
    with pytest.warns(UserWarning, match=rf"starts from scratch.*`{name}` \(.* of shape \(200,.*\) has other values"):
        resumed = make(tmp_path).fit(**other, resume=True)
    assert resumed.history_ == make(None).fit(**other).history_


def test_what_does_not_decide_the_weights_may_change(few, tmp_path):
    X, y = few
    unbroken = make(None).fit(X, y)
    stop(make(tmp_path / "a"), X, y)
    shutil.move(tmp_path / "a", tmp_path / "b")
    changes = {"store_database": False, "deterministic": True, "device": "cpu"}
    resumed = make(tmp_path / "b", **changes, learning_rate=unbroken.settings_["learning_rate"])
    assert resumed.fit(X, y, resume=True).history_ == unbroken.history_
    assert_array_equal(resumed.encode(X), unbroken.database_.codes.rows)


def test_a_training_without_a_seed_goes_on_with_its_own_start(few, tmp_path):
    X, y = few
    options = {"random_state": None, "early_stopping": True, "n_epochs": 4}
    stop(make(tmp_path, OrthoHashHasher, **options), X, y)
    shutil.copytree(tmp_path, tmp_path / "copy")
    first = make(tmp_path, OrthoHashHasher, **options).fit(X, y, resume=True)
    again = make(tmp_path / "copy", OrthoHashHasher, **options).fit(X, y, resume=True)
    assert first.history_ == again.history_
    assert_array_equal(first.class_codes_, again.class_codes_)
    assert_array_equal(first.database_.codes.rows, again.database_.codes.rows)


class StopBefore(StopAfter):
    """A callback that interrupts the training before an epoch."""

    def on_fit_task_begin(self, estimator, context):
        if context.task_name == "epoch":
            raise KeyboardInterrupt


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_resumed_fit_that_is_interrupted_at_once_has_what_was_learned_before(few, tmp_path, early_stopping):
    stop(first := make(tmp_path, early_stopping=early_stopping), *few)
    resumed = make(tmp_path, early_stopping=early_stopping)
    with pytest.raises(KeyboardInterrupt):
        resumed.set_callbacks(StopBefore(0)).fit(*few, resume=True)
    assert resumed.history_ == first.history_
    assert resumed.n_epochs_ == 2
    assert_array_equal(resumed.project(few[0]), first.project(few[0]))


def test_the_samples_of_a_dataset_are_not_compared(few, tmp_path):
    X, y = few
    X = X.astype(np.float32)
    stop(make(tmp_path), Dataset(X, y), None)
    with pytest.warns(UserWarning, match="The samples of Dataset are not compared"):
        resumed = make(tmp_path).fit(Dataset(X, y), resume=True)
    assert resumed.history_ == make(None).fit(Dataset(X, y)).history_
    with pytest.warns(
        UserWarning, match=r"starts from scratch.*`X` \(.*Dataset of shape \(200, 64\)\) has other values"
    ):
        make(tmp_path).fit(Dataset(X[::-1].copy(), y), resume=True)


SCRIPT = """
    import sys
    import numpy as np
    import torch
    from sklearn.datasets import load_digits
    from skhash import TALRHasher

    SAME = {"zero", "one", "two", "three"}
    NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])

    class Affinity:
        options = {name: len(name) for name in SAME}
        def __init__(self, names):
            self.names = frozenset(names)
        def __call__(self, a, b):
            return np.equal.outer(self.known(a), self.known(b)).astype(float)
        def known(self, y):
            return np.array([NAMES[c] in self.names or NAMES[c] in {"nine", "eight"} for c in y])

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.act = torch.nn.Linear(64, 16), lambda x: torch.tanh(x)
        def forward(self, X):
            return self.act(self.layer(X))

    class StopAfterTwo:
        n_epochs = 0
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context):
            self.n_epochs += 1
            if self.n_epochs == 2:
                raise KeyboardInterrupt

    def noisy(batch):
        return batch + 0.1 * torch.randn_like(batch)

    def make(folder):
        torch.manual_seed(3)
        return TALRHasher(8, affinity=Affinity(SAME), backbone=Net(), n_epochs=4, batch_size=50, checkpoint=folder,
                          augment=noisy, random_state=0)

    X, y = load_digits(return_X_y=True)
    X, y = X[:200], y[:200]
    if __name__ == "__main__":
        hasher = make(sys.argv[1])
        if len(sys.argv) == 2:
            hasher.set_callbacks(StopAfterTwo()).fit(X, y)
        np.save(sys.argv[2], hasher.fit(X, y, resume=True).database_.codes.rows)
"""


ORDER = [*{"zero", "one", "two", "three"}]  # of the same set, by the hashes of this process


def other_hashes():
    """An environment in which the same set has another order."""
    for seed in range(100):
        env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-S", "-c", "print(*{'zero', 'one', 'two', 'three'})"]
        if subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.split() != ORDER:
            return env
    raise AssertionError("a hundred seeds give the order of this process")


@needs_callbacks
def test_resumes_in_a_process_with_other_hashes_of_strings(tmp_path, monkeypatch):
    script, folder, out = tmp_path / "script.py", tmp_path / "folder", tmp_path / "codes.npy"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, "-W", "error", "-W", "default::UserWarning", str(script), str(folder)]
    stopped = subprocess.run(command, env=other_hashes(), stderr=subprocess.PIPE, text=True)
    assert stopped.stderr.splitlines()[-1] == "skhash.base.InterruptedFit"
    before = torch.get_rng_state()
    monkeypatch.setattr(sys, "argv", [str(script), str(folder), str(out)])
    names = runpy.run_path(str(script), run_name="__main__")
    assert len(list(folder.iterdir())) == 1
    assert_array_equal(np.load(out), names["make"](None).fit(names["X"], names["y"]).database_.codes.rows)
    torch.set_rng_state(before)

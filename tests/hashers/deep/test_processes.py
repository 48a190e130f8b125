"""Deep hashers that several processes train together, started by torchrun on a CPU."""

import os
import subprocess
import sys
from pathlib import Path

import _process_worker
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import skhash

WORKER = Path(_process_worker.__file__)
EXAMPLE = WORKER.parents[1] / "examples" / "several_processes.py"


def torchrun(n, *command):
    """Exit status and output of a script with its arguments in `n` processes."""
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)]
    paths = [str(Path(skhash.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, *start, *map(str, command)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return _process_worker.fit_all(tmp_path_factory.mktemp("alone"))


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 4])
def test_several_processes_are_one_with_the_same_batches(alone, tmp_path, n):
    status, output = torchrun(n, WORKER, "fit_all", tmp_path)
    assert status == 0, output
    together = dict(np.load(tmp_path / "results.npz"))
    assert set(together) == set(alone)
    for name in _process_worker.HASHERS:
        keys = [key for key in alone if key.startswith(f"{name}/gradient/")]
        assert len(keys) >= 3
        for key in keys:
            assert_allclose(together[key], alone[key], rtol=0, atol=1e-5, err_msg=key)
    for name in [*_process_worker.HASHERS, "stream", "early stopping"]:
        assert_allclose(together[f"{name}/losses"], alone[f"{name}/losses"], rtol=2e-3, atol=1e-4, err_msg=name)
        assert np.mean(together[f"{name}/codes"] != alone[f"{name}/codes"]) < 0.001, name
    # noise in the backbone and random_state=None: any training, but the worker checks that all processes share it
    losses = together["noise/losses"]
    assert losses[-1] < losses[0]
    assert [len(list((tmp_path / name).glob("*"))) for name in _process_worker.HASHERS] == [1] * 4


@pytest.mark.slow
def test_a_killed_process_ends_all_and_leaves_a_checkpoint(tmp_path):
    status, output = torchrun(2, WORKER, "train_until_killed", tmp_path)
    assert status != 0
    assert "Signal 9 (SIGKILL)" in output
    assert len(list((tmp_path / "killed").glob("*.ckpt"))) == 1
    status, output = torchrun(2, WORKER, "resume", tmp_path)
    assert status == 0, output
    assert "starts from scratch" not in output
    with np.load(tmp_path / "resumed.npz") as codes:
        assert_array_equal(codes["codes"], codes["whole"])


@pytest.mark.slow
def test_processes_with_other_samples_are_refused(tmp_path):
    status, output = torchrun(2, WORKER, "give_each_its_own", tmp_path)
    assert status != 0
    assert "must be given the same parameters, X and y" in output
    assert "differs from process 0 in: X, y." in output


@pytest.mark.slow
def test_the_example(tmp_path):
    status, output = torchrun(2, EXAMPLE, "--folder", tmp_path)
    assert status == 0, output
    assert output.count("AP of the other samples: 0.9") == 1
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".ckpt", ".safetensors"]

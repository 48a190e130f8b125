"""Damaged and forged checkpoints: one error, which names the file, and nothing else happens."""

import hashlib
import io
import os
import pickle
import re
import zipfile

import numpy as np
import pytest
import torch
from _fuzz_checkpoints import checkpoints, pack_checkpoint, read_checkpoint, unpack_checkpoint
from _helpers import StopAfter

from skhash import TALRHasher
from skhash.engine import Checkpoint, fingerprint
from skhash.exceptions import InvalidFileError


@pytest.fixture(scope="module")
def originals():
    return checkpoints(["TALRHasher"])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "case.ckpt"


def refused(path, content, match):
    path.write_bytes(content)
    with pytest.raises(InvalidFileError, match=f"^{re.escape(str(path))} .*{match}") as error:
        read_checkpoint(path)
    assert re.search(r"Delete the file, or fit without resume=True|move the file away", str(error.value))


def sealed(header, payload):
    content = header + b"\n" + payload
    return b"skhash checkpoint 1\n" + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def test_flips_and_cuts_are_found(originals, path):
    data = originals["TALRHasher 1"]
    for place in np.linspace(0, len(data) - 1, 40).astype(int):
        refused(path, data[:place], "is cut short or damaged|is not a checkpoint")
        flipped = data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]
        refused(path, flipped, "is cut short or damaged|is not a checkpoint")
    refused(path, data + b"\0", "its checksum does not match")


def test_other_files_are_named(path):
    file = io.BytesIO()
    torch.save({"trainer": {}}, file)  # the format of earlier versions
    for content in (b"", b"PK", file.getvalue(), pickle.dumps([1]), b"\n" * 10_000):
        refused(path, content, "is not a checkpoint of this version of skhash")
    checkpoint = Checkpoint(path.parent, fingerprint({}, np.eye(2), None))
    checkpoint.path.mkdir()
    with pytest.raises(InvalidFileError, match=rf"^{re.escape(str(checkpoint.path))} cannot be read: "):
        checkpoint.read()


def set_in(*keys, value):
    def change(state):
        for key in keys[:-1]:
            state = state[key]
        state[keys[-1]] = value

    return change


WORDS = [1] * 624
FORGED = {
    "a position out of range": set_in("trainer", "generators", "numpy", "tuple", 2, value=10**6),
    "a position below 0": set_in("trainer", "generators", "numpy", "tuple", 2, value=-1),
    "words out of range": set_in("trainer", "generators", "numpy", "tuple", 1, value=np.full(624, 2**32)),
    "words of zeros": set_in("trainer", "generators", "numpy", "tuple", 1, value=np.zeros(624, dtype=np.int64)),
    "another generator": set_in("trainer", "generators", "numpy", "tuple", 0, value="PCG64"),
    "a position of Python": set_in("trainer", "generators", "python", "tuple", 1, value={"tuple": [*WORDS, 700]}),
    "a short state": set_in("trainer", "generators", "torch", value=np.zeros(100, dtype=np.uint8)),
    "another order": set_in("trainer", "order", "bit_generator", value="MT19937"),
    "a huge order": set_in("trainer", "order", "state", "state", value=2**200),
    "NaN weights": set_in("trainer", "encoder", "hash.weight", value=np.full((8, 6), np.nan, dtype=np.float32)),
    "NaN best weights": set_in("weights", "hash.weight", value=np.full((8, 6), np.nan, dtype=np.float32)),
    "a scale of 0": set_in("trainer", "encoder", "scale", value=np.zeros((), dtype=np.float32)),
    "a best scale of 0": set_in("weights", "scale", value=np.zeros((), dtype=np.float32)),
    "other shapes": set_in("trainer", "encoder", "hash.weight", value=np.zeros((6, 8), dtype=np.float32)),
    "another type": set_in("trainer", "encoder", "hash.weight", value=np.zeros((8, 6))),
    "no weights": lambda state: state.pop("weights"),
    "no encoder": lambda state: state["trainer"].pop("encoder"),
    "other moments": set_in("trainer", "optimizer", "state", 0, "exp_avg", value=np.zeros(10**6, dtype=np.float32)),
    "a moment of one value": set_in(
        "trainer", "optimizer", "state", 0, "exp_avg", value=np.zeros((), dtype=np.float32)
    ),
    "a moment that is a number": set_in("trainer", "optimizer", "state", 0, "exp_avg", value=0.5),
    "another device": set_in("trainer", "optimizer", "param_groups", 0, "capturable", value=True),
    "a method": set_in("trainer", "scheduler", "step", value=1),
    "too many epochs": set_in("trainer", "n_epochs_done", value=9),
    "a history of others": set_in("history", value=[]),
    "a loss of NaN": set_in("history", 0, "loss", value=float("nan")),
    "a best epoch": set_in("best", "tuple", 1, value=7),
    "another seed": set_in("seed", value=5),
    "a list": set_in("trainer", value=[]),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_states_are_refused(originals, path, case):
    tree = unpack_checkpoint(originals["TALRHasher 1"])
    FORGED[case](tree["state"])
    refused(path, pack_checkpoint(tree), "has a damaged state")


def test_forged_payloads_are_refused(originals, path):
    data = originals["TALRHasher 1"]
    header, payload = data.split(b"\n", 3)[2:]
    path.write_bytes(sealed(header, payload))
    assert len(read_checkpoint(path)[0]) == 3

    states = {
        r"tensor of shape \(10{12},\) without its values": {"x": torch.zeros(1).expand(10**12)},
        "layout torch.sparse_coo|which no state has": {"x": torch.eye(2).to_sparse()},
        "more than 32 levels": nested(60),
        "which no state has": {"x": bytearray(5)},
    }
    for match, state in states.items():
        file = io.BytesIO()
        torch.save(state, file)
        refused(path, sealed(header, file.getvalue()), match)
    refused(path, sealed(header, b""), "is not a checkpoint of skhash")
    refused(path, sealed(header, b"PK\5\6" + bytes(18)), "is not a checkpoint of skhash")
    for broken in (b"{}", b"[" * 50_000, b'{"identity": [[1]], "versions": {}}', b"\xff"):
        refused(path, sealed(broken, payload), "has a damaged header")

    compressed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as old, zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    refused(path, sealed(header, compressed.getvalue()), "compressed parts")


def nested(n_levels):
    state = []
    for _ in range(n_levels):
        state = [state]
    return state


class Call:
    """A pickle that runs a command."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_no_code_is_run(originals, path, tmp_path):
    header = originals["TALRHasher 1"].split(b"\n", 3)[2]
    file = io.BytesIO()
    torch.save({"x": Call(tmp_path / "made")}, file)
    refused(path, sealed(header, file.getvalue()), "which no state has")
    assert not (tmp_path / "made").exists()


def test_other_versions_are_a_warning(digits, tmp_path, monkeypatch):
    X, y = digits.X[:100], digits.y[:100]
    make = lambda: TALRHasher(8, n_epochs=2, checkpoint=tmp_path, random_state=0)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "1.0.0+cpu")
        with pytest.raises(KeyboardInterrupt):
            make().set_callbacks(StopAfter(1)).fit(X, y)
    with pytest.warns(
        UserWarning, match=rf"\.ckpt was written with torch 1\.0\.0, now {re.escape(torch.__version__[:3])}"
    ):
        assert make().fit(X, y, resume=True).n_epochs_ == 2


def test_a_scheduler_may_store_numpy_numbers(digits, tmp_path):
    X, y = digits.X[:100], digits.y[:100]

    def decay(optimizer):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: np.cos(step / 10))

    make = lambda folder: TALRHasher(8, n_epochs=2, lr_schedule=decay, checkpoint=folder, random_state=0)  # noqa: E731
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path).set_callbacks(StopAfter(1)).fit(X, y)
    assert make(tmp_path).fit(X, y, resume=True).history_ == make(None).fit(X, y).history_

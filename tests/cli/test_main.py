"""The command line."""

import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from _helpers import without_times

from skhash import LSHHasher, TALRHasher
from skhash.cli import _options, main
from skhash.comparison import compare
from skhash.comparison.compare import _interrupts_ignored
from skhash.datasets import PROTOCOLS
from skhash.registry import GROUPS
from skhash.registry import METHODS as REGISTERED

QUICK = ["--methods", "lsh", "--bits", "8", "--seeds", "1"]


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch):
    """Pictures take most of the time; tests/comparison/test_page.py tests them."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_the_table_of_a_single_method_explains_no_asterisk(tmp_path, capsys):
    assert main(["compare", "digits", "--methods", "pca", "--bits", "8", "--seeds", "1", "--out", str(tmp_path)]) == 0
    assert "*" not in capsys.readouterr().out + (tmp_path / "results.md").read_text(encoding="utf-8")


def test_compare_shows_progress_prints_the_table_and_writes(tmp_path, capsys):
    arguments = ["compare", "digits", "--methods", "itq,lsh", "--bits", "8", "--seeds", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    output = capsys.readouterr()
    missing = "There are no pictures, since matplotlib is not installed: pip install matplotlib."
    assert output.err.endswith(f"\nskhash: report.html: {missing}\n")
    assert output.err.startswith("digits, protocol 'holdout': 359 queries against 1,438 database samples")
    assert "[1/2] itq, 8 bits, seed 0 of digits: AP_T" in output.err
    assert " left\n[2/2] lsh, 8 bits, seed 0" in output.err
    assert "tie range" in output.out
    assert [line.count(" *") for line in output.out.splitlines() if line.startswith("| ")] == [0, 4, 0, 0, 1]
    assert "\n* the best mean at this number of bits, or " in output.out
    assert {path.name for path in tmp_path.iterdir()} > {"results.json", "results.md", "report.html"}
    entries = json.loads((tmp_path / "results.json").read_text())
    assert [entry["method"] for entry in entries] == ["itq", "lsh"]
    assert "skhash compare digits" in (tmp_path / "report.html").read_text(encoding="utf-8")

    assert main(arguments) == 0
    assert capsys.readouterr().err.count("; reused") == 2
    assert json.loads((tmp_path / "results.json").read_text()) == entries
    assert len(list((tmp_path / "rows").glob("*.json"))) == 2

    (tmp_path / "report.html").unlink()
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"File: {tmp_path / 'report.html'}\n"


def test_the_command_gives_the_results_of_the_function(tmp_path):
    arguments = ["--methods", "itq-cca,lsh", "--bits", "8", "--seeds", "1", "--tune", "2", "--tune-metric", "ndcg"]
    assert main(["compare", *arguments, "--out", str(tmp_path)]) == 0
    results, _ = compare(methods=["itq-cca", "lsh"], nbits=[8], n_seeds=1, tune=2, tune_metric="ndcg")
    expected = without_times(results)
    assert without_times(json.loads((tmp_path / "results.json").read_text())) == expected


def test_a_failed_fit_gives_status_1(monkeypatch, capsys):
    def fail(*args, **options):
        raise FloatingPointError("no")

    monkeypatch.setattr(LSHHasher, "fit", fail)
    assert main(["compare", *QUICK]) == 1
    output = capsys.readouterr()
    assert "lsh, 8 bits, seed 0 of digits: failed: FloatingPointError: no" in output.err
    assert "1 of 1 fits failed" in output.err
    assert "| lsh    | 8    | failed |" in output.out
    assert "lsh (8 bits, seed 0): failed: FloatingPointError: no." in output.out


def test_an_interrupted_run_says_what_is_kept(monkeypatch, capsys, tmp_path):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(LSHHasher, "fit", interrupt)
    assert main(["compare", *QUICK]) == 130
    assert capsys.readouterr().err.endswith("skhash: Interrupted.\n")
    assert main(["compare", *QUICK, "--out", str(tmp_path)]) == 130
    kept = f"skhash: Interrupted. Finished results are in {tmp_path}; the same command continues from there.\n"
    assert capsys.readouterr().err.endswith(kept)


def test_an_interrupted_run_prints_what_is_finished(monkeypatch, capsys):
    fit, seeds = LSHHasher.fit, []

    def interrupt(self, *args, **options):
        if self.random_state == 1:
            raise KeyboardInterrupt
        seeds.append(self.random_state)
        return fit(self, *args, **options)

    monkeypatch.setattr(LSHHasher, "fit", interrupt)
    assert main(["compare", "--methods", "lsh", "--bits", "8,16", "--seeds", "2", "--baseline", "lsh"]) == 130
    output = capsys.readouterr()
    assert [line[:27] for line in output.out.splitlines() if line.startswith("| lsh")] == [
        "| lsh (1 of 2 seeds) | 8   ",
        "| lsh (1 of 2 seeds) | 16  ",
    ]
    assert output.err.endswith("skhash: Interrupted.\n")


def test_the_table_shows_the_earlier_results_of_a_folder(tmp_path, capsys):
    words = ["compare", "--bits", "8", "--seeds", "1", "--out", str(tmp_path), "--methods"]
    assert main([*words, "itq"]) == 0
    assert main([*words, "lsh"]) == 0
    table = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert table[-4:] == ["method", "lsh", "method", "itq"]  # the table, and that of methods that are not asked for
    assert "| itq" in (tmp_path / "results.md").read_text(encoding="utf-8")
    assert main([*words, "lsh", "--fresh"]) == 0
    assert "itq" not in capsys.readouterr().out


@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_quiet_leaves_results_and_errors(option, tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "items.npy", np.random.default_rng(0).standard_normal((50, 8)))
    items, model, codes = (f"{tmp_path}/{name}" for name in ("items.npy", "model", "codes.npz"))
    commands = [
        ["compare", *QUICK, "--out", f"{tmp_path}/report"],
        ["report", f"{tmp_path}/report"],
        ["methods"],
        ["fit", items, "--method", "lsh", "--bits", "8", "--out", model],
        ["encode", model, items, "--out", codes],
        ["index", model, codes, "--out", f"{tmp_path}/index"],
        ["search", f"{tmp_path}/index", items],
        ["export", codes, "--to", "ubinary", "--out", f"{tmp_path}/x.npy"],
    ]
    for command in commands:
        assert main([*command, option]) == 0
        output = capsys.readouterr()
        assert output.err == ""
        assert output.out
    assert main(["encode", model, "nothing.npy", "--out", codes, option]) == 2
    assert capsys.readouterr().err == "skhash: error: There is no file nothing.npy.\n"

    def fail(*args, **options):
        raise FloatingPointError("no")

    monkeypatch.setattr(LSHHasher, "fit", fail)
    assert main(["compare", *QUICK, option]) == 1
    assert capsys.readouterr().err == "skhash: 1 of 1 fits failed, see above\n"


def test_every_command_has_an_option_to_be_quiet():
    actions = _options.parser()._subparsers._group_actions[0].choices
    assert set(actions) >= {"compare", "fit", "encode", "index", "search", "export", "browse", "report", "methods"}
    assert all("--quiet" in job._option_string_actions for job in actions.values())


def in_a_callback(folder):
    """Python prints and forgets what is raised in a function that C code calls."""
    call_back = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGINT))
    call_back()


def in_an_optional_import(folder):
    """As a library that goes on without a module that is not there."""
    module = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    pass\n"
    (folder / "interrupted_module.py").write_text(module)
    importlib.import_module("interrupted_module")
    del sys.modules["interrupted_module"]


def in_llvmlite(folder):
    """As numba does while it loads a kernel: the process would crash, since the rest of the function does not run."""
    module = "import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: os.abort()\n"
    exec(module, {"__name__": "llvmlite.binding.executionengine"})


def in_an_import_before_start(folder):
    """While processes start, an interrupt is ignored, so that they ignore it, too."""
    in_an_optional_import(folder)
    with _interrupts_ignored():
        time.sleep(0.3)  # longer than the pause until the interrupt comes again


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("press", [in_a_callback, in_an_optional_import, in_llvmlite, in_an_import_before_start])
def test_an_interrupt_that_would_be_lost_comes_again(press, monkeypatch, capsys, tmp_path):
    def pressed(*args, **options):
        press(tmp_path)
        return fit(*args, **options)

    fit = TALRHasher.fit
    monkeypatch.setattr(TALRHasher, "fit", pressed)
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    assert main(["compare", "--methods", "talr", "--bits", "8", "--seeds", "1"]) == 130
    assert capsys.readouterr().err.endswith("skhash: Interrupted.\n")
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("seconds", "jobs"), [(0, 1), (0.3, 1), (1, 1), (3, 1), (6, 1), (3, 2), (6, 2)])
def test_an_interrupt_at_any_time_is_one_line(seconds, jobs, tmp_path):
    """As Ctrl-C does: to all processes of the terminal, also while they import, from the first import of main on."""
    start = """
import signal, sys, skhash.cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
ready = lambda event, names: event == "import" and names[0] == "argparse" and print("ready", flush=True)
sys.addaudithook(ready)
sys.exit(skhash.cli.main())
"""
    options = ["--methods", "talr", "--bits", "8,16,24", "--seeds", "9", "--jobs", str(jobs), "--out", str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", start, "compare", *options], **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        error = process.communicate(timeout=600)[1]
    # Python itself ends by the signal, which a shell shows as 130, too, if the interrupt came inside of an exec
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in error
    assert error.splitlines()[-1].startswith("skhash: Interrupted.")


@pytest.fixture
def compared(monkeypatch):
    """Data sets, methods and bits that are compared, in place of a comparison."""
    calls = []

    def compare(datasets, *, methods, nbits, **options):
        calls.append((datasets, methods, nbits))
        return [], []

    monkeypatch.setattr("skhash.comparison.compare", compare)
    return calls


def test_data_sets_are_names_and_files_even_with_a_comma(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    name = str(tmp_path / "mine, of May.npz")
    np.savez(name, X=rng.standard_normal((3, 8))[y] + 0.1 * rng.standard_normal((200, 8)), y=y)
    assert main(["compare", name, "digits,digits", "--methods", "itq", "--bits", "8,8", "--seeds", "1"]) == 0
    output = capsys.readouterr()
    assert "[1/2] itq, 8 bits, seed 0 of mine, of May" in output.err
    assert "[2/2] itq, 8 bits, seed 0 of digits" in output.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "digits,nothing.npz"], "nothing.npz"),
        (["compare", "usp digit"], "Got 'usp' (did you mean 'usps'?), 'digit' (did you mean 'digits'?) instead"),
        (["compare", "--methods", "tarl,itq", "lhs"], "Got 'tarl' (did you mean 'talr'?), 'lhs' (did you mean 'lsh'?)"),
        (["compare", "--protocol", "hold"], "Got 'hold' (did you mean 'holdout'?) instead"),
        (["compare", "--bits", "8,x", "0"], "--bits must be ints >= 1, such as 16,32,64. Got 'x', '0' instead."),
        (["compare", "digits", "--protocol", "mirflickr"], "mirflickr"),
        (["compare", "digits", "--tune", "2", "--tune-metric", "magic"], "Got 'magic' instead"),
        (["compare", ","], "`dataset` must name at least one data set"),
        (["compare", "--fresh"], "--fresh needs --out"),
        (["compare", "--out", ""], "--out must be a folder. Got '' instead."),
        (["compare", "--tune-metric", "ndcg"], "--tune-metric needs --tune"),
        (["compare", "--out", __file__], "must be a folder"),
        (["report", "nowhere"], "nowhere has no results"),
    ],
)
def test_errors_of_the_user_get_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("skhash: error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "must be an int >= 1. Got '0'"),
        (["--jobs", "x"], "must be an int >= 1. Got 'x'"),
        (["--tune", "1"], "must be an int >= 2. Got '1'"),
    ],
)
def test_bad_options_are_refused_by_the_parser(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["compare", *arguments])
    error = capsys.readouterr().err
    assert error.startswith(f"skhash: error: argument {arguments[0]}: {message}")
    assert error.endswith("See skhash compare --help.\n")
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["compare digits", "encode model data --out x", "export codes --to faiss --out x"])
def test_an_unknown_option_names_the_help_of_its_command(command, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*command.split(), "--rerank", "--also=1"])
    name = command.split()[0]
    expected = f"skhash: error: unrecognized arguments: --rerank --also=1. See skhash {name} --help.\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    "lists",
    [
        ["usps", "my own.npz", "--methods", "talr", "itq", "--bits", "8", "16"],
        ["usps,my own.npz", "--methods", "talr,itq", "--bits", "8,16"],
        ["--methods", "talr, itq", "--bits", "8 16", "usps", "my own.npz"],
        ["--methods", "talr", "--bits", "8", "--methods", "itq", "usps", "--bits", "16,", "my own.npz"],
    ],
)
def test_commas_or_spaces_separate_lists(lists, compared):
    assert main(["compare", *lists]) == 0
    assert compared == [(["usps", "my own.npz"], ["talr", "itq"], [8, 16])]


def test_lists_have_defaults(compared):
    assert main(["compare"]) == 0
    assert compared == [(["digits"], ["talr", "itq", "lsh"], [16, 32, 64])]


def test_the_protocol_is_the_first_line(tmp_path, capsys):
    """A file with the name of a data set has the protocol of files."""
    np.savez(tmp_path / "usps.npz", X=np.eye(40), y=np.arange(40) % 2)
    assert main(["compare", str(tmp_path / "usps.npz"), *QUICK]) == 0
    first = "usps, protocol 'holdout': 8 queries against 32 database samples, 32 of them for training; relevance = same"
    assert capsys.readouterr().err.startswith(first)


def test_an_invalid_file_gives_one_line_and_status_1(tmp_path, capsys):
    path = tmp_path / "mine.npz"
    np.savez(path, X=np.full((30, 2), np.nan))
    assert main(["compare", str(path)]) == 1
    assert capsys.readouterr().err == f"skhash: error: {path} cannot be used: Input X contains NaN.\n"


def test_arrays_that_are_ignored_are_named_on_one_line(tmp_path, capsys):
    path = tmp_path / "mine.npz"
    np.savez(path, X=np.eye(40), y=np.arange(40) % 2, ids=np.arange(40))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["compare", str(path), *QUICK]) == 0
    error = capsys.readouterr().err
    assert error.startswith(
        f"skhash: warning: {path} has arrays that are ignored: ids. Only X, y, scale, test are read.\n"
    )
    assert error.count("ids") == 1


def test_an_error_that_nobody_expects_gives_one_line(monkeypatch, capsys):
    def fail(*args, **options):
        raise LookupError("no\nway")

    monkeypatch.setattr("skhash.comparison.compare", fail)
    assert main(["compare"]) == 1
    assert capsys.readouterr().err == "skhash: error: LookupError: no way (set SKHASH_TRACEBACK=1 to see where)\n"
    monkeypatch.setenv("SKHASH_TRACEBACK", "1")
    with pytest.raises(LookupError):
        main(["compare"])


def test_a_report_without_jinja2_fails_before_the_first_fit(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["compare", *QUICK, "--out", str(tmp_path / "new")]) == 1
    assert "pip install jinja2" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_methods_has_a_line_for_each(capsys):
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "method and variants          family     needs     paper"
    assert lines[1] == "talr -mlp -ndcg -ndcg-mlp    deep       relevance He et al., CVPR 2018"
    assert [line.split()[0] for line in lines[1:]] == list(REGISTERED)
    assert all(line[28] == " " and line[29] != " " for line in lines)
    for line, method in zip(lines[1:], REGISTERED.values(), strict=True):
        assert method.family in line
        assert method.paper in line
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "\n".join(f"  {line}" for line in lines) in capsys.readouterr().out


def test_the_help_lists_protocols_methods_and_groups(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["compare", "--help"])
    text = capsys.readouterr().out
    words = text.replace(",", " ").split()
    assert all(name in words for name in (*REGISTERED, "-mlp", *GROUPS, *PROTOCOLS))
    assert all(f"\n  {names}: " in text for names in ("digits", "mnist, fashion_mnist, usps, isolet"))
    assert "cifar_gist (cifar10_gist512.npz), mirflickr (mirflickr25k_tags1386.npz): " in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_command_starts_without_heavy_imports():
    code = "import sys, atexit, skhash.cli; atexit.register(lambda: print(*sys.modules)); skhash.cli.main(['--help'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(run.stdout.splitlines()[-1].split())
    assert not modules & {"torch", "numba", "sklearn", "scipy", "numpy", "multiprocessing"}
    assert "argparse" in modules


def test_options_are_written_out(capsys):
    with pytest.raises(SystemExit):
        main(["encode", "model", "data", "--out", "codes.npz", "--column", "x"])
    assert "unrecognized arguments: --column" in capsys.readouterr().err


def test_full_collections_are_rare_within_a_command_alone(monkeypatch):
    before, within = gc.get_threshold(), []
    monkeypatch.setattr("skhash.cli._methods", lambda options: within.append(gc.get_threshold()) or 0)
    assert main(["methods"]) == 0
    assert main(["compare", "nowhere.npz"]) == 2
    assert within == [(*before[:2], 10 * before[2])]
    assert gc.get_threshold() == before

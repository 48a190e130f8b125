import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
def test_python_examples_run(code, capsys):
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    assert capsys.readouterr().out
    assert names["codes"].shape == (1797, names["search"].best_params_["talrhasher__nbits"])


def test_nothing_is_left_to_fill_in():
    assert "_TABLE" not in README


def test_both_commands_are_given():
    commands = re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)
    assert len(commands) == 2
    assert "skhash compare" in commands[0]
    assert "pytest" in commands[1]


def test_continuous_integration_runs_the_test_command():
    install, run = re.search(r"(pip install -c \S+ -e \S+) && (pytest .*)\n", README).groups()
    script = (Path(__file__).parents[1] / ".ci" / "run").read_text(encoding="utf-8")
    assert install.replace("pip install", "pip install -q") in script
    assert f"\n{run}\n" in script

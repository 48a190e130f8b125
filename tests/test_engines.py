"""Recipes for Ray and Spark: they run, and give the codes of one process. `pip install -e .[engines]` installs both."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTALL = "is not installed: pip install -c constraints.txt -e .[engines]"
NEEDS = {
    "encode_on_ray": pytest.mark.skipif(find_spec("ray") is None, reason=f"ray {INSTALL}"),
    "encode_on_spark": [
        pytest.mark.skipif(find_spec("pyspark") is None, reason=f"pyspark {INSTALL}"),
        pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs a Java runtime, 17 or later"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks) for name, marks in NEEDS.items()])
def test_a_recipe_gives_the_codes_of_one_process(name, tmp_path):
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py")],
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "bits that differ from one process: 0 of 57,504" in done.stdout
    assert "as in one process: False" not in done.stdout

"""All reproductions of the papers' tables and figures, at full size, the quickest first.

    SKHASH_DATA=FOLDER python experiments/reproductions.py           # all; stop it and run it again to go on
    SKHASH_DATA=FOLDER python experiments/reproductions.py --only mnist --seeds 1
    python experiments/reproductions.py --list                       # the scripts and their times

Runs each script of examples/reproductions with --full and the options that follow. Each measured cell is stored in
experiments/results/reproductions, and is not measured again. --fresh measures all again, and stores the results in
the folder fresh_results, or in that of --out FOLDER; the same --out without --fresh continues it. A script that fails
does not stop the others. The times are those of the scripts' own descriptions.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "reproductions"
sys.path.append(str(FOLDER))
from _common import make_parser  # noqa: E402

TIME = re.compile(r"about\s+(\d+)\s+minutes\s+on\s+two(?:\s+\w+)?\s+cores")


def find_scripts():
    """Scripts by their minutes on two cores, ascending."""
    minutes = {path: int(TIME.search(path.read_text(encoding="utf-8"))[1]) for path in FOLDER.glob("plot_*.py")}
    return dict(sorted(minutes.items(), key=lambda item: (item[1], item[0])))


def run_scripts(scripts, options):
    """Names of the scripts that failed."""
    environment = os.environ | {"MPLBACKEND": "agg"}
    failed = []
    for path in scripts:
        print(f"== {path.name}", flush=True)
        command = [sys.executable, str(path), "--full", *options]
        if subprocess.run(command, env=environment, check=False).returncode:
            failed.append(path.name)
    return failed


def main():
    parser = make_parser(__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the scripts and their times, and run nothing")
    options = parser.parse_args()
    scripts = find_scripts()
    if options.list:
        for path, minutes in scripts.items():
            print(f"{minutes:4} min  {path.name}")
        rest = sum(n for path, n in scripts.items() if path.name != "plot_image_folders.py")
        print(f"{rest / 60:.0f} hours in all, or {rest / 60:.0f} to {rest / 30:.0f} CPU hours: many fits use one core.")
        print("This is without plot_image_folders.py, which reads folders of your own.")
        return
    if "SKHASH_DATA" not in os.environ:
        parser.error("SKHASH_DATA must name the folder of the data sets. Got no value.")
    failed = run_scripts(scripts, sys.argv[1:])
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}. Run the same command to go on.")


if __name__ == "__main__":
    main()

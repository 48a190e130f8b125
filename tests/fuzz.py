"""Read many hostile files and say what came of them: `python tests/fuzz.py --cases 20000`.

A case depends on the seed, the kind of file and its number alone: `--target models --case 17 --keep FILE`
writes one again. The exit status is 1 if anything but a clean error came of a damaged file.
"""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

from _fuzz import Runner, failures, make_case, table
from _fuzz_targets import TARGETS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20000, help="number of cases of all targets together")
    parser.add_argument("--target", action="append", choices=[target.name for target in TARGETS], help="default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--case", type=int, help="run one case of one target")
    parser.add_argument("--keep", type=Path, help="where to write the file of --case")
    options = parser.parse_args()
    targets = [target for target in TARGETS if target.name in (options.target or [target.name])]
    if options.case is not None:
        if options.keep:
            _, _, data = make_case(targets[0], targets[0].originals(), options.case, options.seed)
            options.keep.write_bytes(data)
        with Runner(targets, options.seed) as runner:
            print(runner.run(targets[0].name, options.case))
        return 0
    with ThreadPoolExecutor(options.jobs) as pool:
        parts = pool.map(lambda job: run_part(targets, options, job), range(options.jobs))
        outcomes = [outcome for part in parts for outcome in part]
    print(table(outcomes))
    for outcome in failures(outcomes):
        print(outcome)
    return int(bool(failures(outcomes)))


def run_part(targets, options, job):
    with Runner(targets, options.seed) as runner:
        numbers = range(job, options.cases, options.jobs)
        return [runner.run(targets[i % len(targets)].name, i // len(targets)) for i in numbers]


if __name__ == "__main__":
    sys.exit(main())

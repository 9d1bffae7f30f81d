#!/usr/bin/env python3
"""The referee with OR-Tools finds what our solver finds on small instances, and our checker agrees.

    test_ortools_referee.py --root . --binary build/release/flotilla

Ends with status 77 where ortools is not installed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def output_of(command, stdin=None):
    return subprocess.run(list(map(str, command)), input=stdin, check=True, text=True, timeout=120,
                          stdout=subprocess.PIPE).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--binary", type=Path, required=True)
    options = parser.parse_args()
    try:
        import ortools.constraint_solver.pywrapcp  # noqa: F401: only whether it is there
    except ImportError:
        print(f"skipped: ortools is not installed for {sys.executable}")
        return 77
    instances = [output_of([options.binary, "dvrp", "instance", "--customers", 6, "--seed", seed,
                            "--full"]) for seed in range(3)]
    referee = options.root / "bench/peers/ortools_referee.py"
    lines = output_of([sys.executable, referee, "-", "--seconds", 1, "--seeds", 2, "--flotilla",
                       options.binary], "".join(instances)).splitlines()
    assert len(lines) == 3, lines
    for instance, line in zip(instances, lines):
        theirs = json.loads(line)
        assert len(theirs["seeds"]) == 2 and theirs["cost"] == min(theirs["seeds"]), line
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(instance)
            file.flush()
            ours = json.loads(output_of([options.binary, "dvrp", "solve", file.name, "--json"]))
        assert abs(ours["cost"] - theirs["cost"]) < 1e-3, (ours, theirs)
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())

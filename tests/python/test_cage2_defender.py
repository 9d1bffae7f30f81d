#!/usr/bin/env python3
"""Holds examples/python/cage2_defender.py against the engine: the same actions for what policies were shown in
10,000 recorded steps, and for nothing else.

Exit status: 0 equal, 1 different, 77 skipped (there is no NumPy).
"""

import argparse
import subprocess
import sys
import unittest
from pathlib import Path

from packages import require, use_test_python

ROOT = Path(__file__).resolve().parents[2]

use_test_python()
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--recorder", required=True, help="the program defender_recorder")
parser.add_argument("--packages", required=True, help="directory for packages that are missing")
ARGUMENTS = parser.parse_args()

require({"numpy": "numpy"}, ARGUMENTS.packages)
sys.path.insert(0, str(ROOT / "examples" / "python"))
sys.dont_write_bytecode = True
from cage2_defender import Defender


def bits(table):
    return [int(bit) for digit in table for bit in f"{int(digit, 16):04b}"]


class SameActions(unittest.TestCase):
    def equal_steps(self, model, episodes):
        """How many of the recorded actions the script repeats, and of how many."""
        recorded = subprocess.run([ARGUMENTS.recorder, model, str(episodes)], capture_output=True, text=True, check=True)
        defender, equal, steps = Defender(model), 0, 0
        for line in recorded.stdout.splitlines():
            if line == "reset":
                defender.reset()
                continue
            table, action = line.split()
            equal += defender.act(bits(table)) == int(action)
            steps += 1
        return equal, steps

    def test_the_policies_of_the_project(self):
        for name, episodes in (("cage2-head", 100), ("cage2", 10)):
            model = ROOT / "assets" / name / "model.safetensors"
            with self.subTest(name):
                self.assertEqual(self.equal_steps(model, episodes), (100 * episodes, 100 * episodes))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

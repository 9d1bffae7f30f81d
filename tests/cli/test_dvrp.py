#!/usr/bin/env python3
"""Black-box tests of `flotilla dvrp`.

    test_dvrp.py --binary build/release/flotilla [unittest arguments]
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = None
TIMEOUT_S = 60


class DvrpTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="flotilla-dvrp-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def call(self, *arguments, status=0):
        command = [BINARY, "dvrp", *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                              timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, status,
                         f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done

    def json_of(self, *arguments, status=0):
        return json.loads(self.call(*arguments, "--json", status=status).stdout)

    def refused(self, *arguments, status=4):
        """The one line that says why."""
        done = self.call(*arguments, status=status)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0].removeprefix("flotilla: ")

    def write(self, name, content):
        (self.folder / name).write_text(content if isinstance(content, str)
                                        else json.dumps(content))
        return name


class Instances(DvrpTest):
    def test_customers_are_as_many_as_there_are_travellers(self):
        self.call("data", "--travellers", 3, "--cells", 5, "--out", "city")
        self.assertEqual(self.refused("instance", "--data", "city", "--customers", 4, status=2),
                         "--customers 4: there are 3 travellers")
        self.assertIn("--customers", self.refused("instance", "--customers", 0, status=2))
        drawn = json.loads(self.call("instance", "--data", "city", "--customers", 3).stdout)
        self.assertEqual(len(drawn["requests"]), 3)

    def test_full_ones_are_the_same_requests(self):
        plain = json.loads(self.call("instance", "--customers", 6, "--seed", 4).stdout)
        text = self.call("instance", "--customers", 6, "--seed", 4, "--full").stdout
        self.assertEqual(text.count("\n"), 1)
        full = json.loads(text)
        self.assertEqual(full["requests"], plain["requests"])
        self.assertEqual([len(row) for row in full["seconds"]], [13] * 13)
        self.assertEqual(full["windows"][2], full["requests"][0]["dropoff"])
        self.write("full.json", full)
        self.write("plain.json", plain)
        costs = [self.json_of("solve", name, "--iterations", 50)["cost"]
                 for name in ("full.json", "plain.json")]
        self.assertEqual(*costs)


class Check(DvrpTest):
    def setUp(self):
        super().setUp()
        self.call("instance", "--customers", 8, "--seed", 2, "--full", "--out", "eight.json")
        self.solved = self.json_of("solve", "eight.json", "--iterations", 200)

    def test_routes_of_the_solver_pass(self):
        self.write("routes.json", self.solved)
        verdict = self.json_of("check", "eight.json", "routes.json")
        self.assertEqual(verdict, {"ok": True, "cost": self.solved["cost"],
                                   "vehicles": self.solved["vehicles"]})
        self.assertEqual(self.call("check", "eight.json", "routes.json").stdout,
                         f"ok: 8 requests in {self.solved['vehicles']} vehicles, "
                         f"{self.solved['cost']:.2f} minutes\n")

    def test_the_cost_is_the_sum_of_the_ways(self):
        seconds = json.loads((self.folder / "eight.json").read_text())["seconds"]
        total = 0
        for route in self.solved["routes"]:
            stops = [0, *route, 0]
            total += sum(seconds[i][j] for i, j in zip(stops, stops[1:]))
        self.assertAlmostEqual(self.solved["cost"], total / 60, places=3)

    def test_a_fault_is_named_and_is_status_1(self):
        first = self.solved["routes"][0]
        self.write("routes.json", {"routes": self.solved["routes"][1:]})
        fault = self.json_of("check", "eight.json", "routes.json", status=1)
        self.assertFalse(fault["ok"])
        self.assertRegex(fault["fault"], r"^request \d is not served$")
        self.write("routes.json", {"routes": [first[::-1], *self.solved["routes"][1:]]})
        self.assertRegex(self.call("check", "eight.json", "routes.json", status=1).stdout,
                         r"^fault: route 0: ")
        self.write("routes.json", {"routes": [[99]]})
        self.assertEqual(self.json_of("check", "eight.json", "routes.json", status=1),
                         {"ok": False, "fault": "route 0: there is no node 99"})

    def test_files_that_are_no_routes(self):
        self.write("routes.json", "[1, 2")
        self.assertEqual(self.refused("check", "eight.json", "routes.json"),
                         "routes.json: is not JSON")
        self.write("routes.json", {"routes": [["1"]]})
        self.assertEqual(self.refused("check", "eight.json", "routes.json"),
                         "routes.json: route 0: expected a list of nodes")
        self.assertIn("none.json", self.refused("check", "eight.json", "none.json"))


def main():
    global BINARY
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    arguments, rest = parser.parse_known_args()
    BINARY = str(Path(arguments.binary).resolve())
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

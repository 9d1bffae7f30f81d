#!/usr/bin/env python3
"""How the program starts the referee of OR-Tools: the script that comes with it, and arguments that
arrive as they are, whatever characters are in them. A program that records its arguments plays the
Python that has OR-Tools, so none is needed.

    test_referee_arguments.py --binary build/release/flotilla [unittest arguments]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = None
TIMEOUT_S = 120

FAKE = """#!{python}
import json, os, sys
if sys.argv[1] == "-c":
    sys.exit({installed})
with open(sys.argv[2], encoding="utf-8") as file:
    instances = [json.loads(line) for line in file]
with open(os.path.join(os.path.dirname(sys.argv[0]), "calls"), "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
for instance in instances:
    print(json.dumps({{"cost": 1000.0, "routes": []}}))
sys.exit({status})
"""


# Serves each request alone, if `dvrp check` says that this may be.
CHECKING = """#!{python}
import json, os, subprocess, sys
if sys.argv[1] == "-c":
    sys.exit(0)
options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
folder = os.path.dirname(sys.argv[0])
with open(os.path.join(folder, "tables"), "a") as tables:
    print(options.get("--data", ""), file=tables)
files = [os.path.join(folder, f"{{name}}-{{os.getpid()}}.json") for name in ("instance", "routes")]
for line in open(sys.argv[2], encoding="utf-8"):
    requests = len(json.loads(line)["requests"])
    routes = [[2 * k + 1, 2 * k + 2] for k in range(requests)]
    for path, text in zip(files, (line, json.dumps(dict(routes=routes)))):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    check = [options["--flotilla"], "dvrp", "check", *files, "--json"]
    if "--data" in options:
        check += ["--data", options["--data"]]
    done = subprocess.run(check, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(2)
    print(json.dumps(dict(json.loads(done.stdout), routes=routes)))
"""


class Referee(unittest.TestCase):
    def setUp(self):
        # Characters that a shell would take apart.
        self.folder = Path(tempfile.mkdtemp(prefix="flotilla referee '$(touch x)\" ;*-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def fake(self, status=0, installed=True):
        path = self.folder / "py thon"
        path.write_text(FAKE.format(python=sys.executable, status=status, installed=int(not installed)))
        path.chmod(0o755)
        return path

    def examine(self, python, *arguments):
        command = [BINARY, "dvrp", "oracle", "eval", "--referee", "ortools", "--python", python,
                   "--instances", 2, "--shifted", 0, "--seconds", 0.5, "--seeds", 2, "--threads", 2,
                   *arguments]
        return subprocess.run(list(map(str, command)), cwd=self.folder, capture_output=True,
                              text=True, timeout=TIMEOUT_S)

    def test_arguments_arrive_as_they_are(self):
        data = self.folder / "a city, 'quoted'"
        subprocess.run([BINARY, "dvrp", "data", "--out", data], check=True, timeout=TIMEOUT_S,
                       stdout=subprocess.DEVNULL)
        done = self.examine(self.fake(), "--data", data, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["referee"], "ortools")
        calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        self.assertGreater(len(calls), 1)
        for call in calls:
            script, instances, *options = call
            self.assertTrue(os.path.samefile(script, self.script()), script)
            self.assertFalse(os.path.exists(instances), "the file is left behind")
            values = dict(zip(options[::2], options[1::2]))
            self.assertEqual(values["--seconds"], "0.5")
            self.assertEqual(values["--seeds"], "2")
            self.assertTrue(os.path.samefile(values["--flotilla"], BINARY))
            self.assertEqual(values["--data"], str(data))
        self.assertFalse((self.folder / "x").exists(), "a shell was between")

    def test_the_tables_of_a_larger_made_up_city_are_handed_on(self):
        run, python = self.folder / "run", self.folder / "checking"
        python.write_text(CHECKING.format(python=sys.executable))
        python.chmod(0o755)
        train = [BINARY, "train", "dvrp", "--out", run, "--customers", 4, "--num-envs", 16, "--epochs", 1,
                 "ppo.minibatch_size=16", "net.hidden=8", "eval.episodes=0", "travellers=60"]
        subprocess.run(list(map(str, train)), check=True, timeout=TIMEOUT_S, capture_output=True)
        for verb in ("eval", "pareto"):
            command = [BINARY, "dvrp", verb, run, "--referee", "ortools", "--python", python, "--instances", 2,
                       "--no-ceiling", "--threads", 2, "--json"]
            done = subprocess.run(list(map(str, command)), cwd=self.folder, capture_output=True, text=True,
                                  timeout=TIMEOUT_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["referee"], "ortools")
        tables = set((self.folder / "tables").read_text().splitlines())
        self.assertEqual(len(tables), 2)
        for folder in tables:
            self.assertFalse(os.path.exists(folder), "the tables are left behind")

    def script(self):
        return Path(BINARY).parent / "share/flotilla/ortools_referee.py"

    def test_a_referee_that_is_not_installed_is_named_before_work_begins(self):
        done = self.examine(self.fake(installed=False))
        self.assertEqual(done.returncode, 2, done.stderr)
        python = self.folder / "py thon"
        self.assertEqual(done.stderr.strip(),
                         f"flotilla: OR-Tools is not installed for {python}: {python} -m pip install ortools, "
                         "or name a Python that has it with --python")

    def test_a_referee_that_fails_is_named(self):
        done = self.examine(self.fake(status=3))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("flotilla: the referee failed: " + str(self.folder), done.stderr)

    def test_a_python_that_is_not_there_is_named(self):
        done = self.examine("/no/such/python")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("cannot run '/no/such/python': No such file or directory", done.stderr)

    def test_a_script_that_is_not_there_is_named(self):
        copy = self.folder / "flotilla"
        shutil.copy(BINARY, copy)
        command = [copy, "dvrp", "oracle", "eval", "--referee", "ortools", "--weights",
                   Path(BINARY).parent / "share/flotilla/dvrp/oracle/oracle.safetensors"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                              timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("there is no referee 'ortools_referee.py'", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    options, rest = parser.parse_known_args()
    BINARY = os.path.abspath(options.binary)
    unittest.main(argv=[sys.argv[0], *rest])

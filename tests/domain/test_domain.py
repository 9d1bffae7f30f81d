#!/usr/bin/env python3
"""A domain that is registered by one function has its environment, its recipe, its command, its
option of `train` and its remarks in the program, and nothing of another domain is there.

    test_domain.py --binary build/release/tests/echo_program [unittest arguments]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

BINARY = None
TIMEOUT_S = 120


def call(*arguments, status=0):
    with tempfile.TemporaryDirectory(prefix="flotilla-domain-") as folder:
        done = subprocess.run([BINARY, *map(str, arguments)], cwd=folder, capture_output=True,
                              text=True, timeout=TIMEOUT_S)
    if done.returncode != status:
        raise AssertionError(f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class Domain(unittest.TestCase):
    def test_its_command_runs(self):
        self.assertEqual(call("echo", "say", "hello there").stdout, "hello there\n")
        self.assertEqual(call("echo", "say", status=1).stdout, "nothing\n")

    def test_its_command_is_in_the_help_and_in_refusals(self):
        self.assertIn("what only this domain has", call("--help").stdout)
        self.assertIn("say a word", call("echo", "--help").stdout)
        self.assertEqual(call("ecko", status=2).stderr,
                         "echo_program: unknown command 'ecko'; did you mean 'echo'? (commands: "
                         "list, train, actor, eval, plot, compare, export, check, verify, bench, doctor, echo)\n")

    def test_environment_and_recipe_are_listed(self):
        shown = call("list").stdout
        self.assertRegex(shown, r"(?m)^echo +float32 \[1\]")
        self.assertRegex(shown, r"(?m)^echo +echo +repeats nearly every bit$")
        self.assertNotIn("cartpole", shown)

    def test_its_recipe_trains(self):
        done = call("train", "echo", "--json")
        summary = json.loads(done.stdout)
        self.assertEqual(summary["steps"], 20224)
        self.assertGreater(summary["eval"]["mean"], 9.5)
        self.assertIn("an echo", done.stderr, "the domain's remark")

    def test_what_it_says_behind_a_run(self):
        self.assertTrue(call("train", "echo", "--steps", 500).stdout.endswith("an echo of echo\n"))

    def test_its_option_of_train(self):
        summary = json.loads(call("train", "echo", "--rounds", 50, "--steps", 500, "--json").stdout)
        self.assertEqual(summary["steps"], 800, "updates are of 50 steps of 8 envs")
        self.assertIn("--rounds INT:INT in [1 - 100]", call("train", "echo", "--help").stdout)
        self.assertIn("--rounds INT:INT in [1 - 100]",
                      call("bench", "ppo", "echo", "--help").stdout)
        for elsewhere in (["train"], ["train", "ecko"], ["bench", "ppo"]):
            self.assertNotIn("--rounds", call(*elsewhere, "--help").stdout)
        self.assertIn("--rounds: Value 101 not in range",
                      call("train", "echo", "--rounds", 101, status=2).stderr)

    def test_nothing_of_another_domain_is_there(self):
        text = call("--help").stdout + call("train", "--help").stdout + call("bench", "--help").stdout
        for word in ("dvrp", "cage2", "workflow", "oracle", "--customers"):
            self.assertNotIn(word, text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    options, rest = parser.parse_known_args()
    BINARY = os.path.abspath(options.binary)
    unittest.main(argv=[sys.argv[0], *rest])

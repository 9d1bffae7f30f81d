#!/usr/bin/env python3
"""Black-box tests of runs on a shared library with the C interface of libenv.

    test_libenv.py --binary build/release/flotilla --libraries build/release/tests [unittest arguments]
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

OPTIONS = None
TIMEOUT_S = 60
SMALL = ["--num-envs", "8", "n_steps=16", "--threads", "1", "eval.episodes=4", "net.hidden=16",
         "ppo.lr_schedule=constant"]
SAID = "the states of 'libenv' environments cannot be saved: a resumed run begins new episodes"


class LibenvTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="flotilla-libenv-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run = self.folder / "run"

    def call(self, *arguments, status=0):
        command = [OPTIONS.binary, *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, status, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done

    def error(self, done):
        lines = [line for line in done.stderr.splitlines() if line.startswith("flotilla: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0].removeprefix("flotilla: ")

    def library(self, name="counter_libenv"):
        return f"env.library={OPTIONS.libraries / name}.so"

    def train(self, steps, *more):
        done = self.call("train", "libenv", "--out", self.run, "--steps", steps, *SMALL, *more)
        return done, json.loads((self.run / "summary.json").read_text())

    def test_a_run_is_resumed_and_evaluated(self):
        done, long = self.train(1024, self.library(), "env.frame_stack=2")
        self.assertNotIn("cannot be saved", done.stderr)
        self.assertIn("won", json.dumps(long["eval"]))
        shutil.rmtree(self.run)
        self.train(512, self.library(), "env.frame_stack=2", "--workers", 3)
        self.assertIn("is code that a file names", self.error(
            self.call("train", "--resume", self.run, "--steps", 1024, status=2)))
        self.call("train", "--resume", self.run, "--steps", 1024, self.library())
        summary = json.loads((self.run / "summary.json").read_text())
        self.assertEqual(summary["params_sha256"], long["params_sha256"])
        self.assertIn("is code that a file names", self.error(self.call("eval", self.run, status=2)))
        played = json.loads(self.call("eval", self.run, self.library(), "--episodes", 4, "--json").stdout)
        self.assertEqual({key: played[key] for key in summary["eval"]}, summary["eval"])

    def resumed_actors(self, name):
        """What each update of actors learnt, and the parameters: of a whole run, and of one that went on behind its sixth."""
        def learnt(run):
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            return [*({key: number for key, number in line.items() if key.startswith(("losses/", "charts/episodic"))}
                      for line in lines), json.loads((run / "summary.json").read_text())["params_sha256"]]
        self.call("train", "libenv", "--out", self.run, self.library(name), "env.options=length=20", "algo=appo",
                  "backend=actors", "actors=2", "workers=2", "threads=2", "async.schedule=fixed", "async.lag=1",
                  "--num-envs", 4, "n_steps=8", "--steps", 384, "--save-freq", 32, "checkpoint.keep=100",
                  "eval.episodes=0", "net.hidden=16")
        again = self.folder / "again"
        shutil.copytree(self.run, again)
        self.call("train", "--resume", again, "--from-step", 192, self.library(name))
        return learnt(self.run), learnt(again)

    def test_actors_go_on_to_the_bit(self):
        whole, again = self.resumed_actors("counter_libenv")
        self.assertEqual(len(whole), 12 + 1)
        self.assertEqual(whole, again)

    def test_what_actors_had_collected_is_learnt_as_it_was(self):
        # New episodes begin behind the rollouts of the checkpoint, of which there are two.
        whole, again = self.resumed_actors("stateless_libenv")
        self.assertEqual(whole[:8], again[:8])
        self.assertNotEqual(whole[8:], again[8:])

    def test_what_cannot_be_saved_is_said(self):
        done, _ = self.train(128, self.library("stateless_libenv"))
        self.assertIn(SAID, done.stderr)

    def test_keys(self):
        shown = self.call("list", "libenv").stdout
        for key in ("library", "env_name", "num_levels", "frame_stack", "save_state"):
            self.assertIn(key, shown)
        self.assertIn("env.frame_stack", self.call("list", "libenv", "--keys").stdout)

    def test_errors(self):
        def refusal(status, *arguments):
            return self.error(self.call("train", "libenv", "--out", self.run, *SMALL, *arguments, status=status))
        self.assertIn("library: expected the path of a shared library", refusal(2))
        self.assertIn("cannot be opened", refusal(4, "env.library=/nowhere/libenv.so"))
        self.assertIn("has version 2 of libenv, expected 1", refusal(4, self.library("later_libenv")))
        self.assertIn("has no function libenv_act", refusal(4, self.library("lazy_libenv")))
        self.assertIn("killed by signal 6 (SIGABRT)", refusal(3, self.library(), "env.env_name=broken"))
        self.assertIn("num_levels: expected an integer", refusal(2, self.library(), "env.num_levels=x"))
        text = refusal(3, self.library(), "env.options=abort_at=7")
        self.assertRegex(text, r"env \d of 'libenv \S+/counter_libenv.so' failed in step: worker killed by signal 6")
        self.assertIn(f"resume with --resume {self.run} {self.library()}", text)
        self.assertIn("in worker processes alone", self.error(self.call("check", "libenv", self.library(), status=2)))

    def test_an_abort_costs_a_row(self):
        done, summary = self.train(1024, self.library(), "env.options=abort_at=30", "--on-env-failure", "restart")
        self.assertEqual(summary["steps"], 1024)
        self.assertIn("SIGABRT", done.stderr)

    def test_bench(self):
        done = self.call("bench", "env", "libenv", self.library().removeprefix("env."), "--seconds", 0.1, "--json")
        self.assertEqual(json.loads(done.stdout)["backend"], "processes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True, type=lambda text: str(Path(text).resolve()))
    parser.add_argument("--libraries", required=True, type=lambda text: Path(text).resolve())
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])

#!/usr/bin/env python3
"""Black-box tests of what the program shows on a terminal of 80 columns, and elsewhere.

    test_terminal.py --binary build/release/flotilla [unittest arguments]

That the commands of the pages fit is tested where they are run: tests/docs/run_docs_commands.py.
"""

import argparse
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import pseudo_terminal  # noqa: E402

BINARY = None
TIMEOUT_S = 60
TINY = ["--num-envs", "8", "horizon=16", "--threads", "1", "net.hidden=8", "ppo.minibatch_size=64"]
LARGE_NET = ["net.hidden=256,256"]  # slow on every machine
# Two seconds of short updates.
LONG = ["train", "pendulum", *TINY, "--duration", "2s", "eval.episodes=0"]


class TerminalTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="flotilla-terminal-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def environment(self, **variables):
        clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
        return {**clean, **variables}

    def show(self, *arguments, status=0, columns=80, stdout=None, act=None, **variables):
        shown = pseudo_terminal.run([BINARY, *map(str, arguments)], cwd=self.folder, timeout=TIMEOUT_S,
                                    env=self.environment(**{"TERM": "xterm", **variables}), columns=columns,
                                    stdout=stdout, act=act)
        self.assertEqual(shown.status, status, shown.text)
        self.part = shown.parts[0]
        return shown

    def show_well(self, *arguments, **options):
        shown = self.show(*arguments, **options)
        self.assertEqual(self.part.faults, [])
        self.assertLess(self.part.silence_s, pseudo_terminal.SILENCE_S)
        return shown

    def pipe(self, *arguments, status=0, **variables):
        done = subprocess.run([BINARY, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              env=self.environment(TERM="xterm", **variables), timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, status, done.stderr)
        return done


class Fits(TerminalTest):
    def help_of(self, *command):
        shown = self.show_well(*command, "--help")
        names, inside = [], False
        for line in shown.lines:
            if inside and re.match(r"  [a-z0-9_-]+ ", line):
                names.append(line.split()[0])
            inside = line == "Subcommands:" or (inside and line.startswith(" "))
        return names

    def test_help_of_every_command(self):
        commands = [[name] for name in self.help_of()]
        self.assertGreaterEqual(len(commands), 10)
        while commands:
            command = commands.pop()
            commands += [[*command, name] for name in self.help_of(*command)]

    def test_help_in_a_pipe_has_an_option_on_a_line(self):
        line = next(line for line in self.pipe("train", "--help").stdout.splitlines() if "--replicas" in line)
        self.assertIn("(integer from 1 to 1000000; default 1)", line)

    def test_doctor(self):
        self.show_well("doctor")

    def test_errors_and_log_lines_are_folded(self):
        self.show_well("train", "cartpol", status=2)
        shown = self.show_well("bench", "env", "cartpole", "num_env=3", status=2)
        self.assertEqual(len(self.pipe("bench", "env", "cartpole", "num_env=3", status=2).stderr.splitlines()), 1)
        self.assertTrue(shown.lines[0].startswith("flotilla: "))
        self.show_well("bench", "env", "faulty", "fault=throw", "fault_probability=0.01", "--num-envs=2",
                       "--seconds=0.05", "--on-env-failure=restart", "--restart-budget=1000000", "--crash-dir", "")

    def test_a_table_that_has_no_room_is_folded(self):
        for seed in (1, 2):
            self.pipe("train", "cartpole", *TINY, "--steps", 256, "--seed", seed, "eval.episodes=2", "--out",
                      f"run{seed}")
        shown = self.show_well("compare", "run1", "run2")
        self.assertGreaterEqual(sum(line.startswith("run1 ") for line in shown.lines), 2)
        wide = self.show("compare", "run1", "run2", columns=250)
        self.assertEqual(sum(line.startswith("run1 ") for line in wide.lines), 1)
        narrow = self.show("compare", "run1", "run2", columns=30)
        self.assertTrue(all(len(line) <= 30 for line in narrow.lines), narrow.text)


class LiveLine(TerminalTest):
    def test_it_is_replaced_and_leaves_nothing(self):
        shown = self.show_well(*LONG, "--out", "run")
        self.assertTrue(self.part.live)
        self.assertTrue(self.part.colours)
        live = [text for text in re.split(r"\r\x1b\[K|\r\n", shown.raw.decode()) if " left" in text]
        self.assertGreater(len(live), 3)
        plain = re.sub(r"\x1b\[\d*m", "", live[0])
        self.assertRegex(plain, r"\A\[#*\.*\]  \d+\.\d %  \d s left  return \S+  [\d.,]+ [kM]? ?steps/s")
        self.assertLess(max(len(re.sub(r"\x1b\[\d*m", "", text)) for text in live), 80)

    def test_a_return_that_does_not_exist_is_a_dash(self):
        # An episode has 200 steps, and these updates have 64 of each env.
        shown = self.show_well("train", "pendulum", *TINY, "horizon=64", "ppo.epochs=60", *LARGE_NET,
                               "--epochs", 3, "eval.episodes=0", "--out", "run")
        self.assertIn("no episode ended", shown.text)
        live = [text for text in re.split(r"\r\x1b\[K|\r\n", shown.raw.decode()) if "return" in text]
        self.assertTrue(live)
        for text in live:
            self.assertIn("return -", text)
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertIsNone(summary["return_mean_100"])

    def test_log_lines_do_not_stick_to_it(self):
        # One env throws every now and then, and each time a warning is logged.
        shown = self.show_well("train", "faulty", "env.fault=throw", "env.fault_probability=0.0005", "--steps",
                               131072, "eval.episodes=0", "--on-env-failure=restart", "--restart-budget=1000000",
                               "--crash-dir", "", "--num-envs=8", "horizon=16", "net.hidden=8", "--threads=1",
                               "ppo.minibatch_size=64", "--out", "run")
        warned = [line for line in shown.lines if " warn " in line]
        self.assertGreater(len(warned), 2)
        for line in warned:
            self.assertRegex(line, r"\A\d\d:\d\d:\d\d warn  ")

    def test_without_colours(self):
        self.show_well(*LONG, "--out", "run", NO_COLOR="1")
        self.assertTrue(self.part.live)
        self.assertFalse(self.part.colours)

    def test_a_dumb_terminal_gets_plain_lines(self):
        shown = self.show(*LONG, "--out", "run", TERM="dumb")  # a line every 5 s: it may be silent
        self.assertEqual(self.part.faults, [])
        self.assertNotIn(b"\x1b", shown.raw)

    def test_a_file_and_a_pipe_get_no_escape_codes(self):
        done = self.pipe(*LONG, "--out", "run")
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        self.assertNotIn("\r", done.stdout + done.stderr)
        with open(self.folder / "out", "wb") as out:
            shown = self.show_well("check", "cartpole", stdout=out)
        text = (self.folder / "out").read_text()
        self.assertNotIn("\x1b", text)
        self.assertIn("checks passed", text)

    def test_an_interrupt_leaves_whole_lines(self):
        def interrupt(process, master):
            seen, end = b"", time.monotonic() + TIMEOUT_S / 2
            while b" left" not in seen and time.monotonic() < end:  # shown once an update is over
                if select.select([master], [], [], 0.05)[0]:
                    seen += os.read(master, 65536)
            process.send_signal(signal.SIGINT)
            return seen

        shown = self.show_well("train", "pendulum", *TINY, "--duration", "60s", "--out", "run", status=130,
                               act=interrupt)
        self.assertIn("flotilla: interrupted: this update ends, then a checkpoint is written", shown.lines)
        self.assertRegex(shown.text, r"(?m)^flotilla: interrupted after \d+ steps; .*--resume run$")


class Phases(TerminalTest):
    def test_an_evaluation_is_announced_and_shown(self):
        arguments = ["train", "pendulum", *TINY, *LARGE_NET, "env.time_limit=4000", "--duration", "1s"]
        shown = self.show_well(*arguments, "eval.episodes=128", "--out", "run")
        self.assertRegex(shown.text, r"(?m)^trained; now 128 episodes to evaluate the policy, about \d+ (s|min)$")
        self.assertIn(b"evaluating", shown.raw)
        shown = self.show_well("eval", "run", "--episodes", 512)
        self.assertIn(b"evaluating", shown.raw)

    def test_a_short_evaluation_is_not(self):
        done = self.pipe("train", "cartpole", *TINY, "--steps", 512, "eval.episodes=4", "--out", "run")
        self.assertNotIn("to evaluate", done.stderr)


class Duration(TerminalTest):
    def wall_of_last_update(self):
        lines = (self.folder / "run/metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["wall_s"] for line in lines]

    def test_evaluations_count(self):
        # Each evaluation takes longer than what is left: no update follows the one that it is of.
        self.pipe("train", "pendulum", *TINY, *LARGE_NET, "env.time_limit=4000", "eval.episodes=64",
                  "eval.every=1", "--duration", "0.2s", "--out", "run")
        self.assertEqual(len(self.wall_of_last_update()), 1)

    def test_long_updates_are_warned_of(self):
        slow = ["train", "pendulum", *TINY, *LARGE_NET, "ppo.epochs=200", "eval.episodes=0"]
        done = self.pipe(*slow, "--duration", "0.5s", "--out", "run")
        self.assertRegex(done.stderr, r"(?m)warn  an update takes \d+\.\d s, more than a tenth of the 0\.5 s that the "
                                      r"run is given: it may end so much later; smaller rollouts take less$")
        self.assertEqual(done.stderr.count("an update takes"), 1)
        walls = self.wall_of_last_update()
        self.assertTrue(all(wall < 0.5 for wall in walls[:-1]), walls)
        done = self.pipe("train", "pendulum", *TINY, "eval.episodes=0", "--duration", "60s", "--steps", 512, "--out", "short")
        self.assertNotIn("an update takes", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=Path, required=True)
    options, rest = parser.parse_known_args()
    BINARY = options.binary.resolve()
    unittest.main(argv=[sys.argv[0], *rest])

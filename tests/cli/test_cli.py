#!/usr/bin/env python3
"""Black-box tests of the flotilla binary: what a user types, and what comes back.

    test_cli.py --binary build/release/flotilla [--timed yes|no] [unittest arguments]

--timed chooses the cases that take slowness for a fault, which run alone, or the others.
Every command runs in a fresh directory, which must be empty afterwards but for what the test asked
for.
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BINARY = None
TIMED = None  # both kinds
SOURCES = Path(__file__).resolve().parents[2] / "src"
BATCHED = {"dvrp"}  # whose environments step all together
SMALLER = {"dvrp": ["customers=6"], "funding": ["market.days=12", "market.symbols=20"]}  # settings of envs that take long
TIMEOUT_S = 30

JSON_KEYS = {"env", "backend", "num_envs", "threads", "workers", "steps", "wall_s", "cpu_s",
             "steps_per_s", "trajectory_sha256"}
PPO_KEYS = {"env", "policy", "kernel", "num_envs", "threads", "steps", "wall_s", "cpu_s",
            "steps_per_s", "gflops", "machine"}
SUMMARY_KEYS = {"domain", "algo", "backend", "policy", "device", "num_envs", "workers", "threads",
                "seed", "steps", "episodes", "updates", "wall_s", "steps_per_s", "collect_s",
                "learn_s", "return_mean_100", "return_best", "eval", "peak_rss_mb",
                "params_sha256", "config_sha256", "version", "machine"}
EVAL_KEYS = {"episodes", "mean", "std", "ci95"}
MACHINE_KEYS = {"cpu", "cores", "gpu", "compiler", "torch", "blas_kernel"}
PLUGIN = "libflotilla_torch.so"  # beside the binary, where the build has libtorch
COUNTER = "libflotilla_alloc_count.so"  # beside the binary, unless a sanitizer is in it


def registered_envs():
    shown = subprocess.run([BINARY, "list"], capture_output=True, text=True, timeout=TIMEOUT_S)
    return [line.split()[0] for line in shown.stdout.split("\n\n")[0].splitlines()]


def process_fields(pid):
    """(name, parent, state) of a process, or None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name = text[text.index("(") + 1:text.rindex(")")]
    state, parent = text[text.rindex(")") + 1:].split()[:2]
    return name, int(parent), state


def is_alive(pid):
    fields = process_fields(pid)
    return fields is not None and fields[2] != "Z"


def workers_of(parent):
    found = []
    for entry in os.listdir("/proc"):
        fields = process_fields(entry) if entry.isdigit() else None
        if fields and fields[1] == parent and fields[0].startswith("flotilla-w"):
            found.append(int(entry))
    return sorted(found)


def status_field(pid, name):
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return re.search(rf"^{name}:\s*(\S+)", text, re.MULTILINE)[1]


def cpu_s(pid):
    """What a process has computed, its children not counted."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def catches_interrupts(pid):
    caught = status_field(pid, "SigCgt")
    return caught is not None and int(caught, 16) >> (signal.SIGINT - 1) & 1


def wait_for(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


class CliTest(unittest.TestCase):
    timed = False
    maxDiff = None
    may_leave = ()  # names of files that a test leaves in its directory

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="flotilla-cli-")
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        left = {path.name for path in self.dir.iterdir()} - set(self.may_leave)
        self.assertEqual(left, set(), "files were left behind")

    def run_cli(self, *arguments, binary=None, **options):
        return subprocess.run([binary or BINARY, *map(str, arguments)], capture_output=True,
                              text=True, cwd=options.pop("cwd", self.dir),
                              timeout=options.pop("timeout", TIMEOUT_S), **options)

    def start(self, *arguments):
        process = subprocess.Popen([BINARY, *map(str, arguments)], cwd=self.dir, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def expect_error(self, arguments, status, message):
        """The command ends with `status`, prints `message` on stderr and nothing on stdout."""
        result = self.run_cli(*arguments)
        self.assertEqual((result.stderr, result.stdout, result.returncode),
                         (f"flotilla: {message}\n", "", status), arguments)

    def bench(self, env, *arguments):
        """The JSON object of a short benchmark."""
        result = self.run_cli("bench", "env", env, *SMALLER.get(env, []), "--seconds", "0.01", "--json",
                              *arguments)
        self.assertEqual(result.returncode, 0, f"{env} {arguments}: {result.stderr}")
        self.assertEqual(result.stdout.count("\n"), 1, result.stdout)
        return json.loads(result.stdout)


class Help(CliTest):
    def test_every_command_explains_itself(self):
        for command in ([], ["list"], ["train"], ["check"], ["bench"], ["bench", "env"],
                        ["bench", "ppo"], ["bench", "parallel"], ["bench", "scaling"], ["bench", "threads"], ["doctor"], ["actor"]):
            for flag in ("--help", "-h"):
                with self.subTest(command=command, flag=flag):
                    result = self.run_cli(*command, flag)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))
                    self.assertIn(f"Usage: {' '.join(['flotilla', *command])} ", result.stdout)
                    self.assertIn("Exit status: 0 ok, 1 a check failed, 2 usage", result.stdout)

    def test_train_shows_the_defaults_of_runs(self):
        text = self.run_cli("train", "--help").stdout
        for option, default in (("--backend", "threads"), ("--num-envs", "64"), ("--groups", "0"),
                                ("--episodes", "0")):
            # Behind long names the rest is on the next line.
            self.assertRegex(text, rf"\n +{option}\b.*(?:\n {{20,}}.*)? default {default}\)\n")

    def test_the_launcher_knows_every_command(self):
        """It takes a word for a slip that stands nowhere in the sources as a text."""
        text = self.run_cli("--help").stdout
        commands = re.findall(r"^  (\w+) ", text[text.index("Subcommands:"):], re.MULTILINE)
        self.assertIn("train", commands)
        sources = [path.read_text() for path in SOURCES.rglob("*.cpp")]
        for command in commands:
            self.assertTrue(any(f'"{command}"' in source for source in sources), command)

    def test_version(self):
        result = self.run_cli("--version")
        self.assertRegex(result.stdout, r"\Aflotilla \d+\.\d+\.\d+ \(.+\)\n\Z")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_list(self):
        envs = registered_envs()
        self.assertGreaterEqual(set(envs), {"cartpole", "pendulum", "catch", "faulty", "cage2", "coinrun", "dvrp", "funding"})
        for env in envs:
            result = self.run_cli("list", env)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertTrue(result.stdout.startswith(f"{env}: "), result.stdout)
            self.assertIn(f"'{BINARY} list {env} --keys'", result.stdout)

    def test_list_shows_recipes(self):
        recipes = self.run_cli("list").stdout.split("\n\n")[1].splitlines()
        self.assertEqual(recipes[0], "recipes, for 'flotilla train NAME':")
        self.assertRegex("\n".join(recipes), r"(?m)^cartpole +cartpole +CartPole to a mean return of 500")
        self.assertGreaterEqual({line.split()[0] for line in recipes[1:]},
                                {"cartpole", "corners", "dvrp", "pendulum", "regions"})
        shown = self.run_cli("list", "pendulum").stdout
        self.assertIn("\nrecipe pendulum: Pendulum to a mean return", shown)
        self.assertIn("\n  normalize_obs: true\n  normalize_reward: true\n", shown)
        self.assertNotIn("recipe", self.run_cli("list", "catch").stdout)

    def test_list_shows_every_key_of_a_run(self):
        for name in ("cartpole", "catch"):
            keys = re.findall(r"(?m)^  (\S+)", self.run_cli("list", name, "--keys").stdout)
            self.assertGreaterEqual(set(keys), {"env.name", "backend", "num_envs", "seed",
                                                "total_timesteps", "duration_s", "n_steps", "policy",
                                                "net.hidden", "ppo.learning_rate",
                                                "ppo.learning_rate_schedule", "eval.episodes"})
        self.assertIn("env.cols", keys)
        self.expect_error(["list", "--keys"], 2, "--keys requires name")
        text = self.run_cli("list", "cartpole-appo", "--keys").stdout
        self.assertIn("  appo.gamma", text)
        self.assertNotIn("  ppo.", text)
        self.assertRegex(text, r"(?m)^  backend +one of .*; default actors$")

    def test_doctor(self):
        result = self.run_cli("doctor")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(len(re.findall(r"ok, \d+ ms", result.stdout)), 4, result.stdout)
        result = self.run_cli("doctor", env={**os.environ, "FLOTILLA_KERNEL": "sse"})
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("unknown kernel 'sse'", result.stdout)


class BadInput(CliTest):
    def test_unknown_names(self):
        all_envs = " ('flotilla list' shows all)"
        cases = [
            (["bnch"], "unknown command 'bnch'; did you mean 'bench'? "
                       "(commands: list, train, actor, eval, plot, compare, export, check, verify, bench, doctor, cage2, corners, regions, maze, coinrun, dvrp, funding)"),
            (["bench", "env", "cartpol"],
             "unknown environment 'cartpol'; did you mean 'cartpole'?" + all_envs),
            (["bench", "env", "tetris"], "unknown environment 'tetris'" + all_envs),
            (["check", "pendulun"],
             "unknown environment 'pendulun'; did you mean 'pendulum'?" + all_envs),
            (["list", "mase"], "unknown environment 'mase'; did you mean 'maze'?" + all_envs),
            (["bench", "env", "cartpole", "time_limt=3"],
             "unknown key 'time_limt'; did you mean 'time_limit'?"),
            (["bench", "env", "cartpole", "--backend", "proceses"],
             "backend: expected one of serial, threads, processes, actors, got 'proceses'; "
             "did you mean 'processes'?"),
            (["bench", "env", "cartpole", "--start-method", "frok"],
             "start_method: expected one of spawn, fork, got 'frok'; did you mean 'fork'?"),
            (["bench", "env", "cartpole", "--on-env-failure", "retry"],
             "on_env_failure: expected one of stop, restart, drop, got 'retry'"),
        ]
        for arguments, message in cases:
            with self.subTest(arguments=arguments):
                self.expect_error(arguments, 2, message)

    def test_numbers_out_of_range(self):
        cases = [
            ("num-envs", "an integer from 1 to 1000000",
             ["0", "-1", "1e9", "1000000000", "abc", ""]),
            ("threads", "an integer from 0 to 1024", ["-1", "5000", "two"]),
            ("workers", "an integer from 0 to 1024", ["-1", "5000", "1.5"]),
            ("groups", "an integer from 0 to 2", ["-1", "3"]),
            ("seed", "an integer of at least 0", ["-1", "x"]),
            ("seconds", "a number from 0.001 to 86400", ["0", "-1", "nan", "soon"]),
        ]
        for option, expected, values in cases:
            for value in values:
                with self.subTest(option=option, value=value):
                    self.expect_error(
                        ["bench", "env", "cartpole", f"--{option}", value], 2,
                        f"{option.replace('-', '_')}: expected {expected}, got '{value}'")
        self.expect_error(["check", "cartpole", "--num-envs", "2"], 2,
                          "num_envs: expected an integer from 3 to 100000, got '2'")
        self.expect_error(["check", "cartpole", "--steps", "3"], 2,
                          "steps: expected an integer from 10 to 1000000, got '3'")

    def test_a_huge_batch_is_refused_before_it_is_allocated(self):
        for num_envs in ("1000000000", "1e9"):
            process = self.start("bench", "env", "cartpole", "--num-envs", num_envs)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 2)
            self.assertLess(usage.ru_maxrss, 200 * 1024)  # KiB

    def test_more_workers_than_envs(self):
        self.expect_error(["bench", "env", "cartpole", "--backend", "processes", "--num-envs", "3",
                           "--workers", "9"], 2, "workers: expected an integer from 1 to 3 (num_envs), got 9")
        self.expect_error(["bench", "env", "cartpole", "--groups", "2"], 2,
                          "groups: expected an integer from 1 to 1 (num_envs), got 2")

    def test_overrides(self):
        cases = [("time_limit", "expected key=value, got 'time_limit'"),
                 ("=3", "expected key=value, got '=3' without a key"),
                 ("time_limit=", "time_limit: expected an integer from 0 to 1000000000, got ''"),
                 ("time_limit=5.5",
                  "time_limit: expected an integer from 0 to 1000000000, got '5.5'")]
        for override, message in cases:
            with self.subTest(override=override):
                self.expect_error(["bench", "env", "cartpole", override], 2, message)

    def test_missing_and_spare_arguments(self):
        for arguments in ([], ["bench"], ["bench", "env"], ["check"],
                          ["bench", "env", "cartpole", "--seconds"],
                          ["bench", "env", "cartpole", "--no-such-option"],
                          ["bench", "env", "cartpole", "--num-envs", "1", "--num-envs", "2"],
                          ["list", "cartpole", "extra"], ["doctor", "extra"]):
            with self.subTest(arguments=arguments):
                result = self.run_cli(*arguments)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertRegex(result.stderr, r"\Aflotilla: [^\n]+\n\Z")


    def test_unknown_commands_and_options_get_a_suggestion(self):
        for arguments, message in (
                (["bnech"], "unknown command 'bnech'; did you mean 'bench'?"
                            " (commands: list, train, actor, eval, plot, compare, export, check, verify, bench, doctor, cage2, corners, regions, maze, coinrun, dvrp, funding)"),
                (["bench", "evn"],
                 "unknown command 'evn'; did you mean 'env'? (commands: env, ppo, parallel, scaling, threads, search, oracle)"),
                (["bench"], "a command is missing (commands: env, ppo, parallel, scaling, threads, search, oracle)"),
                (["bench", "env", "cartpole", "--numenvs", "3"],
                 "unknown option '--numenvs'; did you mean '--num-envs'?"),
                (["bench", "ppo", "cartpole", "--steps", "3"],
                 "unknown option '--steps'"),
                (["check", "cartpole", "--stps=3"],
                 "unknown option '--stps'; did you mean '--steps'?")):
            self.expect_error(arguments, 2, message)


    def test_settings_that_an_environment_refuses(self):
        self.expect_error(["check", "dvrp", "customers=128"], 2,
                          "customers: expected at most 30, the travellers of the data, got 128")

    def test_settings_of_the_log(self):
        for variable, value, options in (
                ("FLOTILLA_LOG_LEVEL", "garbage", "debug, info, warn, error, off"),
                ("FLOTILLA_LOG_FORMAT", "xml", "text, json")):
            for arguments in (["list"], ["--version"], ["train", "cartpole"]):
                result = self.run_cli(*arguments, env={**os.environ, variable: value})
                self.assertEqual((result.returncode, result.stdout, result.stderr),
                                 (2, "", f"flotilla: {variable}: expected one of {options}, got "
                                         f"'{value}'\n"))


class Names(CliTest):
    """Names that somebody else made up: a terminal shows them and does not obey them."""

    NASTY = "a\x1b[31m\r\x07\x9b\nflotilla: all is well\t"
    SHOWN = "a\\x1b[31m\\x0d\\x07\\u009b\\nflotilla: all is well\\t"

    def test_control_characters_are_escaped(self):
        self.expect_error([self.NASTY], 2, f"unknown command '{self.SHOWN}' (commands: list, train, actor, "
                          "eval, plot, compare, export, check, verify, bench, doctor, cage2, corners, "
                          "regions, maze, coinrun, dvrp, funding)")
        for arguments, status, message in (
                (["train", self.NASTY], 2, f"no recipe, environment or file '{self.SHOWN}'"),
                (["eval", self.NASTY], 2, f"there is no run or policy file '{self.SHOWN}'"),
                (["list", self.NASTY], 2, f"unknown environment '{self.SHOWN}' "
                                          "('flotilla list' shows all)"),
                (["check", "cartpole", "--config", self.NASTY], 2,
                 f"cannot read {self.SHOWN}: No such file or directory"),
                (["cage2", "replay", self.NASTY], 4,
                 f"cannot read {self.SHOWN}: No such file or directory"),
                (["train", "cartpole", f"--{self.NASTY}"], 2, f"unknown option '--{self.SHOWN}'")):
            self.expect_error(arguments, status, message)

    def test_a_bundle_of_somebody_else(self):
        bundle = self.dir / "bundle.json"
        bundle.write_text(json.dumps(
            {"format": "flotilla-crash-bundle", "version": 1, "env": self.NASTY, "config": "",
             "spec_sha256": "", "time_limit": 0, "seed": 1, "env_index": 0, "episode": 0,
             "episode_start": 0, "steps_lost": 0, "cause": self.NASTY, "actions": []}))
        for arguments in ([], ["--json"]):
            result = self.run_cli("check", "cartpole", "--replay", bundle, *arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertNotRegex(result.stdout + result.stderr, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        bundle.unlink()

    def test_long_ones_are_cut(self):
        name = "x" * 100000
        for arguments in (["train", name], ["eval", name], [name], ["cage2", "replay", name],
                          ["check", "cartpole", f"{name}=3"], ["check", "cartpole", "--config", name]):
            result = self.run_cli(*arguments)
            self.assertIn(result.returncode, (2, 4))
            self.assertRegex(result.stderr, r"\Aflotilla: [^\n]{1,600}\n\Z")
            self.assertIn("xxx...", result.stderr)

    def test_bytes_that_are_no_text(self):
        self.expect_error([b"\xff\xfe".decode(errors="surrogateescape")], 2,
                          "unknown command '\\xff\\xfe' (commands: list, train, actor, eval, plot, compare, "
                          "export, check, verify, bench, doctor, cage2, corners, regions, maze, coinrun, dvrp, funding)")
        run = b"run \xff".decode(errors="surrogateescape")
        self.addCleanup(shutil.rmtree, self.dir / run, ignore_errors=True)
        for arguments in (["train", "cartpole", "--steps", 1, "--out", run],
                          ["eval", run, "--episodes", 2], ["plot", run]):
            with self.subTest(command=arguments[0]):
                result = self.run_cli(*arguments, "--json")
                self.assertEqual((result.returncode, result.stdout.count("\n")), (0, 1),
                                 result.stderr)
                shown = json.loads(result.stdout)
                if arguments[0] == "eval":
                    self.assertTrue(shown["policy"].startswith("run \ufffd/"), shown)
        shutil.rmtree(self.dir / run)


class Pipes(CliTest):
    """A named pipe that nobody writes to, in place of a file: refused at once."""

    may_leave = ("pipe", "pipe.csv", "pipe.gz", "city")

    def test_they_are_refused(self):
        (self.dir / "city").mkdir()
        for name in ("pipe", "pipe.csv", "pipe.gz", "city/travel_time_matrix.csv.gz"):
            os.mkfifo(self.dir / name)
        for status, name, arguments in (
                (2, "pipe", ["train", "pipe"]),
                (2, "pipe", ["check", "cartpole", "--config", "pipe"]),
                (2, "pipe", ["bench", "env", "cartpole", "--config", "pipe"]),
                (4, "pipe", ["cage2", "replay", "pipe"]),
                (4, "pipe.gz", ["cage2", "replay", "pipe.gz"]),
                (4, "pipe", ["check", "cartpole", "--replay", "pipe"]),
                (4, "pipe", ["eval", "pipe"]),
                (4, "pipe.csv", ["plot", "pipe.csv"]),
                (4, "pipe", ["dvrp", "solve", "pipe"]),
                (4, "pipe", ["dvrp", "check", "pipe", "pipe"]),
                (4, "pipe", ["dvrp", "oracle", "eval", "--weights", "pipe"]),
                (4, "city/travel_time_matrix.csv.gz", ["dvrp", "inspect", "city"])):
            with self.subTest(arguments=arguments):
                result = self.run_cli(*arguments, timeout=5)
                self.assertEqual((result.returncode, result.stdout, result.stderr),
                                 (status, "", f"flotilla: cannot read {name}: not a regular file\n"))


class ConfigFiles(CliTest):
    may_leave = ("run.yaml",)

    def expect_refusal(self, text, message):
        (self.dir / "run.yaml").write_text(text)
        self.expect_error(["bench", "env", "cartpole", "--config", "run.yaml"], 2, message)

    def test_missing_file(self):
        self.expect_error(["bench", "env", "cartpole", "--config", "nowhere.yaml"], 2,
                          "cannot read nowhere.yaml: No such file or directory")
        self.expect_error(["bench", "env", "cartpole", "--config", self.dir], 2,
                          f"cannot read {self.dir}: not a regular file")

    def test_bad_contents(self):
        limit = "time_limit: expected an integer from 0 to 1000000000, got"
        self.expect_refusal("time_limit: abc\n", f"run.yaml:1: {limit} 'abc'")
        self.expect_refusal("\ntime_limit: [1, 2]\n", f"run.yaml:2: {limit} a list")
        self.expect_refusal("- 3\n", "run.yaml:1: expected lines 'key: value', got a list")
        self.expect_refusal("time_limt: 3\n",
                            "unknown key 'time_limt' in run.yaml; did you mean 'time_limit'?")

    def test_a_nul_in_it(self):
        for text, message in (
                ("env:\n  name: cart\0pole\n", "run.yaml:2: control character 0x00 in the text"),
                ('env: {name: "cart\\0pole"}\n',
                 "run.yaml: unknown environment 'cart\\x00pole'; did you mean 'cartpole'? "
                 "('flotilla list' shows all)"),
                ('env: {name: cartpole}\ncrash_dir: "a\\0b"\n',
                 "run.yaml:2: crash_dir: expected text, got 'a\\x00b', which has a NUL in it")):
            (self.dir / "run.yaml").write_text(text)
            self.expect_error(["train", "run.yaml"], 2, message)
        self.expect_refusal("time_limit: 3\0\n",
                            "run.yaml:1: control character 0x00 in the text")

    def test_malformed_yaml_names_file_and_line(self):
        for text in ("time_limit: 3\n  other: : 4\n", "time_limit: \"3\n", "{time_limit: 3\n",
                     "\t- x: [\n"):
            with self.subTest(text=text):
                (self.dir / "run.yaml").write_text(text)
                result = self.run_cli("bench", "env", "cartpole", "--config", "run.yaml")
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertRegex(result.stderr, r"\Aflotilla: run\.yaml:\d+: [^\n]+\n\Z")

    def test_overrides_win_over_the_file(self):
        (self.dir / "run.yaml").write_text("time_limit: 7\n")
        from_file = self.bench("cartpole", "--config", "run.yaml")
        by_hand = self.bench("cartpole", "time_limit=7")
        both = self.bench("cartpole", "--config", "run.yaml", "time_limit=500")
        self.assertEqual(from_file["trajectory_sha256"], by_hand["trajectory_sha256"])
        self.assertEqual(both["trajectory_sha256"],
                         self.bench("cartpole")["trajectory_sha256"])
        self.assertNotEqual(both["trajectory_sha256"], by_hand["trajectory_sha256"])


class Bench(CliTest):
    may_leave = ("elsewhere", "link")

    def test_json(self):
        line = self.bench("cartpole", "--num-envs", "6", "--backend", "threads", "--threads", "2")
        self.assertGreaterEqual(set(line), JSON_KEYS)
        self.assertEqual((line["env"], line["backend"], line["num_envs"], line["threads"]),
                         ("cartpole", "threads", 6, 2))
        self.assertEqual(line["steps"] % 6, 0)
        self.assertGreater(line["steps"], 0)
        self.assertGreaterEqual(line["wall_s"], 0.01)
        self.assertGreater(line["cpu_s"], 0)
        self.assertAlmostEqual(line["steps_per_s"], line["steps"] / line["wall_s"], delta=1)
        self.assertRegex(line["trajectory_sha256"], r"\A[0-9a-f]{64}\Z")

    def test_stdout_holds_nothing_but_the_object(self):
        # The same with messages on the way: they go to stderr.
        result = self.run_cli("bench", "env", "faulty", "fault=throw", "fault_probability=0.01",
                              "--on-env-failure", "restart", "--restart-budget", "1000000",
                              "--seconds", "0.01", "--json", "--crash-dir", "")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(json.loads(result.stdout)["failures"], 0)
        self.assertEqual(len(result.stdout.splitlines()), 1)
        self.assertIn("warn", result.stderr)

    def test_every_back_end_makes_the_same_trajectory(self):
        layouts = [["--backend", "threads", "--threads", t] for t in (1, 2, 3, 5)]
        layouts += [["--backend", "processes", "--workers", w, "--start-method", method]
                    for w in (1, 2, 3) for method in ("spawn", "fork")]
        layouts += [["--groups", 2], ["--groups", 2, "--backend", "threads", "--threads", 3],
                    ["--groups", 2, "--backend", "processes", "--workers", 2]]
        for number, env in enumerate(registered_envs()):
            size = ["--num-envs", 5 + number % 4]
            expected = self.bench(env, *size)["trajectory_sha256"]
            for layout in layouts:
                with self.subTest(env=env, layout=layout):
                    if env in BATCHED and ("--groups" in layout or "processes" in layout):
                        self.assert_steps_together(env, *size, *layout)
                        continue
                    self.assertEqual(self.bench(env, *size, *layout)["trajectory_sha256"], expected)

    def assert_steps_together(self, env, *arguments):
        result = self.run_cli("bench", "env", env, *arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertRegex(result.stderr, r"\Aflotilla: (groups|backend): expected .*: the environments of "
                                        rf"'{env}' step all together\n\Z")

    def test_the_seed_matters(self):
        for env in registered_envs():
            with self.subTest(env=env):
                first, again, other = (self.bench(env, "--num-envs", 5, "--seed", seed)
                                       for seed in (3, 3, 4))
                self.assertEqual(first["trajectory_sha256"], again["trajectory_sha256"])
                self.assertNotEqual(first["trajectory_sha256"], other["trajectory_sha256"])

    def test_other_names_of_options(self):
        expected = self.bench("cartpole", "--backend", "processes", "--num-envs", 4, "--workers", 2,
                              "--start-method", "fork")
        other = self.bench("cartpole", "--backend", "processes", "--n-envs", 4, "--num-workers", 2,
                           "--parallel-start-method", "fork")
        for key in ("num_envs", "workers", "trajectory_sha256"):
            self.assertEqual(other[key], expected[key])

    def test_from_another_directory_and_through_a_link(self):
        elsewhere = self.dir / "elsewhere"
        elsewhere.mkdir()
        (self.dir / "link").symlink_to(BINARY)
        for binary in (self.dir / "link", Path("..") / "link"):
            result = self.run_cli("bench", "env", "cartpole", "--backend", "processes",
                                  "--num-envs", "4", "--workers", "2", "--seconds", "0.01",
                                  "--json", binary=binary, cwd=elsewhere)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["num_envs"], 4)
        self.assertEqual(list(elsewhere.iterdir()), [])

    def test_a_reader_that_goes_away(self):
        for command in ("list", "bench env cartpole --seconds 0.01 --backend processes"):
            done = subprocess.run(["bash", "-c", f"'{BINARY}' {command} | head -c 1"],
                                  cwd=self.dir, capture_output=True, timeout=TIMEOUT_S)
            self.assertEqual(len(done.stdout), 1)
        for command in (["list"], ["bench", "env", "cartpole", "--seconds", "0.01", "--json"]):
            process = self.start(*command)
            process.stdout.close()
            process.wait(timeout=TIMEOUT_S)
            process.stdout = None
            closed = subprocess.run(["bash", "-c", f"'{BINARY}' {' '.join(command)} >&-"],
                                    cwd=self.dir, capture_output=True, timeout=TIMEOUT_S)
            self.assertGreaterEqual(closed.returncode, 0)


    def test_a_file_size_limit_is_a_clear_error(self):
        command = f"ulimit -f 10; exec '{BINARY}' bench env cartpole --backend processes"
        result = subprocess.run(["bash", "-c", f"{command} --num-envs 100000"], cwd=self.dir,
                                capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(result.returncode, 70)
        self.assertRegex(result.stderr, r"^flotilla: the environments need [0-9.]+ MiB of shared"
                                        r" memory, and the system gave none: File too large "
                                        r"\(limit: 10.0 KiB a file\)\n$")

    def test_the_arguments_of_a_worker_with_a_stray_file(self):
        (self.dir / "stray").write_bytes(bytes(8192))
        for arguments in ("5 8192 9999999 0", "5 8192 8128 0", "5 8192 0 0", "5 8192 64 -1",
                          "5 99999999 0 0", "5 0 0 0", "0 8192 0 0", "77 8192 0 0"):
            command = f"exec '{BINARY}' --flotilla-worker {arguments} 5<>stray </dev/null"
            result = subprocess.run(["bash", "-c", command], cwd=self.dir, capture_output=True,
                                    text=True, timeout=TIMEOUT_S, check=False)
            self.assertEqual((result.returncode, result.stderr),
                             (2, "flotilla worker: this is not a Flotilla segment\n"), arguments)
        (self.dir / "stray").unlink()

    def test_bench_parallel(self):
        command = ["bench", "parallel", "cartpole", "--n-envs", "8", "--seconds", "0.01", "--repeats", "2", "--threads",
                   "2", "--workers", "2", "n_steps=16"]
        table = json.loads(self.run_cli(*command, "--json").stdout)
        self.assertEqual((table["env"], table["n_steps"], table["passes"]), ("cartpole", 16, 1))
        modes = [(row["algo"], row["backend"], row["threads"]) for row in table["rows"]]
        self.assertEqual(modes, [("ppo", "serial", 1), ("ppo", "threads", 2), ("ppo", "processes", 2), ("appo", "actors", 1),
                                 ("appo", "threads", 2), ("appo", "actors", 2), ("impala", "actors", 1),
                                 ("impala", "threads", 2), ("impala", "actors", 2)])
        for row in table["rows"]:
            self.assertEqual(row["num_envs"], 8)
            self.assertAlmostEqual(row["frames_per_s"] * row["iteration_s"], 8 * 16, delta=1)
            alone = next(each for each in table["rows"] if each["algo"] == row["algo"])
            self.assertAlmostEqual(row["speedup"], row["frames_per_s"] / alone["frames_per_s"], places=9)
            in_turn = next((each for each in table["rows"] if (each["algo"], each["backend"], each["threads"]) ==
                            (row["algo"], "threads", row["threads"])), None)
            if row["backend"] == "actors" and in_turn:  # whose rate is a little below the limit
                self.assertLess(row["part_of_limit"], 1.01 * row["frames_per_s"] / in_turn["frames_per_s"])
                self.assertGreater(row["part_of_limit"], 0)
            else:
                self.assertIsNone(row["part_of_limit"])
        self.assertIn("speed-up", self.run_cli(*command).stdout)
        for setting, instead in (("ppo.n_epochs=2", "ppo.n_epochs: bench parallel sets it for every line; use --passes"),
                                 ("n_envs=3", "num_envs: bench parallel sets it for every line; use --num-envs"),
                                 ("backend=serial", "backend: bench parallel sets it for every line; each has its own")):
            self.expect_error(["bench", "parallel", "cartpole", setting], 2, instead)
        table = json.loads(self.run_cli("bench", "parallel", "dvrp", *SMALLER["dvrp"], "--seconds", "0.001", "--repeats",
                                        "1", "--n-envs", "2", "n_steps=4", "--json").stdout)
        self.assertEqual([row["backend"] for row in table["rows"]], ["serial", "threads"])

    def test_bench_scaling(self):
        command = ["bench", "scaling", "cartpole", "--n-envs", "1,4", "--seconds", "0.01", "--repeats",
                   "2", "n_steps=32"]
        for backend, workers in (("threads", [0, 0]), ("processes", [1, 2])):
            table = json.loads(self.run_cli(*command, "--backend", backend, "--workers", "2",
                                            "--json").stdout)
            self.assertEqual((table["env"], table["backend"]), ("cartpole", backend))
            lines = table["lines"]
            self.assertEqual([(line["num_envs"], line["n_steps"]) for line in lines], [(1, 128), (4, 32)])
            self.assertEqual([line["workers"] for line in lines], workers)
            self.assertEqual(lines[0]["speedup"], 1)
            for line in lines:
                self.assertEqual(line["steps_per_s"], min(line["all_steps_per_s"]))
                self.assertEqual(len(line["all_steps_per_s"]), 2)
                self.assertAlmostEqual(sum(line[part] for part in ("step", "infer", "wait", "learn", "other")),
                                       1, delta=0.1)
        self.assertIn("speed-up", self.run_cli(*command).stdout)

    def test_bench_threads(self):
        command = ["bench", "threads", "cartpole", "--threads", "1,2", "--num-envs", "8", "--seconds", "0.01", "--repeats",
                   "2", "n_steps=16"]
        table = json.loads(self.run_cli(*command, "--json").stdout)
        self.assertEqual((table["env"], table["num_envs"], table["n_steps"]), ("cartpole", 8, 16))
        one, two = table["rows"]
        self.assertEqual((one["threads"], two["threads"], one["efficiency"]), (1, 2, 1))
        self.assertAlmostEqual(two["efficiency"], two["train_steps_per_s"] / one["train_steps_per_s"] / 2, places=9)
        for row in (one, two):
            for which in ("env", "train"):
                self.assertEqual(row[f"{which}_steps_per_s"], min(row[f"all_{which}_steps_per_s"]))
                self.assertEqual(len(row[f"all_{which}_steps_per_s"]), 2)
            parts = ("step", "act", "wait", "learn", "apply", "other")
            self.assertAlmostEqual(sum(row[part] for part in parts), 1, delta=0.1)
        self.assertIn("speed-up", self.run_cli(*command).stdout)
        batched = json.loads(self.run_cli("bench", "threads", "dvrp", *SMALLER["dvrp"], "--seconds", "0.001", "--repeats", "1",
                                          "--threads", "2", "--n-envs", "2", "n_steps=4", "--json").stdout)
        self.assertGreater(batched["rows"][0]["env_steps_per_s"], 0)

    def test_free_steps_are_counted_where_envs_can_play_alone(self):
        self.assertGreater(self.bench("cartpole")["free_steps_per_s"], 0)
        self.assertIsNone(self.bench("cartpole", "--backend", "processes")["free_steps_per_s"])
        self.assertIsNone(self.bench("dvrp")["free_steps_per_s"])

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([BINARY, "bench", "env", "cartpole", "--seconds", "0.01"],
                                    stdout=full, stderr=subprocess.PIPE, text=True,
                                    timeout=TIMEOUT_S, check=False)
        self.assertEqual((result.returncode, result.stderr),
                         (70, "flotilla: cannot write to stdout\n"))

    def test_closed_standard_streams(self):
        command = f"exec '{BINARY}' bench env cartpole --backend processes --seconds 0.01"
        for closed, status in (("<&-", 0), ("<&- 2>&-", 0), ("<&- >&- 2>&-", 70)):
            with self.subTest(closed=closed):
                result = subprocess.run(["bash", "-c", f"{command} {closed}"], cwd=self.dir,
                                        capture_output=True, timeout=TIMEOUT_S, check=False)
                self.assertEqual(result.returncode, status, result.stderr)


class Check(CliTest):
    def test_every_env_conforms(self):
        for env in registered_envs():
            with self.subTest(env=env):
                result = self.run_cli("check", env, *SMALLER.get(env, []), "--json", "--steps", "150")
                line = json.loads(result.stdout)
                failed = [check for check in line["checks"] if not check["passed"]]
                self.assertEqual((failed, line["passed"], result.returncode), ([], True, 0))
                self.assertEqual((line["env"], len(line["checks"])), (env, 12))

    def test_a_failing_env_fails_the_checks(self):
        result = self.run_cli("check", "faulty", "fault=throw", "fault_step=20")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"FAIL bounds +env \d of 'faulty' failed in step: threw")
        self.assertRegex(result.stdout.splitlines()[-1], r"faulty: \d of 12 checks passed")

    def allocations(self, binary, **environment):
        """What the check of allocations says."""
        result = subprocess.run([binary, "check", "cartpole", "--steps", "30", "--json"],
                                cwd=self.dir, env=dict(os.environ, **environment), text=True,
                                capture_output=True, timeout=TIMEOUT_S, check=True)
        self.assertEqual(result.stderr, "")
        checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
        self.assertTrue(checks["no allocation"]["passed"])
        return checks["no allocation"]["detail"]

    def test_allocations_are_counted(self):
        if not (BINARY.parent / COUNTER).exists():
            self.assertEqual(self.allocations(BINARY), "not counted under a sanitizer")
            return
        self.assertEqual(self.allocations(BINARY), "none in 30 steps, serial and threads")
        # Where it is loaded already, nothing is started anew.
        self.assertEqual(self.allocations(BINARY, LD_PRELOAD=str(BINARY.parent / COUNTER)),
                         "none in 30 steps, serial and threads")

    def test_without_what_counts_the_check_says_so(self):
        if not (BINARY.parent / COUNTER).exists():
            self.skipTest("not in this build")
        with tempfile.TemporaryDirectory() as folder:
            alone = Path(folder) / "bin" / "flotilla"
            alone.parent.mkdir()
            shutil.copy(BINARY, alone)
            self.assertEqual(self.allocations(alone), f"not counted: no {COUNTER} beside the "
                                                      "program or in its run path")
            spaced = Path(folder) / "a folder" / COUNTER
            spaced.parent.mkdir()
            shutil.copy(BINARY, spaced.parent)
            shutil.copy(BINARY.parent / COUNTER, spaced)
            self.assertEqual(self.allocations(spaced.parent / "flotilla"),
                             f"not counted: {spaced} is not loaded; LD_PRELOAD does it")

    def test_the_program_leaves_allocating_to_the_standard_library(self):
        if not (BINARY.parent / COUNTER).exists():
            self.skipTest("not in this build")
        def symbols(path):
            return subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout

        self.assertIn("g_allocations", symbols(BINARY.parent / COUNTER))
        self.assertNotIn("g_allocations", symbols(BINARY))

    def test_an_env_that_crashes_or_hangs_does_not_take_the_check_along(self):
        result = self.run_cli("check", "faulty", "fault=segv")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"(?m)^FAIL survives .*SIGSEGV")
        self.assertTrue(result.stdout.endswith("faulty: 1 of 2 checks passed\n"), result.stdout)


class Speed(CliTest):
    timed = True

    def test_list_is_quick(self):
        seconds = []
        for _ in range(5):
            start = time.monotonic()
            self.run_cli("list")
            seconds.append(time.monotonic() - start)
        self.assertLess(min(seconds), 0.05)


class Failures(CliTest):
    timed = True
    may_leave = ("crashes",)

    def fail(self, *arguments):
        """Runs a benchmark that an env failure stops; (last line of stderr, its bundle)."""
        result = self.run_cli("bench", "env", "faulty", "--seed", 5, "--seconds", "0.01",
                              "--crash-dir", "crashes", *arguments)
        self.assertEqual((result.returncode, result.stdout), (3, ""), result.stderr)
        last = result.stderr.splitlines()[-1]
        bundle = re.search(r"--replay (crashes/faulty-seed5-env\d+-episode0(?:-\d+)?\.json)", last)
        self.assertIsNotNone(bundle, last)
        return last, bundle[1]

    def test_stop_reports_all_there_is_to_know_and_replays(self):
        causes = {"throw": ("threw: faulty: told to throw at step 50", 3),
                  "segv": ("worker killed by signal 11 (SIGSEGV) at address 0x0", -signal.SIGSEGV),
                  "abort": ("worker killed by signal 6 (SIGABRT)", -signal.SIGABRT),
                  "exit": ("worker exited with status 7", 7),
                  "hang": ("hung for 2 s", None)}
        for fault, (cause, replayed) in causes.items():
            timeout_s = "2" if fault == "hang" else "60"
            for method in ("spawn", "fork"):
                with self.subTest(fault=fault, method=method):
                    line, bundle = self.fail(f"fault={fault}", "--backend", "processes",
                                             "--num-envs", 2, "--workers", 2, "--step-timeout-s",
                                             timeout_s, "--start-method", method)
                    crash = json.loads((self.dir / bundle).read_text())
                    env, action = crash["env_index"], int(crash["actions"][-1][0])
                    self.assertEqual(line, f"flotilla: env {env} of 'faulty' failed in step: "
                                           f"{cause}; replay it with: {BINARY} check faulty "
                                           f"--replay {bundle} (env={env}, seed=5, episode=0, "
                                           f"step=49, action={action}, phase=step)")
                    self.assertEqual((len(crash["actions"]), crash["cause"]), (50, cause))
                    if replayed is None:
                        continue
                    again = self.run_cli("check", "faulty", "--replay", bundle)
                    self.assertEqual(again.returncode, replayed, again.stderr)
                    self.assertEqual(again.stderr,
                                     f"replaying env {env} of faulty, seed 5, episode 0: {cause}\n")
                    if fault == "throw":
                        self.assertEqual(again.stdout, "failed again after 49 steps: "
                                                       "faulty: told to throw at step 50\n")

    def test_the_replay_is_offered_with_the_program_that_ran(self):
        (self.dir / "my_program").symlink_to(BINARY)
        arguments = ["bench", "env", "faulty", "fault=throw", "--crash-dir", "crashes"]
        result = self.run_cli(*arguments, binary="./my_program")
        offer = re.search(r"replay it with: (\./my_program check faulty --replay \S+)", result.stderr)
        self.assertTrue(offer, result.stderr)
        self.assertTrue(result.stderr.splitlines()[-1].startswith("my_program: env "), result.stderr)
        again = subprocess.run(offer[1].split(), cwd=self.dir, capture_output=True, text=True,
                               timeout=TIMEOUT_S)
        self.assertEqual(again.returncode, 3, again.stderr)
        (self.dir / "my_program").unlink()

    def test_exceptions_in_every_back_end(self):
        for layout in (["--backend", "serial"], ["--backend", "threads", "--threads", 2],
                       ["--backend", "processes", "--workers", 2, "--groups", 2]):
            with self.subTest(layout=layout):
                line, bundle = self.fail("fault=throw", "--num-envs", 4, *layout)
                self.assertIn("flotilla: env 0 of 'faulty' failed in step: threw: faulty: told to "
                              "throw at step 50; replay it with:", line)
                self.assertEqual(self.run_cli("check", "faulty", "--replay", bundle).returncode, 3)

    def test_failure_in_reset(self):
        line, bundle = self.fail("fault=segv", "where=reset", "--backend", "processes")
        self.assertIn("failed in reset: worker killed by signal 11", line)
        self.assertIn("step=0, action=-, phase=reset)", line)
        self.assertEqual(self.run_cli("check", "faulty", "--replay", bundle).returncode,
                         -signal.SIGSEGV)

    def survive(self, *arguments):
        return self.bench("faulty", "--num-envs", 8, "--crash-dir", "crashes", *arguments)

    def test_restart(self):
        options = ["fault_probability=0.001", "--on-env-failure", "restart", "--restart-budget",
                   100000]
        serial = self.survive("fault=throw", *options)
        self.assertGreater(serial["failures"], 0)
        for fault in ("throw", "segv", "exit"):
            with self.subTest(fault=fault):
                line = self.survive(f"fault={fault}", *options, "--backend", "processes",
                                    "--workers", 2)
                self.assertGreater(line["failures"], 0)
                # How an env fails makes no difference to what the others, and it, do next.
                self.assertEqual(line["trajectory_sha256"], serial["trajectory_sha256"])
        self.assertLessEqual(len(list((self.dir / "crashes").iterdir())), 20 * 4)

    def test_restart_budget(self):
        line, _ = self.fail("fault=throw", "--num-envs", 2, "--on-env-failure", "restart",
                            "--restart-budget", 1)
        self.assertIn("; the restart budget of 1 is used up (env=", line)

    def test_drop(self):
        # Resets fail half of the time, and with this time limit there is only the first.
        options = ["where=reset", "fault_probability=0.5", "time_limit=1000000000",
                   "--on-env-failure", "drop"]
        serial = self.survive("fault=throw", *options)
        self.assertIn(serial["failures"], range(1, 8))
        processes = self.survive("fault=segv", *options, "--backend", "processes", "--workers", 2)
        for key in ("failures", "trajectory_sha256"):
            self.assertEqual(processes[key], serial[key])

    def test_drop_of_the_last_env(self):
        line, _ = self.fail("fault=throw", "--num-envs", 2, "--on-env-failure", "drop")
        self.assertIn("; no environment is left (env=", line)

    def test_no_bundles_when_none_are_wanted(self):
        result = self.run_cli("bench", "env", "faulty", "fault=throw", "--crash-dir", "")
        self.assertEqual(result.returncode, 3)
        self.assertNotIn("--replay", result.stderr)

    def test_a_crash_dir_that_cannot_be_made(self):
        result = self.run_cli("bench", "env", "faulty", "fault=throw", "--crash-dir", "/proc/no")
        self.assertEqual(result.returncode, 3)
        self.assertIn("no crash bundle was written", result.stderr)
        self.assertIn("told to throw at step 50", result.stderr.splitlines()[-1])


class Bundles(CliTest):
    may_leave = ("crashes", "changed.json")

    def setUp(self):
        super().setUp()
        self.run_cli("bench", "env", "faulty", "fault=throw", "--crash-dir", "crashes")
        self.good = self.dir / "crashes" / "faulty-seed0-env0-episode0.json"
        self.assertTrue(self.good.is_file())

    def replay(self, text, env="faulty"):
        """The last line of stderr after the replay of a file with this text was refused."""
        (self.dir / "changed.json").write_text(text)
        result = self.run_cli("check", env, "--replay", "changed.json")
        self.assertEqual((result.returncode, result.stdout), (4, ""), result.stderr)
        last = result.stderr.splitlines()[-1]
        self.assertTrue(last.startswith("flotilla: "), last)
        return last

    def altered(self, **changes):
        return json.dumps({**json.loads(self.good.read_text()), **changes})

    def test_settings_come_from_the_bundle(self):
        self.expect_error(["check", "faulty", "time_limit=3", "--replay", str(self.good)], 2,
                          "--replay takes the settings from the bundle; give no others")

    def test_json(self):
        result = self.run_cli("check", "faulty", "--replay", self.good, "--json")
        self.assertEqual(result.returncode, 3)
        self.assertEqual(json.loads(result.stdout),
                         {"env": "faulty", "failed": True, "steps": 49,
                          "cause": "faulty: told to throw at step 50"})

    def test_not_a_file(self):
        self.expect_error(["check", "faulty", "--replay", "."], 4, "cannot read .: not a regular file")
        self.expect_error(["check", "faulty", "--replay", ""], 4,
                          "cannot read : No such file or directory")

    def test_missing(self):
        self.expect_error(["check", "faulty", "--replay", "nowhere.json"], 4,
                          "cannot read nowhere.json: No such file or directory")

    def test_damaged(self):
        text = self.good.read_text()
        for cut in (0, 1, 100, len(text) // 2, len(text) - 3):
            self.assertIn("changed.json is not a crash bundle", self.replay(text[:cut]))
        for other in ("{}", "[1]", "null", "\0\1\2", self.altered(version=2),
                      self.altered(time_limit="soon"), self.altered(actions=7)):
            self.assertIn("changed.json is not a crash bundle", self.replay(other))

    def test_of_another_env(self):
        self.assertIn("crash bundle: it is of 'faulty', not of 'cartpole'",
                      self.replay(self.good.read_text(), env="cartpole"))
        self.assertIn("the environment's spec has changed",
                      self.replay(self.altered(spec_sha256="")))

    def test_actions(self):
        actions = json.loads(self.good.read_text())["actions"]
        for bad, message in ((7, "action 7 is outside Discrete(3)"),
                             (-1, "action -1 is outside Discrete(3)"),
                             (1e300, "action 1e+300 is outside Discrete(3)"),
                             (0.5, "action 0.5 is outside Discrete(3)"),
                             ("left", "action 3 is a list with something else in it, not a list of numbers"),
                             (None, "changed.json is not a crash bundle")):
            with self.subTest(action=bad):
                changed = [*actions[:3], [bad], *actions[4:]]
                self.assertIn(message, self.replay(self.altered(actions=changed)))
        self.assertIn("an action has another number of dimensions",
                      self.replay(self.altered(actions=[[0, 0]])))

    def test_numbers_out_of_range(self):
        for index in (-3, 1.5, 99_999_999_999):
            self.assertIn("'env_index' is not an integer from 0 to 2147483647",
                          self.replay(self.altered(env_index=index)))
        self.assertIn("the env index is out of range",
                      self.replay(self.altered(env_index=1_000_000_000)))
        for name in ("seed", "time_limit"):
            self.assertIn(f"'{name}' is not an integer from 0",
                          self.replay(self.altered(**{name: -3})))
        self.assertIn("the first 5 actions of the episode were not kept",
                      self.replay(self.altered(steps_lost=5)))


class TrainTest(CliTest):
    """Runs of a few thousand steps; each one has a directory of its own below runs/."""
    may_leave = ("runs",)

    def setUp(self):
        super().setUp()
        self.runs = 0

    def train_args(self, what, *arguments):
        self.runs += 1
        return ["train", what, *arguments, "--out", f"runs/{self.runs}", "--json"]

    def train(self, what, *arguments, **options):
        """The summary of a run, which is printed and lies in its directory."""
        result = self.run_cli(*self.train_args(what, *arguments), **options)
        self.assertEqual(result.returncode, 0, f"{what} {arguments}: {result.stderr}")
        self.assertEqual(result.stdout.count("\n"), 1, result.stdout)
        summary = json.loads(result.stdout)
        directory = self.dir / "runs" / str(self.runs)
        self.assertEqual({path.name.split(".")[0] for path in directory.iterdir()},
                         {"config", "summary", "metrics", "events", "history", "checkpoints"})
        self.assertEqual(json.loads((directory / "summary.json").read_text()), summary)
        return summary

    def refuse(self, what, arguments, message):
        """The run ends with status 2 before it leaves anything."""
        self.expect_error(self.train_args(what, *arguments), 2, message)
        self.assertFalse((self.dir / "runs").exists())


class Train(TrainTest):
    may_leave = ("runs", "elsewhere", "run.yaml")

    def test_summary(self):
        summary = self.train("cartpole", "--steps", 20000, "--seed", 9, "--backend", "threads",
                             "--threads", 2)
        self.assertGreaterEqual(set(summary), SUMMARY_KEYS)
        self.assertGreaterEqual(set(summary["eval"]), EVAL_KEYS)
        self.assertGreaterEqual(set(summary["machine"]), MACHINE_KEYS)
        self.assertEqual([summary[key] for key in ("domain", "algo", "backend", "policy", "device",
                                                   "num_envs", "workers", "threads", "seed")],
                         ["cartpole", "ppo", "threads", "fused", "cpu", 32, 0, 2, 9])
        # 32 envs x 32 steps make an update: 20 of them are the first that reach 20000.
        self.assertEqual((summary["steps"], summary["updates"]), (20480, 20))
        self.assertGreater(summary["episodes"], 100)
        self.assertGreater(summary["return_best"], 50)
        self.assertGreaterEqual(summary["return_best"], summary["return_mean_100"])
        self.assertEqual(summary["eval"]["episodes"], 100)
        self.assertAlmostEqual(summary["eval"]["ci95"], 0.196 * summary["eval"]["std"])
        self.assertLess(summary["collect_s"] + summary["learn_s"], summary["wall_s"])
        self.assertTrue(3 < summary["peak_rss_mb"] < 100, summary["peak_rss_mb"])  # no libtorch
        for key in ("params_sha256", "config_sha256"):
            self.assertRegex(summary[key], r"\A[0-9a-f]{64}\Z")
        machine = summary["machine"]
        self.assertEqual((machine["torch"], machine["blas_kernel"], machine["gpu"]),
                         (None, None, None))
        self.assertGreaterEqual(machine["cores"], 1)

    def test_torch(self):
        if not (BINARY.parent / PLUGIN).exists():
            self.skipTest("this build has no libtorch")
        summary = self.train("cartpole", "--steps", 2000, "--policy", "torch")
        self.assertEqual(summary["policy"], "torch")
        machine = summary["machine"]
        self.assertRegex(machine["torch"], r"\A\d+\.\d+\.\d+")
        self.assertTrue(machine["blas_kernel"])
        self.assertEqual(summary["kernel"],
                         f"torch {machine['torch']} cpu, {machine['blas_kernel']}")
        one = self.train("cartpole", "--steps", 2000, "--policy", "torch", "--threads", 1)
        self.assertEqual(one["params_sha256"], summary["params_sha256"])

    def test_torch_where_there_is_none(self):
        with tempfile.TemporaryDirectory() as alone:
            shutil.copy(BINARY, alone)
            for arguments in (["--policy", "torch"], ["net.hidden=512"]):
                result = self.run_cli("train", "cartpole", *arguments,
                                      binary=Path(alone) / BINARY.name)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn("apt-get install libtorch-dev", result.stderr)

    def test_every_layout_gives_the_same_parameters(self):
        layouts = [["--backend", backend, "--threads", threads]
                   for backend in ("serial", "threads") for threads in (1, 2, 3)]
        layouts += [["--backend", "processes", "--start-method", method, "--threads", threads,
                     "--workers", workers]
                    for method in ("fork", "spawn") for threads, workers in ((1, 3), (2, 1), (3, 2))]
        layouts += [["--backend", "threads", "--threads", 2, "--groups", 2]]
        summaries = [self.train("cartpole", "--steps", 20000, "--seed", 9, "eval.episodes=10",
                                *layout) for layout in layouts]
        for key in ("params_sha256", "config_sha256", "episodes", "return_mean_100", "eval"):
            for layout, summary in zip(layouts, summaries):
                with self.subTest(layout=layout, key=key):
                    self.assertEqual(summary[key], summaries[0][key])
        other = self.train("cartpole", "--steps", 20000, "--seed", 10, "eval.episodes=10")
        self.assertNotEqual(other["params_sha256"], summaries[0]["params_sha256"])

    def test_what_the_config_hash_covers(self):
        def config_sha256(*arguments):
            return self.train("cartpole", "--steps", 1, "eval.episodes=0",
                              *arguments)["config_sha256"]
        expected = config_sha256()
        for same in (["--backend", "serial"], ["--threads", 1], ["--workers", 2],
                     ["--backend", "processes", "--start-method", "fork"], ["ppo.lr=0.002"]):
            self.assertEqual(config_sha256(*same), expected, same)
        for other in (["ppo.lr=0.001"], ["--seed", 1], ["--num-envs", 16], ["env.time_limit=99"]):
            self.assertNotEqual(config_sha256(*other), expected, other)

    def test_a_run_again_from_its_config(self):
        first = self.train("cartpole", "--steps", 5000, "--seed", 4, "ppo.lr=0.001", "--backend",
                           "serial", "net.hidden=32,16", "--num-envs", 20)
        again = self.train("runs/1/config.yaml")
        for key in ("params_sha256", "config_sha256", "backend", "num_envs", "steps", "eval"):
            self.assertEqual(again[key], first[key])
        config = (self.dir / "runs/1/config.yaml").read_text()
        for line in ("num_envs: 20", "backend: serial", "seed: 4", "  learning_rate: 0.001", "  name: cartpole"):
            self.assertIn(f"\n{line}\n", f"\n{config}")

    def test_limits(self):
        small = ["eval.episodes=0", "--num-envs", 8, "horizon=16", "ppo.minibatch_size=128"]
        for steps, updates in ((1, 1), (128, 1), (129, 2), (1000, 8)):
            summary = self.train("cartpole", "--steps", steps, *small)
            self.assertEqual((summary["steps"], summary["updates"]), (128 * updates, updates))
        summary = self.train("cartpole", "--episodes", 50, *small)  # not the recipe's steps
        self.assertGreaterEqual(summary["episodes"], 50)
        self.assertLess(summary["episodes"], 60)
        both = self.train("cartpole", "--episodes", 50, "--steps", 256, *small)
        self.assertEqual(both["steps"], 256)
        for duration in ("0.3s", "0.005m", "0.3"):
            summary = self.train("cartpole", "--duration", duration, *small)
            self.assertGreaterEqual(summary["wall_s"], 0.3)
            lines = (self.dir / "runs" / str(self.runs) / "metrics.jsonl").read_text().splitlines()
            updates = [json.loads(line)["wall_s"] for line in lines]
            self.assertEqual(len(updates), summary["updates"])
            self.assertLess(max(updates[:-1], default=0), 0.3, "none begins after the end")
        self.assertEqual(summary["eval"]["episodes"], 0)

    def test_return_best(self):
        # All returns of pendulum are far below 0, and none ends in the first rollout.
        summary = self.train("pendulum", "--steps", 30000, "eval.episodes=1")
        self.assertLess(summary["return_best"], -500)
        self.assertLessEqual(summary["return_mean_100"], summary["return_best"])
        summary = self.train("pendulum", "--steps", 1, "eval.episodes=1")
        self.assertEqual([summary[key] for key in ("episodes", "return_mean_100", "return_best")],
                         [0, None, None])

    def test_other_names_of_options(self):
        expected = self.train("cartpole", "--steps", 1, "--backend", "processes", "--num-envs", 8,
                              "--workers", 2, "--start-method", "fork", "ppo.minibatch_size=64")
        other = self.train("cartpole", "--steps", 1, "--backend", "processes", "--n-envs", 8,
                           "--num-workers", 2, "--parallel-start-method", "fork",
                           "ppo.minibatch_size=64")
        self.assertEqual((expected["num_envs"], expected["workers"]), (8, 2))
        for key in ("num_envs", "workers", "config_sha256", "params_sha256"):
            self.assertEqual(other[key], expected[key])

    def test_settings_reach_every_part(self):
        base = ["--steps", 3000, "eval.episodes=4"]
        expected = self.train("cartpole", *base)["params_sha256"]
        for setting in ("env.time_limit=20", "horizon=64", "net.hidden=32", "net.activation=relu",
                        "ppo.gamma=0.9", "ppo.epochs=2", "normalise_reward=false"):
            with self.subTest(setting=setting):
                self.assertNotEqual(self.train("cartpole", *base, setting)["params_sha256"],
                                    expected)
        # Both win over the recipe.
        self.assertEqual(self.train("cartpole", "--num-envs", 8, "--steps", 1)["num_envs"], 8)
        self.assertEqual(self.train("cartpole", "num_envs=16", "--steps", 1)["num_envs"], 16)

    def test_every_env_trains(self):
        for env in registered_envs():
            if env == "coinrun" and not (BINARY.parent / PLUGIN).exists():
                continue  # its pictures are too large for the fused kernels
            with self.subTest(env=env):
                summary = self.train(env, "--steps", 1, "eval.episodes=2", "num_envs=4",
                                     "horizon=8", "ppo.minibatch_size=0")
                self.assertEqual((summary["steps"], summary["eval"]["episodes"]), (32, 2))

    def test_customers_is_a_key_of_dvrp(self):
        small = ["--steps", 1, "eval.episodes=2", "num_envs=4", "horizon=8", "ppo.minibatch_size=0"]
        summary = self.train("dvrp", "--customers", 4, *small)
        self.assertEqual(summary["eval"]["mean_length"], 4)
        self.assertEqual(summary["params_sha256"],
                         self.train("dvrp", "env.customers=4", *small)["params_sha256"])
        self.assertEqual(set(summary["eval"]["metrics"]),
                         {"cost", "baseline_cost", "saving_pct", "accepted", "accepted_nonzero",
                          "offered_nonzero", "failed"})

    def test_customers_set_the_horizon_that_is_not_given(self):
        def steps(*arguments):
            return self.train(*arguments, "--epochs", 1, "eval.episodes=0", "num_envs=4")["steps"]

        small = ["net.hidden=8", "env.oracle.kind=insertion", "ppo.minibatch_size=0"]
        self.assertEqual(steps("dvrp", "--customers", 3, *small), 4 * 3)
        self.assertEqual(steps("dvrp", "--customers", 3, *small[:2], "ppo.minibatch_size=20"),
                         4 * 6, "as many whole episodes as a minibatch takes")
        self.assertEqual(steps("dvrp", "--customers", 3, "horizon=5", *small), 4 * 5)
        for options in (["--customers", 3, "--policy-update-interval", 2],
                        ["--policy-update-interval", 2, "--customers", 3]):
            self.assertEqual(steps("dvrp", *options, *small), 4 * 6)
        (self.dir / "run.yaml").write_text("env: {name: dvrp}\nhorizon: 7\n")
        self.assertEqual(steps("run.yaml", "--customers", 3, *small), 4 * 7)
        self.assertEqual(steps("dvrp", "env.customers=3", *small), 4 * 30)

    def test_a_run_without_a_name_makes_one(self):
        for _ in range(3):  # often within one second
            result = self.run_cli("train", "cartpole", "--steps", 1, "--seed", 3)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("\nrun directory runs/cartpole-seed3-", result.stdout)
        names = [path.name for path in (self.dir / "runs").iterdir()]
        self.assertEqual(len(names), 3)
        for name in names:
            self.assertRegex(name, r"\Acartpole-seed3-\d{8}-\d{6}(-[23])?\Z")

    def test_text_output(self):
        result = self.run_cli("train", "cartpole", "--steps", 2000, "--out", "runs/1", "--seed", 7,
                              "--threads", 2, "learner_threads=2",  # a measurement would decide
                              "eval.episodes=5")  # too few to be announced
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"\A32 x cartpole, threads back end, 2 threads; ppo, "
                                        r"4-64-64 tanh, fused \w+ \(policy=auto\); seed 7\n"
                                        r"memory: \d+ MB so far, \d+\.\d MB of rollouts\n\Z")
        self.assertRegex(result.stdout, r"\A2048 steps, \d+ episodes, 2 updates in ")
        for name in ("total", "  collect", "    step", "    infer", "    wait", "  learn",
                     "    gae", "    update", "  eval", "  other"):
            self.assertRegex(result.stdout, rf"(?m)^{name} +\d+\.\d{{3}} s +\d+\.\d %$")
        fewer = self.run_cli("train", "cartpole", "--steps", 1, "--out", "runs/2", "--threads", 2,
                             "learner_threads=1", "eval.episodes=5")
        self.assertIn(" 2 threads (1 learns); ppo, ", fewer.stderr)

    def test_from_another_directory_and_through_a_link(self):
        elsewhere = self.dir / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "link").symlink_to(BINARY)
        result = self.run_cli("train", "cartpole", "--steps", 1, "--backend", "processes",
                              "--out", "../runs/1", "--json", binary="./link", cwd=elsewhere)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([path.name for path in elsewhere.iterdir()], ["link"])
        self.assertTrue((self.dir / "runs/1/summary.json").is_file())

    def test_output_that_nobody_takes(self):
        for number, (layout, closed, status) in enumerate([
                ("serial", "<&- 2>&-", 0), ("serial", ">&-", 70), ("processes", "<&- >&- 2>&-", 70),
                ("serial", ">/dev/full", 70), ("serial", "| head -c 0", None)]):
            with self.subTest(layout=layout, closed=closed):
                result = subprocess.run(
                    ["bash", "-c", f"'{BINARY}' train cartpole --steps 1 --json --out runs/{number}"
                                   f" --backend {layout} {closed}"],
                    cwd=self.dir, capture_output=True, timeout=TIMEOUT_S, check=False)
                if status is not None:
                    self.assertEqual(result.returncode, status, result.stderr)
                summary = json.loads((self.dir / f"runs/{number}/summary.json").read_text())
                self.assertEqual(summary["steps"], 1024)


class TrainRefusals(TrainTest):
    may_leave = ("runs", "run.yaml", "file", "tiny", "locked")

    def test_customers(self):
        self.refuse("dvrp", ["--customers", 31],
                    "customers: expected at most 30, the travellers of the data, got 31")
        self.refuse("dvrp", ["--customers", 0],
                    "env.customers: expected an integer from 1 to 200, got '0'")
        self.refuse("cartpole", ["--customers", 4], "unknown key 'env.customers'")
        self.refuse("dvrp", ["--backend", "processes"],
                    "backend: expected serial or threads, not processes: the environments of 'dvrp' "
                    "step all together")

    def test_the_prefix_of_the_environment_may_be_left_out(self):
        summary = self.train("cartpole", "time_limit=7", "--steps", 1)
        self.assertLessEqual(summary["eval"]["mean"], 7)
        self.assertIn("time_limit: 7", (self.dir / "runs/1/config.yaml").read_text())

    def test_unknown_names(self):
        self.refuse("cartpol", [],
                    "no recipe, environment or file 'cartpol'; did you mean 'cartpole'?")
        self.refuse("tetris", [], "no recipe, environment or file 'tetris'")
        self.refuse("cartpole", ["pppo.lr=1"], "unknown key 'pppo.lr'; did you mean 'ppo.lr'?")
        self.refuse("cartpole", ["lrr=1"], "unknown key 'lrr'; did you mean 'lr'?")
        self.refuse("cartpole", ["--plicy", "fused"],
                    "unknown option '--plicy'; did you mean '--policy'?")
        self.refuse("cartpole", ["--policy", "fast"],
                    "policy: expected one of auto, fused, torch, got 'fast'")
        self.refuse("cartpole", ["--pin", "--threads", "1000"],
                    f"pin: 1000 threads cannot have a CPU of their own: there are {len(os.sched_getaffinity(0))}")
        self.refuse("cartpole", ["--algo", "pro"],
                    "algo: expected one of ppo, appo, impala, a3c, got 'pro'; did you mean 'ppo'?")
        self.refuse("cartpole", ["env.name=pendulum"],
                    "env.name: expected one of cartpole, got 'pendulum'")
        self.refuse("cartpole", ["--config", "x"],
                    "unknown option '--config'")
        self.refuse("cartpole", ["--n-steps", 8],
                    "unknown option '--n-steps'; as a setting, without dashes: n_steps=VALUE")
        self.refuse("cartpole", ["--lr=1e-3"],
                    "unknown option '--lr'; as a setting, without dashes: lr=VALUE")

    def test_an_algorithm_that_a_recipe_is_not_for(self):
        for arguments in (["algo=appo"], ["--algo", "appo"]):
            self.refuse("cartpole", arguments, "cartpole.yaml has settings of ppo, which appo does not know: "
                                               "train 'cartpole-appo'")
        self.refuse("pendulum", ["algo=impala"],
                    "pendulum.yaml has settings of ppo, which impala does not know: no recipe trains 'pendulum' "
                    "with it; give a YAML file with env, algo: impala and its settings")

    def test_options_and_settings_that_contradict_each_other(self):
        for option, setting, message in (
                (["--seed", 1], "seed=2", "seed=2 and an option that makes it 1"),
                (["--algo", "appo"], "algo=ppo", "algo=ppo and an option that makes it appo"),
                (["--duration", "2s"], "duration_s=3", "duration_s=3.0 and an option that makes it 2.0"),
                (["--backend", "serial"], "backend=threads", "backend=threads and an option that makes it serial")):
            self.refuse("cartpole", [*option, setting], f"{message} contradict each other: give one")
        self.refuse("cartpole", ["--steps", 5, "steps=6"], "'steps' and 'total_timesteps' are the same key: give one")
        self.assertEqual(self.train("cartpole", "--seed", 3, "seed=3", "--steps", 1)["seed"], 3)

    def test_settings_without_effect_are_named(self):
        for arguments, keys in ((["--actors", 2, "--workers", 2], "backend=threads: workers, actors"),
                                (["async.lag=2", "--backend", "processes", "--workers", 2],
                                 "backend=processes: async.lag"),
                                (["--restart-budget", 5], "on_env_failure=stop: restart_budget"),
                                (["net.groups=1x2:16,2x1:16", "net.fusion=64"], "net.torso=none: net.groups, net.fusion"),
                                (["explore.resolution=0.5"], "explore.bonus=0.0: explore.resolution"),
                                (["explore.bonus=1", "explore.bonus_last=1"],
                                 "explore.bonus_schedule=constant: explore.bonus_last"),
                                (["ppo.value_epochs=5"], "ppo.phases=joint: ppo.value_epochs"),
                                (["lr_schedule=constant", "learning_rate_last=1e-4"],
                                 "ppo.learning_rate_schedule=constant: ppo.learning_rate_last")):
            result = self.run_cli(*self.train_args("cartpole", "--steps", 1, *arguments))
            self.assertIn(f"without effect with {keys}\n", result.stderr)
        for arguments, keys in (([], ""), (["async.lag=3"], "async.schedule=free: async.lag"),
                                (["--groups", 1], "backend=actors: groups"),
                                (["async.lag=3", "async.schedule=fixed"], ""),
                                (["async.ring=3", "async.schedule=fixed"], "async.schedule=fixed: async.ring")):
            result = self.run_cli(*self.train_args("cartpole-appo", "--steps", 1, *arguments))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("without effect" in result.stderr, bool(keys), result.stderr)
            self.assertIn(keys, result.stderr)
        for arguments in (["--restart-budget", 5, "--on-env-failure", "restart"], ["learning_rate_last=1e-4"],
                          ["explore.resolution=0.5", "explore.bonus=1"],
                          ["ppo.value_epochs=5", "ppo.phases=separate", "net.shared=false"],
                          ["ppo.value_epochs=5", "curriculum=until_steps=1; ppo.phases=separate"]):
            result = self.run_cli(*self.train_args("cartpole", "--steps", 1, *arguments))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("without effect", result.stderr)

    def test_both_names_of_a_key_for_an_evaluation(self):
        self.train("cartpole", "--steps", 1)
        self.expect_error(["eval", "runs/1", "force=1", "env.force=2"], 2,
                          "'force' and 'env.force' are the same key: give one")
        self.assertEqual(self.run_cli("eval", "runs/1", "force=1", "force=2", "--episodes", 1).returncode, 0)

    def test_a_limit_and_a_duration_hold_both(self):
        summary = self.train("cartpole", "total_timesteps=2000", "--duration", "1h")
        self.assertEqual(summary["steps"], 2048)

    def test_sizes_that_contradict_each_other(self):
        hidden = "net.hidden: expected 1 to 16 widths from 1 to 1024, such as 64,64; got"
        for setting, message in (
                ("ppo.minibatch_size=4096", "ppo.batch_size 4096 is larger than a rollout of "
                                            "1024 rows (n_steps x num_envs)"),
                ("ppo.epochs=0", "ppo.n_epochs: expected an integer from 1 to 1000, got '0'"),
                ("horizon=0", "n_steps: expected an integer from 1 to 1000000, got '0'"),
                ("net.hidden=0", f"{hidden} '0' in '0'"),
                ("net.hidden=64,0", f"{hidden} '0' in '64,0'"),
                ("net.hidden=abc", f"{hidden} 'abc' in 'abc'"),
                ("net.hidden=", f"{hidden} '' in ''"),
                ("net.squash=true", "net.squash: only continuous actions can be squashed, those of "
                                    "'cartpole' are Discrete(2)"),
                ("steps=0", "one of total_timesteps, episodes, iterations and duration_s must be above 0")):
            with self.subTest(setting=setting):
                self.refuse("cartpole", [setting], message)
        self.refuse("cartpole", ["ppo.minibatch_size=0", "ppo.minibatches=2000"],
                    "ppo.minibatches 2000 is more than a rollout's 1024 rows (n_steps x num_envs)")
        self.refuse("cartpole", ["--num-envs", "1000000", "horizon=1000000"],
                    "n_steps 1000000 x num_envs 1000000 is more than 1073741824 rows")
        self.refuse("cartpole", ["--backend", "processes", "--num-envs", 8, "--workers", 9],
                    "workers: expected an integer from 1 to 8 (num_envs), got 9")
        for duration in ("0", "-1s", "soon", "5d", "nan", ""):
            self.refuse("cartpole", [f"--duration={duration}"] if duration else
                        ["--duration", "1x"],
                        "--duration: expected a time such as 90s, 10m or 2h, got "
                        f"'{duration or '1x'}'")

    def test_policies_that_cannot_do_it(self):
        self.refuse("cartpole", ["--policy", "fused", "net.hidden=512"],
                    "the fused kernels cannot do this network: hidden width 512 is over its limit "
                    "of 256; use policy=torch")
        self.refuse("cartpole", ["--policy", "fused", "--device", "cuda"],
                    "the fused kernels run on the cpu, not on cuda; use policy=torch")
        if (BINARY.parent / PLUGIN).exists() and not Path("/dev/nvidia0").exists():
            result = self.run_cli("train", "cartpole", "--device", "cuda")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertRegex(result.stderr, r"\Aflotilla: device cuda: libtorch \S+ finds no CUDA"
                                            r" here; use device=cpu\n\Z")

    def test_files(self):
        cases = (("env: {name: cartpol}\n",
                  "run.yaml: unknown environment 'cartpol'; did you mean 'cartpole'? "
                  "('flotilla list' shows all)"),
                 ("steps: 100\n", "run.yaml: the key env.name is missing"),
                 ("env: cartpol\n",
                  "run.yaml: unknown environment 'cartpol'; did you mean 'cartpole'? "
                  "('flotilla list' shows all)"),
                 ("env: cartpole\nn_steps: 5\nhorizon: 5\n",
                  "run.yaml:3: 'n_steps' and 'horizon' are the same key: give one"),
                 ("", "run.yaml: the key env.name is missing"),
                 ("env: {name: cartpole}\nppo:\n  lr: fast\n",
                  "run.yaml:3: ppo.learning_rate: expected a number from 0 to 1, got 'fast'"),
                 ("env: {name: cartpole}\nppo:\n  rl: 1\n",
                  "unknown key 'ppo.rl' in run.yaml; did you mean 'ppo.lr'?"),
                 ("env:\n  name: cartpole\n other: 3\n", "run.yaml:3: end of map not found"))
        for text, message in cases:
            with self.subTest(text=text):
                (self.dir / "run.yaml").write_text(text)
                self.refuse("run.yaml", [], message)
        for path in (".", "/dev/zero"):
            self.refuse(path, [], f"cannot read {path}: not a regular file")

    def test_places_for_a_run(self):
        self.train("cartpole", "--steps", 1)
        files = [path for path in (self.dir / "runs/1").rglob("*") if path.is_file()]
        before = {path: path.read_bytes() for path in files}
        self.expect_error(["train", "cartpole", "--out", "runs/1"], 2,
                          "'runs/1' holds a run already; resume it with --resume runs/1, or choose "
                          "another --out")
        self.assertEqual({path: path.read_bytes() for path in files}, before)
        (self.dir / "file").write_text("mine")
        for out in ("file", "file/run"):
            self.expect_error(["train", "cartpole", "--out", out], 2,
                              f"cannot make '{out}': Not a directory")
        self.assertEqual((self.dir / "file").read_text(), "mine")
        self.assertEqual(self.run_cli("train", "cartpole", "--out", "/proc/run").returncode, 2)
        result = self.run_cli("train", "cartpole", "--out", "/sys/kernel")
        self.assertIn(result.returncode, (2, 4))
        if os.geteuid() != 0:
            (self.dir / "locked").mkdir(mode=0o500)
            self.expect_error(["train", "cartpole", "--out", "locked"], 2,
                              "cannot write to 'locked'")

    def test_a_full_disk(self):
        place = self.dir / "tiny"
        place.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", place],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        # The one page there is takes config.yaml and no more; then it takes nothing.
        self.expect_full("tiny/run", "history.jsonl", ["config.yaml", "history.jsonl"])
        self.expect_full("tiny/other", "config.yaml", [])

    def test_a_file_size_limit(self):
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
            self.expect_full("runs/1", "config.yaml", [], "File too large (limit: 100 B a file)")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    def expect_full(self, out, name, left, reason="No space left on device"):
        result = self.run_cli("train", "cartpole", "--steps", 1, "--out", out, "--json")
        self.assertEqual((result.returncode, result.stdout), (4, ""), result.stderr)
        self.assertEqual(result.stderr.splitlines()[-1],
                         f"flotilla: cannot write {out}/{name}: {reason}")
        self.assertEqual(sorted(path.name for path in (self.dir / out).iterdir()), left)


class TrainFailures(TrainTest):
    may_leave = ("runs", "crashes")

    def test_stop(self):
        result = self.run_cli(*self.train_args("faulty", "env.fault=throw", "--steps", 100000))
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertRegex(result.stderr.splitlines()[-1],
                         r"\Aflotilla: env \d+ of 'faulty' failed in step: threw: faulty: told to "
                         r"throw at step 50; replay it with: \S+/flotilla check faulty --replay \S+; "
                         r"the last checkpoint is step_0: resume with --resume runs/1 \(env=\d+, [^()]*\)\Z")
        # What the run was is still there.
        self.assertLessEqual({"config.yaml", "crashes", "checkpoints"},
                             {path.name for path in (self.dir / "runs/1").iterdir()})

    def test_a_run_goes_on_and_is_evaluated(self):
        for fault, layout in (("throw", ["--backend", "threads"]),
                              ("segv", ["--backend", "processes", "--workers", 2])):
            for policy in ("restart", "drop") if fault == "throw" else ("restart",):
                with self.subTest(fault=fault, policy=policy):
                    summary = self.train("faulty", f"env.fault={fault}", "--crash-dir", "",
                                         "env.fault_probability=0.0005", "--on-env-failure", policy,
                                         "--restart-budget", 100000, "--steps", 20000, *layout)
                    self.assertEqual((summary["steps"], summary["eval"]["episodes"]), (24576, 100))

    def test_an_evaluation_that_fails_leaves_the_policy(self):
        result = self.run_cli(*self.train_args("faulty", "env.fault=throw", "env.fault_step=50", "--steps", 1024,
                                               "n_steps=16", "--num-envs", 64))
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertRegex(result.stderr.splitlines()[-1],
                         r"\Aflotilla: evaluation: env \d+ of 'faulty' failed in step: .*; training is done and its "
                         r"policy is in checkpoint step_1024: evaluate it with --resume runs/1, or end the run")
        done = self.run_cli("train", "--resume", "runs/1", "eval.episodes=0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nothing is left to train: total_timesteps is reached", done.stderr)

    def test_a_worker_killed_from_outside_changes_nothing(self):
        arguments = ["--steps", 300000, "--num-envs", 32, "--backend", "processes", "--workers", 2,
                     "eval.episodes=10", "--on-env-failure", "restart"]
        expected = self.train("cartpole", *arguments)
        process = self.start(*self.train_args("cartpole", *arguments))
        workers = wait_for(lambda: len(workers_of(process.pid)) == 2 and workers_of(process.pid),
                           "two workers")
        wait_for(lambda: (self.dir / "runs/2/config.yaml").exists(), "the run")
        os.kill(workers[0], signal.SIGKILL)
        out, err = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn('outcome="the step was repeated"', err)
        self.assertEqual(json.loads(out)["params_sha256"], expected["params_sha256"])


class TrainSignals(TrainTest):
    timed = True

    def test_interrupt_and_terminate(self):
        for layout in Signals.LAYOUTS:
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(layout=layout, signal=number.name):
                    process = self.start(*self.train_args("cartpole", "--duration", "10m", *layout))
                    config = self.dir / "runs" / str(self.runs) / "config.yaml"
                    wait_for((config.parent / "checkpoints/step_0").exists, "the run")
                    workers = workers_of(process.pid)
                    self.assertEqual(len(workers), 2 if "processes" in layout else 0)
                    process.send_signal(number)
                    start = time.monotonic()
                    out, err = process.communicate(timeout=8)
                    self.assertLess(time.monotonic() - start, 5)
                    self.assertEqual((process.returncode, out), (130, ""))
                    self.assertRegex(err.splitlines()[-1],
                                     r"\Aflotilla: interrupted after \d+ steps; resume with --resume ")
                    wait_for(lambda: not any(map(is_alive, workers)), "the workers end", 2)

    def test_a_signal_does_not_wait_for_the_end_of_a_long_first_update(self):
        process = self.start(*self.train_args("cartpole", "--backend", "processes", "--workers", 2,
                                              "ppo.epochs=1000", "horizon=4096"))
        run = self.dir / "runs" / str(self.runs)
        wait_for((run / "checkpoints/step_0").exists, "the run")
        workers = workers_of(process.pid)
        before = cpu_s(process.pid)
        wait_for(lambda: cpu_s(process.pid) > before + 0.5, "the first update")
        process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        _, err = process.communicate(timeout=20)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("did not end in time", err)
        self.assertEqual([path.name for path in (run / "checkpoints").iterdir()], ["step_0"])
        wait_for(lambda: not any(map(is_alive, workers)), "the workers end", 2)
        result = self.run_cli("train", "--resume", run, "--steps", 1, "ppo.epochs=1", "horizon=32")
        self.assertEqual(result.returncode, 0, result.stderr)


class BenchPpo(CliTest):
    def bench_ppo(self, *arguments, **options):
        result = self.run_cli("bench", "ppo", *arguments, "--seconds", "0.05", "--json", **options)
        self.assertEqual(result.returncode, 0, f"{arguments}: {result.stderr}")
        self.assertEqual((result.stdout.count("\n"), result.stderr), (1, ""))
        return json.loads(result.stdout)

    def test_json(self):
        line = self.bench_ppo("cartpole", "--num-envs", 32, "--threads", 1, "horizon=16")
        self.assertGreaterEqual(set(line), PPO_KEYS)
        self.assertGreaterEqual(set(line["machine"]), MACHINE_KEYS)
        self.assertEqual([line[key] for key in ("env", "policy", "num_envs", "threads")],
                         ["cartpole", "fused", 32, 1])
        self.assertEqual(line["steps"] % (32 * 16), 0)
        self.assertGreater(line["steps"], 0)
        self.assertGreaterEqual(line["wall_s"], 0.05)
        self.assertGreater(line["cpu_s"], 0)
        self.assertAlmostEqual(line["steps_per_s"], line["steps"] / line["wall_s"], delta=1)
        # A step: 4-64-64 twice, 64-2 and 64-1 make 8896 multiply-adds forward, and an epoch of
        # four takes 2 * 8896 + 8384.
        self.assertAlmostEqual(line["gflops"] * 1e9 / line["steps_per_s"], 227200, delta=1)

    def test_it_takes_the_defaults_and_not_the_recipe(self):
        self.assertEqual(self.bench_ppo("cartpole")["num_envs"], 64)

    def test_kernels(self):
        flags = Path("/proc/cpuinfo").read_text()
        refusal = "flotilla: FLOTILLA_KERNEL: this CPU cannot run {}\n".format
        for kernel, wants in (("portable", ""), ("avx2", " avx2 "), ("avx512", " avx512vl "),
                              ("neon", " fma " if " fma " in flags else " asimd ")):
            with self.subTest(kernel=kernel):
                if wants not in flags:
                    refused = self.run_cli("bench", "ppo", "cartpole",
                                           env={**os.environ, "FLOTILLA_KERNEL": kernel})
                    self.assertEqual((refused.returncode, refused.stderr), (2, refusal(kernel)))
                    continue
                line = self.bench_ppo("cartpole", env={**os.environ, "FLOTILLA_KERNEL": kernel})
                self.assertEqual(line["kernel"], f"fused {kernel}")
        amx = self.run_cli("bench", "oracle", "--num-envs", "2", "--seconds", "0.01", "--repeats",
                           "1", "--json", env={**os.environ, "FLOTILLA_KERNEL": "amx"})
        if " amx_bf16 " in flags and " avx512_bf16 " in flags:
            self.assertEqual(json.loads(amx.stdout)["router"], "network, amx")
        else:
            self.assertEqual((amx.returncode, amx.stderr),
                             (2, refusal("amx")))
        for command in (["train"], ["train", "--policy", "torch"], ["bench", "ppo"]):
            result = self.run_cli(*command, "cartpole",
                                  env={**os.environ, "FLOTILLA_KERNEL": "sse"})
            self.assertEqual((result.returncode, result.stdout, result.stderr),
                             (2, "", "flotilla: FLOTILLA_KERNEL: unknown kernel 'sse' "
                                     "(amx, avx512, avx2, neon, portable)\n"))

    def test_back_ends_and_policies(self):
        for layout in (["--backend", "serial"], ["--backend", "processes", "--workers", 2]):
            self.assertEqual(self.bench_ppo("cartpole", *layout)["backend"], layout[1])
        if (BINARY.parent / PLUGIN).exists():
            line = self.bench_ppo("cartpole", "--policy", "torch")
            self.assertEqual((line["policy"], line["kernel"][:6]), ("torch", "torch "))
            self.assertIsNotNone(line["machine"]["torch"])

    def test_text_output(self):
        result = self.run_cli("bench", "ppo", "pendulum", "--seconds", "0.05")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout.splitlines()[-1],
                         r"\A[\d.,]+( [kM])? steps trained per second \(\d+\.\d GFLOP/s\): \d+ steps in ")

    def test_bad_input(self):
        self.expect_error(["bench", "ppo", "cartpol"], 2,
                          "no recipe, environment or file 'cartpol'; did you mean 'cartpole'?")
        self.expect_error(["bench", "ppo", "cartpole", "ppo.epoch=1"], 2,
                          "unknown key 'ppo.epoch'; did you mean 'ppo.epochs'?")
        for option in ("--steps", "--episodes", "--duration", "--out"):
            self.assertEqual(self.run_cli("bench", "ppo", "cartpole", option, "1").returncode, 2)

    def test_interrupt(self):
        process = self.start("bench", "ppo", "cartpole", "--seconds", "60", "--backend",
                             "processes", "--workers", "2")
        workers = wait_for(lambda: len(workers_of(process.pid)) == 2 and workers_of(process.pid),
                           "two workers")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=5)
        self.assertEqual((process.returncode, out, err), (130, "", "flotilla: interrupted\n"))
        wait_for(lambda: not any(map(is_alive, workers)), "the workers end", 2)


class Signals(CliTest):
    timed = True
    may_leave = ("crashes",)

    LAYOUTS = [["--backend", "serial"], ["--backend", "threads", "--threads", "2"],
               ["--backend", "processes", "--workers", "2", "--start-method", "spawn"],
               ["--backend", "processes", "--workers", "2", "--start-method", "fork"]]

    def start_bench(self, env, *arguments, seconds=60):
        """A benchmark at work, and its workers."""
        process = self.start("bench", "env", env, "--num-envs", 4, "--seconds", seconds,
                             "--crash-dir", "crashes", *arguments)
        wait_for(lambda: catches_interrupts(process.pid), "start")
        workers = []
        if "processes" in arguments:
            workers = wait_for(lambda: len(workers_of(process.pid)) == 2 and
                               workers_of(process.pid), "two workers")
        return process, workers

    def expect_gone(self, workers, seconds=2):
        wait_for(lambda: not any(map(is_alive, workers)), "the workers end", seconds)

    def test_interrupt_and_terminate(self):
        for layout in self.LAYOUTS:
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(layout=layout, signal=number.name):
                    process, workers = self.start_bench("cartpole", *layout)
                    process.send_signal(number)
                    out, err = process.communicate(timeout=3)
                    self.assertEqual((process.returncode, out, err),
                                     (130, "", "flotilla: interrupted\n"))
                    self.expect_gone(workers)

    def test_an_interrupted_leaderboard_ends_at_once(self):
        policy = Path(__file__).resolve().parents[2] / "assets" / "cage2"
        process = self.start("cage2", "leaderboard", policy, "--episodes", 1_000_000)
        wait_for(lambda: catches_interrupts(process.pid), "start")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=3)
        self.assertEqual((process.returncode, out, err), (130, "", "flotilla: interrupted\n"))

    def test_ctrl_c_of_a_terminal_reaches_the_workers_too(self):
        for layout in self.LAYOUTS[2:]:
            process, workers = self.start_bench("cartpole", *layout)
            for pid in [*workers, process.pid]:
                os.kill(pid, signal.SIGINT)
            _, err = process.communicate(timeout=3)
            self.assertEqual((process.returncode, err), (130, "flotilla: interrupted\n"))
            self.expect_gone(workers)

    def test_a_second_interrupt_ends_even_a_hang(self):
        for layout in self.LAYOUTS:
            with self.subTest(layout=layout):
                process, workers = self.start_bench("faulty", "fault=hang", "fault_step=1", *layout)
                process.send_signal(signal.SIGINT)
                # The kernel keeps one pending signal of a kind, so the first must have arrived.
                wait_for(lambda: status_field(process.pid, "ShdPnd") in (None, "0" * 16),
                         "delivery")
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=3)
                self.assertEqual(process.returncode, 130)
                self.assertNotIn("did not end in time", err)
                self.expect_gone(workers)

    def test_one_interrupt_ends_even_a_hang_after_the_grace_time(self):
        started = [self.start_bench("faulty", "fault=hang", "fault_step=1", *layout)
                   for layout in self.LAYOUTS]
        for process, _ in started:
            process.send_signal(signal.SIGTERM)
        for process, workers in started:
            process.communicate(timeout=10)
            self.assertEqual(process.returncode, 130)
            self.expect_gone(workers)

    def test_workers_do_not_outlive_a_killed_parent(self):
        for layout in self.LAYOUTS[2:]:
            for env in (["cartpole"], ["faulty", "fault=hang", "fault_step=1"]):
                with self.subTest(layout=layout, env=env):
                    process, workers = self.start_bench(*env, *layout)
                    if env[0] == "faulty":  # a hung worker naps over and over
                        for pid in workers:
                            wait_for(lambda: int(status_field(pid, "voluntary_ctxt_switches")) > 20,
                                     "hang")
                    process.kill()
                    process.wait(timeout=3)
                    self.expect_gone(workers)

    def test_a_worker_killed_from_outside_is_replaced(self):
        expected = self.bench("cartpole", "--num-envs", 4)["trajectory_sha256"]
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP):
            with self.subTest(signal=number.name):
                process, workers = self.start_bench(
                    "cartpole", "--backend", "processes", "--workers", "2", "--on-env-failure",
                    "restart", "--json", seconds=1.5)
                os.kill(workers[0], number)
                out, err = process.communicate(timeout=TIMEOUT_S)
                self.assertEqual(process.returncode, 0, err)
                self.assertEqual(json.loads(out)["trajectory_sha256"], expected)
                self.assertEqual(json.loads(out)["failures"], 1)
                self.assertIn('outcome="the step was repeated"', err)


def load_tests(_, cases, __):
    """Asked by unittest: which of the module's cases are to run."""
    if TIMED is None:
        return cases
    return unittest.TestSuite(case for group in cases for case in group if case.timed == TIMED)


def main():
    global BINARY, TIMED
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=Path, required=True, help="the built flotilla")
    parser.add_argument("--timed", choices=["yes", "no"])
    options, rest = parser.parse_known_args()
    if options.timed:
        TIMED = options.timed == "yes"
    BINARY = options.binary.resolve()
    if not os.access(BINARY, os.X_OK):
        parser.error(f"--binary: no program at {BINARY}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.environ.pop("FLOTILLA_LOG_LEVEL", None)
    os.environ.pop("FLOTILLA_LOG_FORMAT", None)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

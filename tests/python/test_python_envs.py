#!/usr/bin/env python3
"""Python environments in Flotilla's workers: spaces, seeds, masks, failures, resume, and nothing left behind.

    python3 tests/python/test_python_envs.py --binary build/release/flotilla --python VENV/bin/python
    python3 tests/python/test_python_envs.py ... --faults 200        # the long way

The Python has the packages flotilla and gymnasium; tests/python/package/run.py makes such a one. Exit status: 0 ok, 1
not, 77 skipped: there is none.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import packages

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT_S = 300
ARGS = None


def session_of(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[3])


def left_behind(session):
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and session_of(pid) == session]


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        # Runs are synced to the disk, which may be busy: where there is memory for it, not here.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="python_envs.", dir=memory))
        self.addCleanup(shutil.rmtree, self.folder)
        self.shared = set(os.listdir("/dev/shm"))

    def run_(self, *arguments, status=0, **environment):
        """A command of its own session, of which nothing may be left when it has ended."""
        with subprocess.Popen([str(each) for each in arguments], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace",
                              stdin=subprocess.DEVNULL, start_new_session=True,
                              env=dict(os.environ, **environment)) as process:
            out, errors = process.communicate(timeout=TIMEOUT_S + 10 * ARGS.faults)
        self.assertEqual(process.returncode, status, f"{arguments}\n{out}\n{errors}")
        self.assertEqual(left_behind(process.pid), [], arguments)
        self.assertEqual(set(os.listdir("/dev/shm")) - self.shared, set())
        return out, errors

    def flotilla(self, *arguments, status=0, **environment):
        return self.run_(ARGS.binary, *arguments, status=status, **environment)

    def bench(self, *arguments, status=0):
        """1000 steps and some more, under random actions."""
        out, errors = self.flotilla("bench", "env", *arguments, "--seconds", "0.01", "--json",
                                    status=status)
        return (json.loads(out) if out else None), errors

    def train(self, *arguments, status=0):
        out, errors = self.flotilla("train", *arguments, "--json", "eval.episodes=0",
                                    "net.hidden=16", status=status)
        return (json.loads(out) if out else None), errors


def ask(question, env, *settings):
    done = subprocess.run([sys.executable, "-m", "flotilla.worker", question, env, *settings],
                          capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    return json.loads(done.stdout)


class Spaces(unittest.TestCase):
    """What the package makes of a space, against Gymnasium's own flattening."""

    def test_observations(self):
        import gymnasium
        import numpy as np
        import python_envs
        from flotilla.worker import EnvError, Observations
        flattened = 0
        for name, space in python_envs.SPACES.items():
            if name in ("text", "sequence"):
                with self.assertRaisesRegex(EnvError, "cannot be flattened: Box, Discrete, Multi"):
                    Observations(space, gymnasium.spaces)
                continue
            space.seed(3)
            ours = Observations(space, gymnasium.spaces)
            flat = gymnasium.spaces.flatten_space(space)
            self.assertEqual(ours.part.size, flat.shape[0], name)
            for value, bound in zip(ours.part.low + ours.part.high,
                                    np.concatenate([flat.low, flat.high]).tolist()):
                self.assertEqual(value, bound if np.isfinite(bound) else None, name)
            for _ in range(20):
                value = space.sample()
                expected = gymnasium.spaces.flatten(space, value)
                np.testing.assert_array_equal(ours.flat(value), expected.astype(ours.dtype))
                flattened += 1
        self.assertEqual(flattened, 9 * 20)

    def test_shapes_and_types(self):
        import gymnasium
        import python_envs
        from flotilla.worker import Observations
        facts = {name: Observations(python_envs.SPACES[name], gymnasium.spaces)
                 for name in ("box", "image", "scalar", "box64", "dict")}
        self.assertEqual({name: (str(each.dtype), each.shape, each.as_is)
                          for name, each in facts.items()},
                         {"box": ("float32", (2, 3), True), "image": ("uint8", (4, 4, 3), True),
                          "scalar": ("float32", (1,), False), "box64": ("float32", (2,), False),
                          "dict": ("float32", (9,), False)})

    def test_actions(self):
        import gymnasium
        import numpy as np
        import python_envs
        from flotilla.worker import Actions, EnvError
        refused = {"endless": "no finite bounds", "integers": "use MultiDiscrete",
                   "mixed": "mixes numbers and choices"}
        for name, space in python_envs.ACTIONS.items():
            if name in refused:
                with self.assertRaisesRegex(EnvError, refused[name]):
                    Actions(space, gymnasium.spaces)
                continue
            ours = Actions(space, gymnasium.spaces)
            draw = np.random.default_rng(5)
            if ours.is_box:
                bounds = np.array([ours.low, ours.high])
                rows = np.concatenate([bounds, draw.uniform(*bounds, (20, len(ours.low)))]).astype(np.float32)
            else:
                rows = draw.integers(ours.choices, size=(20, len(ours.choices)), dtype=np.int32)
            for row in rows:
                self.assertTrue(space.contains(ours.decoded(row)), (name, ours.decoded(row)))
        ours = Actions(python_envs.ACTIONS["tuple"], gymnasium.spaces)
        self.assertEqual(ours.choices, [3, 2, 2])
        value = ours.decoded(np.array([2, 0, 1], np.int32))
        self.assertEqual((value[0], value[1].tolist()), (3, [0, 1]))

    def test_a_value_outside_of_its_space(self):
        import gymnasium
        import numpy as np
        import python_envs
        from flotilla.worker import EnvError, Observations
        wrong = {"box": [(np.zeros((3, 2), np.float32), "shape"), (np.zeros((2, 3)), "dtype float64"),
                         ([0] * 6, "is a list"), (np.full((2, 3), np.nan, np.float32), "not finite")],
                 "discrete": [(1, "not in Discrete"), (7, "not in Discrete"), (2.5, "not in")],
                 "multi": [(np.array([3, 0]), "not in Multi"), (np.array([1]), "not in Multi")],
                 "binary": [(np.array([0, 2, 0]), "not in Multi")],
                 "tuple": [((1,), "expected a tuple of 2"), ([1, 2], "is a list")],
                 "dict": [({"a": np.zeros(2)}, r"keys \['a'\]"), (3, "has an int")]}
        for name, values in wrong.items():
            ours = Observations(python_envs.SPACES[name], gymnasium.spaces)
            for value, message in values:
                with self.assertRaisesRegex(EnvError, message):
                    ours.flat(value)


class Describing(Case):
    def test_the_answer(self):
        answer = ask("--describe", "py:python_envs:Walk", "length=9")
        self.assertEqual(answer["env"]["action"], {"kind": "discrete", "choices": [3]})
        self.assertEqual(answer["env"]["obs"]["shape"], [3])
        self.assertEqual((answer["env"]["has_mask"], answer["env"]["state_bytes"]), (False, 0))
        self.assertEqual([(key["name"], key["default"])
                          for key in ask("--keys", "py:python_envs:Walk")["keys"]],
                         [("length", "20"), ("log", ""), ("kwargs", "")])
        self.assertGreater(ask("--describe", "py:python_envs:Kept")["env"]["state_bytes"], 12)
        gym = ask("--keys", "gym:CartPole-v1")
        self.assertEqual({key["name"]: key["default"] for key in gym["keys"]},
                         {"sutton_barto_reward": "false", "render_mode": "",
                          "max_episode_steps": "500", "kwargs": ""})

    def test_what_cannot_be_made(self):
        """As the program says it."""
        for env, message in (
                ("py:broken_module:make", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"
                                          " (broken_module.py:3 in <module>)"),
                ("py:python_envs:raising", "RuntimeError: cannot be made (python_envs.py:"),
                ("py:python_envs:leaving", "exited with status 9")):
            _, errors = self.flotilla("train", env, status=2)
            self.assertIn(message, errors)
            self.assertEqual(errors.count("\nflotilla: ") + errors.startswith("flotilla: "), 1, errors)
            self.assertEqual("Traceback" in errors, env != "py:python_envs:leaving", errors)

    def test_only_what_was_asked_for_is_made(self):
        """One with the defaults of the settings takes its process with it."""
        out, _ = self.bench("py:python_envs:Picky", "port=5")
        self.assertEqual(out["failures"], 0)
        made = self.folder / "made"
        self.train("py:python_envs:Picky", "port=6", f"log={made}", "--n-envs", "2", "--workers", "1",
                   "--iterations", "1", "n_steps=8")
        # One to look at by the program, one by the worker, and those that are played.
        self.assertEqual([json.loads(line) for line in made.read_text().splitlines()], 4 * [{"port": 6}])
        out, _ = self.flotilla("list", "py:python_envs:Picky", "--keys")
        self.assertIn("env.port", out)
        _, errors = self.bench("py:python_envs:Picky", status=2)
        self.assertIn("exited with status 5", errors)
        out, _ = self.flotilla("list", "py:python_envs:Sized")
        self.assertRegex(out, r"length +text; default \"\"\s+of the Python environment, which needs it")
        self.train("py:python_envs:Sized", "length=5", "--n-envs", "2", "--iterations", "1", "n_steps=8")

    def test_refusals(self):
        """As workers say them, in this process."""
        from flotilla.worker import answer_of, describe
        for env, settings, message in (
                ("py:no_such_module_at_all:make", [], "ModuleNotFoundError: No module named"),
                ("py:python_envs:missing", [], "module python_envs has no missing"),
                ("py:python_envs:NOT_CALLABLE", [], "python_envs.NOT_CALLABLE is an int: it cannot be called"),
                ("py:python_envs:nothing", [], "it is an int without reset()"),
                ("py:python_envs:BadReset", [], "reset() must return (observation, info)"),
                ("py:python_envs", [], "expected py:MODULE:NAME"),
                ("py:python_envs:Any", ["obs=text"], "cannot be flattened"),
                ("py:python_envs:Any", ["action=endless"], "no finite bounds"),
                ("py:python_envs:anything", ["kwargs=5"], "expected a JSON object"),
                ("gym:NoSuchEnv-v7", [], "NoSuchEnv")):
            self.assertIn(message, answer_of(describe, env, settings).get("error", "none"), env)

    def test_recipes_of_python_code_are_verified(self):
        self.flotilla("verify", "py:python_envs:Walk", "length=5", "n_envs=2", "n_steps=8", "iterations=1",
                      "eval.episodes=2", "--seeds", "1", "--python", sys.executable)
        self.flotilla("verify", "py:python_envs:Walk", "n_envs=2", "n_steps=8", "iterations=1",
                      "eval.episodes=2", "--seeds", "1")

    def test_settings(self):
        _, errors = self.flotilla("train", "py:python_envs:Walk", "lenth=3", status=2)
        self.assertIn("did you mean 'length'", errors)
        out, _ = self.flotilla("list", "py:python_envs:Walk")
        self.assertIn("length", out)
        _, errors = self.flotilla("train", "py:python_envs:Walk", "--backend", "threads", status=2)
        self.assertIn("backend: expected processes", errors)

    def test_which_python(self):
        _, errors = self.flotilla("train", "py:python_envs:Walk", "--python", "/no/such/python",
                                  status=2)
        self.assertIn("no Python with the package 'flotilla': /no/such/python has none", errors)

    def test_a_file_does_not_choose_code(self):
        (self.folder / "run.yaml").write_text("env: {name: 'py:python_envs:Walk'}\nnum_envs: 2\n"
                                              "iterations: 1\nn_steps: 8\n")
        _, errors = self.flotilla("train", "run.yaml", status=2)
        self.assertIn("is Python code that a file names", errors)
        self.train("run.yaml", "--python", sys.executable)


class Stepping(Case):
    def test_every_space(self):
        for action in ("discrete", "multi", "binary", "box", "box64", "scalar64", "tuple", "dict"):
            obs = {"discrete": "dict", "multi": "image", "binary": "tuple", "box": "box64",
                   "box64": "discrete", "scalar64": "binary", "tuple": "multi", "dict": "scalar"}[action]
            self.bench("py:python_envs:Any", f"obs={obs}", f"action={action}", "--num-envs", "2")

    def test_seeds(self):
        log = self.folder / "log"
        summary, _ = self.train("py:python_envs:Walk", f"log={log}", "--n-envs", "5", "--workers",
                                "2", "--seed", "40", "--iterations", "1", "n_steps=30")
        self.assertEqual((summary["steps"], summary["backend"]), (150, "processes"))
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        first = [line["seed"] for line in lines if line["seed"] not in (None, 0)]  # 0: to look at it
        self.assertEqual(sorted(first), [40, 41, 42, 43, 44])
        self.assertEqual(sum(line["seed"] is None for line in lines), 5)

    def test_the_same_with_any_number_of_workers(self):
        for env, numbers in (("py:python_envs:Walk", (1, 2, 3)), ("py:python_envs:Kept", (1, 3))):
            hashes = {self.train(env, "--n-envs", "6", "--workers", workers, "--iterations", "4",
                                 "n_steps=32", "--seed", "3")[0]["params_sha256"]
                      for workers in numbers}
            self.assertEqual(len(hashes), 1, env)

    def test_actors_collect_the_same(self):
        common = ["--n-envs", "6", "--iterations", "4", "n_steps=8", "algo=appo", "appo.minibatches=2"]
        fixed = ["--backend", "actors", "async.schedule=fixed", "async.lag=0"]
        expected = self.train("py:python_envs:Walk", "--workers", "2", *common)[0]["params_sha256"]
        for layout in (["--actors", "2", "--workers", "1"], ["--actors", "6", "--workers", "3"], ["--actors", "3"]):
            self.assertEqual(self.train("py:python_envs:Walk", *common, *fixed, *layout)[0]["params_sha256"], expected)

    def test_ends_are_kept_apart(self):
        # Every third episode is cut, each after 20 steps.
        out, _ = self.bench("py:python_envs:Walk", "--num-envs", "2", "--seed", "1")
        again, _ = self.bench("py:python_envs:Walk", "--num-envs", "2", "--seed", "1", "--groups",
                              "2", "--workers", "2")
        self.assertEqual(out["trajectory_sha256"], again["trajectory_sha256"])
        short, _ = self.bench("py:python_envs:Walk", "length=10", "--num-envs", "2", "--seed", "1")
        self.assertNotEqual(out["trajectory_sha256"], short["trajectory_sha256"])

    def test_masks(self):
        for how, multi in (("method", "false"), ("info", "true")):
            summary, _ = self.train("py:python_envs:Masked", f"how={how}", f"multi={multi}",
                                    "--n-envs", "4", "--iterations", "2", "n_steps=64")
            self.assertEqual(summary["env_failures"], 0)
        _, errors = self.train("py:python_envs:Masked", "how=none", status=2)
        self.assertIn("the action mask allows no choice", errors)

    def test_a_mask_of_a_wrapper_in_the_middle(self):
        answer = ask("--describe", "py:python_envs:mask_in_the_middle")
        self.assertTrue(answer["env"]["has_mask"])
        out, _ = self.bench("py:python_envs:mask_in_the_middle")
        self.assertEqual(out["failures"], 0)

    def test_prints_go_to_stderr(self):
        for out, errors in (self.flotilla("bench", "env", "py:python_envs:Faulty", "fault=print",
                                          "--seconds", "0.01", "--json"),):
            self.assertEqual(json.loads(out)["failures"], 0)
            self.assertIn("garbage {", errors)


class RemoteActors(Case):
    """Actors of a learner whose environments are Python code: they run what their own command allows."""

    WALK = "py:python_envs:Walk"

    def setUp(self):
        super().setUp()
        if not pathlib.Path(ARGS.binary).with_name("libflotilla_c10d.so").exists():
            self.skipTest("this build has no c10d")

    def start(self, *arguments):
        process = subprocess.Popen([ARGS.binary, *arguments], cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def learner(self, port, env, *more):
        return self.start("train", env, "algo=impala", "--backend=actors", "--num-envs=8", "actors=2", "n_steps=16",
                          f"cluster.listen={port}", "eval.episodes=3", "net.hidden=16", "--json", *more)

    def test_play_what_they_are_told_to(self):
        log = self.folder / "log"
        learner = self.learner(29720, self.WALK, f"log={log}", "--steps=4096")
        actor = self.start("actor", "127.0.0.1:29720", "--threads=1", "--workers=2", f"--env={self.WALK}")
        out, errors = learner.communicate(timeout=TIMEOUT_S)
        self.assertEqual(learner.returncode, 0, errors)
        self.assertIn(f"actor 127.0.0.1:29720 --env {self.WALK}", errors)
        summary = json.loads(out)
        self.assertGreaterEqual(summary["steps"], 4096)
        self.assertEqual((summary["env_failures"], summary["eval"]["episodes"]), (0, 3))
        said = actor.communicate(timeout=TIMEOUT_S)[1]
        self.assertEqual(actor.returncode, 0, said)
        self.assertIn(f"envs 0 to 3 of {self.WALK}, 1 thread, 2 workers", said)

    def test_refuse_what_another_machine_names(self):
        for port, env in ((29721, self.WALK), (29722, "gym:CartPole-v1")):
            learner = self.learner(port, env, "--steps=1000000")
            for allowed in ([], ["--env=py:python_envs:Kept"], ["--python", sys.executable]):
                actor = self.start("actor", f"127.0.0.1:{port}", *allowed)
                said = actor.communicate(timeout=TIMEOUT_S)[1].strip()
                self.assertEqual((actor.returncode, said.splitlines()[-1]), (2, f"flotilla: the learner asks for environments of "
                                 f"'{env}', which are programs: an actor starts none that another machine names; to allow "
                                 f"this one, give --env '{env}'"))
            learner.send_signal(signal.SIGINT)
            learner.communicate(timeout=TIMEOUT_S)


class Failing(Case):
    def test_one_clear_error(self):
        for fault, message in (
                ("raise", "threw: ValueError: on purpose (python_envs.py:"),
                ("system_exit", "threw: SystemExit: 7 (python_envs.py:"),
                ("exit", "worker exited with status 7"),
                ("kill", "worker killed by signal 9 (SIGKILL) from outside"),
                ("hang", "hung for 3 s"),
                ("shape", "the observation has shape (2,), its space says (3,)"),
                ("nan", "the observation is nan at element 0"),
                ("reward", "the reward is a str, expected a number"),
                ("reward_nan", "the reward is nan"),
                ("flag", "terminated is an int, expected a bool"),
                ("four", "step() returned 4 values, expected (observation, reward, ")):
            _, errors = self.bench("py:python_envs:Faulty", f"fault={fault}", "at=5", "--seed", "9",
                                   "--num-envs", "2", "--workers", "1", "--step-timeout-s", "3",
                                   status=3)
            line = errors.splitlines()[-1]
            self.assertIn(f"flotilla: env 0 of 'py:python_envs:Faulty' failed in step: ", line)
            self.assertIn(message, line)
            self.assertIn("seed=9, episode=0, step=4, action=", line)
            if fault == "raise":
                self.assertIn("py:python_envs:Faulty: env 0 failed in step\nTraceback ", errors)
                self.assertIn("ValueError: on purpose\n", errors)

    def test_a_slow_start_is_no_hang(self):
        out, _ = self.bench("py:python_envs:SlowStart", "--step-timeout-s", "3")
        self.assertEqual(out["failures"], 0)

    def test_a_slow_import_has_the_time_it_is_given(self):
        if ARGS.faults < 100:
            self.skipTest("an import of more than a minute is for the long way")
        for command in (["bench", "env", "py:slow_module:make", "--seconds", "0.01", "--start-timeout-s", "90"],
                        ["train", "py:slow_module:make", "--n-envs", "1", "--iterations", "1", "n_steps=8",
                         "eval.episodes=0", "net.hidden=16", "--out", "run", "start_timeout_s=90"],
                        ["eval", "run", "--episodes", "1", "--python", sys.executable, "--start-timeout-s", "90"]):
            self.flotilla(*command, SLOW_IMPORT_S="61")
        _, errors = self.flotilla("list", "py:slow_module:make", status=2, SLOW_IMPORT_S="61")
        self.assertIn("gave no answer within 60 s (start_timeout_s)", errors)

    def test_drop_and_restart(self):
        log = self.folder / "log"
        for policy in ("drop", "restart"):
            log.write_text("")
            out, errors = self.bench("py:python_envs:Faulty", f"log={log}", "--num-envs", "4",
                                     "--workers", "2", "--on-env-failure", policy)
            faults = len(log.read_text().splitlines())
            self.assertEqual(out["failures"], faults)
            self.assertIn(faults, (1, 2))  # both workers may be the first
            self.assertIn("ValueError: on purpose", errors)
            self.assertNotIn("replay it with", errors)
        log.write_text("")
        _, errors = self.flotilla("train", "py:python_envs:Faulty", f"log={log}", "--n-envs", "2", "--iterations",
                                  "1", "n_steps=8", "--out", "run", "--on-env-failure", "stop", status=3)
        self.assertIn("resume with py:python_envs:Faulty --resume run", errors)

    def test_faults_of_all_kinds(self):
        log = self.folder / "log"
        steps = 400 * max(ARGS.faults, 5)
        summary, errors = self.train(
            "py:python_envs:Faulty", "fault=random", f"log={log}", f"most={ARGS.faults}", "chance=0.7",
            "--n-envs", "8", "--workers", "4", "--on-env-failure", "restart", "--restart-budget",
            "100000", "--step-timeout-s", "3", "--steps", steps, "n_steps=32", "--seed", "11")
        faults = [json.loads(line)["fault"] for line in log.read_text().splitlines()]
        self.assertGreaterEqual(summary["steps"], steps)
        self.assertGreaterEqual(len(faults), ARGS.faults)
        self.assertGreaterEqual(summary["env_failures"], len(faults))
        self.assertNotIn("Error:", errors.splitlines()[-1])
        print(f"{len(faults)} faults: { {kind: faults.count(kind) for kind in sorted(set(faults))} }")


class Resuming(Case):
    SETTINGS = ["--n-envs", "4", "--workers", "2", "--iterations", "6", "n_steps=33", "--seed", "5",
                "--save-freq", "132", "checkpoint.keep=9", "net.hidden=16", "eval.episodes=0"]

    def resumed(self, env, *settings):
        """The parameters of a run, and of a copy that goes on from its third checkpoint."""
        whole, errors = self.flotilla("train", env, *self.SETTINGS, *settings, "--out", "whole", "--json")
        shutil.copytree(self.folder / "whole", self.folder / "copy")
        out, again = self.flotilla("train", env, "--resume", "copy", "--from-step", "396", "--json",
                                   "--workers", "1")
        said = "cannot be saved: a resumed run begins new episodes"
        self.assertEqual((said in errors, said in again), (env.endswith("Walk"),) * 2)
        shutil.rmtree(self.folder / "whole")
        shutil.rmtree(self.folder / "copy")
        return json.loads(whole), json.loads(out)

    def test_new_episodes(self):
        whole, again = self.resumed("py:python_envs:Walk")
        self.assertEqual((whole["steps"], again["steps"]), (792, 792))
        # 33 steps are not a whole number of episodes.
        self.assertNotEqual(whole["params_sha256"], again["params_sha256"])

    def test_states_that_are_kept(self):
        whole, again = self.resumed("py:python_envs:Kept")
        self.assertEqual(whole["params_sha256"], again["params_sha256"])

    def test_frames_of_a_stack_are_kept(self):
        plain, _ = self.resumed("py:python_envs:Kept")
        whole, again = self.resumed("py:python_envs:Kept", "env.frame_stack=3")
        self.assertEqual(whole["params_sha256"], again["params_sha256"])
        self.assertNotEqual(whole["params_sha256"], plain["params_sha256"])

    def test_a_parameter_called_frame_stack_is_the_environments_own(self):
        self.flotilla("train", "py:python_envs:OwnStack", "frame_stack=2", "--n-envs", "2", "--iterations",
                      "1", "n_steps=8", "--out", "run", "eval.episodes=2")
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertEqual(summary["eval"]["mean_length"], 10)

    def test_only_by_name(self):
        self.flotilla("train", "py:python_envs:Walk", "--n-envs", "2", "--iterations", "1", "n_steps=8",
                      "--out", "run", "eval.episodes=4")
        _, errors = self.flotilla("train", "--resume", "run", "iterations=2", status=4)
        self.assertIn("is Python code that a file names", errors)
        _, errors = self.flotilla("eval", "run", "--episodes", "2", status=4)
        self.assertIn("is Python code that a file names", errors)
        out, _ = self.flotilla("eval", "run", "--episodes", "2", "--json", "--python", sys.executable)
        self.assertEqual(json.loads(out)["mean_length"], 20)


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--python", help="the one to use")
    parser.add_argument("--faults", type=int, default=3)
    ARGS, rest = parser.parse_known_args()
    packages.use_test_python(ARGS.python)
    for package in ("flotilla._native", "gymnasium"):
        if not packages.found(package):
            packages.skip(f"{sys.executable} has no {package}")
    ARGS.binary = os.path.abspath(ARGS.binary)
    sys.path.insert(0, str(HERE / "envs"))
    os.environ["PYTHONPATH"] = str(HERE / "envs")
    os.environ["FLOTILLA_PYTHON"] = sys.executable
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

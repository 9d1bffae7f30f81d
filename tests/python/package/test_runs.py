"""Training, runs and policies from Python, held against the command line's own numbers."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import unittest.mock

import flotilla
import numpy as np

SMALL = {"num_envs": 8, "n_steps": 64, "backend": "serial", "threads": 1, "eval.episodes": 10}


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, what="cartpole", out="run", **more):
        return flotilla.train(what, seed=1, out=self.path(out), settings={**SMALL, **more})


class Training(InFolder):
    def test_a_run_and_what_it_leaves(self):
        seen = []
        run = flotilla.train("cartpole", seed=1, out=self.path("run"), total_timesteps=4096,
                             callback=seen.append, settings=SMALL)
        self.assertEqual([each.steps for each in seen], [512 * (i + 1) for i in range(8)])
        self.assertEqual(seen[-1].fraction, 1)
        self.assertTrue(run.finished)
        self.assertEqual(run.summary["ended_by"], "total_timesteps")
        self.assertEqual(run.settings["seed"], "1")
        self.assertEqual(list(run.metrics["step"]), [each.steps for each in seen])
        columns = run.metrics
        self.assertEqual({len(column) for column in columns.values()}, {8})
        np.testing.assert_allclose(columns["charts/return_mean_100"][-1], seen[-1].return_mean)
        self.assertEqual(run.checkpoints[-1], 4096)
        again = flotilla.Run(run.path)
        self.assertEqual(again.summary, run.summary)

    def test_the_same_seed_gives_the_same_parameters_on_every_back_end(self):
        sums = {self.train(out=f"{backend}", total_timesteps=2048, backend=backend)
                .summary["params_sha256"] for backend in ("serial", "threads", "processes")}
        self.assertEqual(len(sums), 1)

    def test_a_policy_that_sees_pictures(self):
        run = self.train("coinrun", num_envs=4, n_steps=8, total_timesteps=32,
                         **{"ppo.batch_size": 16, "eval.episodes": 0})
        policy = run.policy()
        envs = flotilla.make_vec("coinrun", 3)
        obs, _ = envs.reset(seed=1)
        rows = policy.predict(obs)
        self.assertEqual(rows.shape, (3,))
        self.assertEqual(policy.predict(obs[1]), rows[1])
        with self.assertRaisesRegex(flotilla.UsageError, "expected pixels of uint8, got float32"):
            policy.predict(obs.astype(np.float32) / 255)

    def test_a_callback_stops_the_run(self):
        run = flotilla.train("cartpole", out=self.path("run"), settings=SMALL,
                             callback=lambda progress: progress.updates < 3)
        self.assertEqual(run.summary["ended_by"], "callback")
        self.assertEqual(len(run.metrics["step"]), 3)

    def test_before_an_episode_has_ended_no_score_is_reached(self):
        run = flotilla.train("pendulum", out=self.path("run"), total_timesteps=1024,  # 128 of 200 steps of each env
                             settings=SMALL, num_envs=8, callback=lambda progress: progress.return_mean < -200)
        self.assertEqual(run.summary["ended_by"], "total_timesteps")
        self.assertIsNone(run.summary["return_mean_100"])
        self.assertNotIn("charts/return_mean_100", run.metrics)

    def test_an_exception_of_the_callback_comes_out_and_the_run_goes_on_later(self):
        def fail(progress):
            if progress.updates == 2:
                raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            flotilla.train("cartpole", seed=1, out=self.path("run"), callback=fail,
                           settings={**SMALL, "total_timesteps": 4096})
        stopped = flotilla.Run(self.path("run"))
        self.assertFalse(stopped.finished)
        self.assertEqual(stopped.checkpoints[-1], 1024)
        resumed = flotilla.train(resume=stopped)
        whole = self.train(out="whole", total_timesteps=4096)
        self.assertEqual(resumed.summary["params_sha256"], whole.summary["params_sha256"])

    def test_limits(self):
        run = self.train(iterations=2)
        self.assertEqual(run.summary["ended_by"], "iterations")

    def test_in_a_process_of_its_own(self):
        seen = []
        apart = flotilla.train("cartpole", seed=1, out=self.path("apart"), total_timesteps=2048,
                               callback=lambda progress: seen.append(progress.steps),
                               own_process=True, settings=SMALL)
        here = self.train(out="here", total_timesteps=2048)
        self.assertEqual(apart.summary["params_sha256"], here.summary["params_sha256"])
        self.assertEqual(seen, [512, 1024, 1536, 2048])
        with self.assertRaisesRegex(flotilla.UsageError, "did you mean 'cartpole'"):
            flotilla.train("cartpol", own_process=True)
        stopped = flotilla.train("cartpole", out=self.path("stopped"), own_process=True,
                                 callback=lambda progress: False, settings=SMALL)
        self.assertEqual(stopped.summary["ended_by"], "callback")
        with self.assertRaisesRegex(KeyError, "mine"):
            flotilla.train("cartpole", out=self.path("failed"), own_process=True, callback=fail,
                           settings=SMALL)

    def test_what_needs_libtorch_trains_apart(self):
        # This build has none: the error is the child's, and this process has loaded nothing.
        with self.assertRaises(flotilla.UsageError) as caught:
            flotilla.train("cartpole", out=self.path("run"), policy="torch", settings=SMALL)
        self.assertIn("libtorch", str(caught.exception))
        with open("/proc/self/maps", encoding="utf-8") as file:
            self.assertNotIn("flotilla_torch", file.read())

    def interrupt(self, **settings):
        """Interrupts a script that trains when it has made its first update."""
        script = textwrap.dedent(f"""
            import sys, flotilla
            def started(progress):
                if progress.updates == 1: print("started", flush=True)
            try:
                flotilla.train("cartpole", out={self.path("run")!r}, callback=started,
                               total_timesteps=10**9, settings={ {**SMALL, **settings}!r})
            except KeyboardInterrupt as stop:
                print("stopped:", stop, flush=True)
                sys.exit(7)
        """)
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "started\n")
        child.send_signal(signal.SIGINT)
        text = child.stdout.read()
        child.stdout.close()
        return child.wait(60), text

    def test_ctrl_c(self):
        status, text = self.interrupt()
        self.assertEqual(status, 7)
        self.assertRegex(text, "stopped: interrupted after [0-9]+ steps; resume with --resume")
        run = flotilla.Run(self.path("run"))
        self.assertEqual(run.checkpoints[-1], run.metrics["step"][-1])

    def test_other_threads_run_meanwhile(self):
        ticks, done = [0], threading.Event()

        def tick():
            while not done.wait(0.001):
                ticks[0] += 1

        thread = threading.Thread(target=tick)
        thread.start()
        self.train(total_timesteps=16384)
        done.set()
        thread.join()
        self.assertGreater(ticks[0], 5)


def fail(_):
    raise KeyError("mine")


class Policies(InFolder):
    def test_evaluate_repeats_the_summary(self):
        run = self.train(total_timesteps=4096)
        repeated = run.evaluate(10)
        for key in ("episodes", "mean", "std"):
            self.assertEqual(repeated[key], run.summary["eval"][key])
        self.assertNotEqual(run.evaluate(10, seed=77)["mean"], repeated["mean"])
        self.assertEqual(run.evaluate(3, time_limit=2)["mean"], 2)
        with self.assertRaisesRegex(flotilla.UsageError, "episodes"):
            run.evaluate(0)

    def test_predict_plays_as_the_evaluation_does(self):
        run = self.train(total_timesteps=20000)
        policy = run.policy()
        self.assertEqual((policy.env, policy.masked), ("cartpole", False))
        envs = flotilla.make_vec("cartpole", 50, statistics=True)
        obs, _ = envs.reset(seed=123)
        returns = []
        for _ in range(501):
            *rest, info = envs.step(policy.predict(obs))
            obs = rest[0]
            if "episode" in info:
                returns += list(info["episode"]["r"][info["_episode"]])
        mean = run.evaluate(200)["mean"]
        self.assertGreater(mean, 25)  # better than by chance
        self.assertLess(abs(np.mean(returns) - mean), 0.25 * mean + 10)

    def test_rows_and_single_observations(self):
        policy = self.train(total_timesteps=512).policy()
        rows = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
        actions = policy.predict(rows)
        self.assertEqual((actions.shape, actions.dtype), ((20,), np.int64))
        self.assertEqual([int(policy.predict(row)) for row in rows], list(actions))
        self.assertEqual(policy.predict(rows[:1]).shape, (1,))
        value, logprob, entropy = policy.evaluate_actions(rows, actions)
        np.testing.assert_array_equal(value, policy.value(rows))
        self.assertTrue((logprob >= np.log(0.5) - 1e-6).all())  # the likelier of two
        self.assertTrue((entropy <= np.log(2) + 1e-6).all())
        drawn = [policy.predict(np.zeros((200, 4)), deterministic=False) for _ in range(2)]
        self.assertTrue(0 < drawn[0].sum() < 200)
        self.assertFalse(np.array_equal(*drawn))
        for bad in (np.zeros(3), np.zeros((2, 5)), ["a"] * 4):
            with self.assertRaisesRegex(flotilla.UsageError, "obs: expected"):
                policy.predict(bad)

    def test_masks(self):
        run = self.train("cage2", total_timesteps=512)
        policy = run.policy()
        self.assertTrue(policy.masked)
        envs = flotilla.make_vec(run.env, 4, **run.env_settings)
        obs, info = envs.reset(seed=1)
        with self.assertRaisesRegex(flotilla.UsageError, "give action_masks"):
            policy.predict(obs)
        mask = np.zeros_like(info["action_mask"])
        mask[np.arange(4), [3, 1, 2, 0]] = 1
        np.testing.assert_array_equal(policy.predict(obs, mask), [3, 1, 2, 0])
        self.assertEqual(policy.predict(obs[0], mask[0]), 3)
        with self.assertRaisesRegex(flotilla.UsageError, "no choice of dimension 0 is open"):
            policy.predict(obs, np.zeros_like(mask))

    def test_box(self):
        policy = self.train("pendulum", total_timesteps=512).policy()
        actions = policy.predict(np.zeros((5, 3)))
        self.assertEqual((actions.shape, actions.dtype), ((5, 1), np.float32))
        self.assertTrue((abs(actions) <= 2).all())


class PythonEnvironments(InFolder):
    """Workers are this interpreter; tests/python/test_python_envs.py has all that they do."""

    MODULE = textwrap.dedent("""
        import sys
        import gymnasium
        import numpy as np

        class Coin(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
            action_space = gymnasium.spaces.Discrete(2)

            def __init__(self, log=""):
                self.log = log

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                if self.log:
                    with open(self.log, "a") as file:
                        print(sys.executable, file=file)
                return np.zeros(2, np.float32), {}

            def step(self, action):
                return np.zeros(2, np.float32), float(action), True, False, {}

        class Other(Coin):
            pass
    """)

    def setUp(self):
        super().setUp()
        with open(self.path("coin_env.py"), "w", encoding="utf-8") as file:
            file.write(self.MODULE)
        # Nothing but this interpreter itself says where the package is.
        environment = {"PYTHONPATH": self.folder, "PATH": "/usr/bin:/bin"}
        patch = unittest.mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)
        for name in ("VIRTUAL_ENV", "FLOTILLA_PYTHON"):
            os.environ.pop(name, None)

    def train(self, what, out, **more):
        return flotilla.train(what, seed=1, out=self.path(out), num_envs=2, workers=1, n_steps=8,
                              iterations=2, settings={"eval.episodes": 3, "net.hidden": 8}, **more)

    def test_workers_are_this_interpreter(self):
        log = self.path("log")
        here = self.train("py:coin_env:Coin", "here", log=log)
        self.assertEqual(here.summary["steps"], 32)
        with open(log, encoding="utf-8") as file:
            self.assertEqual(set(file.read().splitlines()), {sys.executable})
        self.assertIn(here.evaluate(5)["mean"], (0, 1))
        apart = self.train("py:coin_env:Coin", "apart", log=log, own_process=True)
        self.assertEqual(apart.summary["params_sha256"], here.summary["params_sha256"])

    def test_unless_told_otherwise(self):
        os.environ["FLOTILLA_PYTHON"] = "/no/such/python"
        with self.assertRaisesRegex(flotilla.UsageError, "/no/such/python has none"):
            self.train("py:coin_env:Other", "run")

    def test_a_file_does_not_choose_code(self):
        """In an interpreter that has not named it."""
        self.train("py:coin_env:Coin", "run")
        script = textwrap.dedent(f"""
            import flotilla
            run = flotilla.Run({self.path("run")!r})
            for use in (run.evaluate, lambda: flotilla.train(resume=run, iterations=3)):
                try:
                    use()
                except flotilla.DataError as error:
                    print(error)
            flotilla.admit(run.env)
            print(flotilla.train(resume=run, iterations=3).summary["steps"])
        """)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                              check=False)
        *refusals, steps = done.stdout.splitlines() or [""]
        self.assertEqual((len(refusals), steps), (2, "48"), done.stdout + done.stderr)
        for line in refusals:
            self.assertIn("'py:coin_env:Coin' is Python code that a file names: to run it, give its "
                          "name to flotilla.admit()", line)


class Plots(InFolder):
    def test_plot(self):
        run = self.train(total_timesteps=1024)
        try:
            import matplotlib
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pip install 'flotilla\\[plot\\]'"):
                run.plot()
            return
        matplotlib.use("Agg")
        axes = run.plot()
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), run.metrics["step"])


if __name__ == "__main__":
    unittest.main()

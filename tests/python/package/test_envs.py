"""Batches and single environments, held against Gymnasium's own rules and against each other."""

import gc
import multiprocessing
import os
import threading
import unittest
import warnings

import flotilla
import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics


def rollout(envs, steps, seed=3):
    """All that some steps show, with actions that depend on nothing else."""
    envs.action_space.seed(5)
    seen = [envs.reset(seed=seed)[0].copy()]
    for _ in range(steps):
        obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        seen += [each.copy() for each in (obs, reward, terminated, truncated)]
        for i in np.flatnonzero(info.get("_final_obs", [])):
            seen.append(info["final_obs"][i])
    return seen


def assert_same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other):
        np.testing.assert_array_equal(a, b)


class Batches(unittest.TestCase):
    def test_spaces_and_types(self):
        envs = flotilla.make_vec("cartpole", 3)
        self.assertIsInstance(envs, gymnasium.vector.VectorEnv)
        self.assertEqual(envs.metadata["autoreset_mode"], AutoresetMode.SAME_STEP)
        self.assertEqual(envs.single_action_space, gymnasium.spaces.Discrete(2))
        obs, info = envs.reset(seed=1)
        self.assertTrue(envs.observation_space.contains(obs))
        self.assertEqual(info, {})
        obs, reward, terminated, truncated, _ = envs.step(np.zeros(3, int))
        self.assertEqual([each.dtype for each in (obs, reward, terminated, truncated)],
                         [np.float32, np.float32, np.bool_, np.bool_])
        self.assertEqual([each.shape for each in (obs, reward, terminated, truncated)],
                         [(3, 4), (3,), (3,), (3,)])

    def test_back_ends_and_groups_step_the_same(self):
        plain = rollout(flotilla.make_vec("cartpole", 6), 60)
        for settings in ({"backend": "threads", "threads": 2}, {"groups": 2}, {"copy": False},
                         {"backend": "processes", "workers": 2, "groups": 2}):
            with self.subTest(settings=settings):
                envs = flotilla.make_vec("cartpole", 6, **settings)
                assert_same(rollout(envs, 60), plain)
                envs.close()

    def test_seeds(self):
        envs = flotilla.make_vec("cartpole", 4)
        first = rollout(envs, 30)
        assert_same(rollout(envs, 30), first)
        envs.reset(seed=9)
        unseeded = [envs.reset()[0], envs.reset()[0]]
        self.assertFalse(np.array_equal(*unseeded))
        envs.reset(seed=9)
        np.testing.assert_array_equal([envs.reset()[0], envs.reset()[0]], unseeded)
        np.testing.assert_array_equal(envs.reset(seed=[7, 8, 9, 10])[0], envs.reset(seed=7)[0])
        # The rows of a batch that begins at number 2 are rows 2 and 3 of one that begins at 0.
        others = flotilla.make_vec("cartpole", 2, first_env=2)
        np.testing.assert_array_equal(others.reset(seed=7)[0], envs.reset(seed=7)[0][2:])
        for bad in (-1, 2**63, 1.5, True, [1, 1, 1, 1]):
            with self.assertRaisesRegex(flotilla.UsageError, "seed: expected"):
                envs.reset(seed=bad)

    def test_final_observations_and_statistics(self):
        envs = flotilla.make_vec("cartpole", 8, statistics=True)
        obs, _ = envs.reset(seed=2)
        returns, lengths, ended = np.zeros(8), np.zeros(8, int), 0
        for step in range(300):
            obs, reward, terminated, truncated, info = envs.step(np.full(8, step % 2))
            returns, lengths = returns + reward, lengths + 1
            done = terminated | truncated
            self.assertEqual("final_obs" in info, done.any())
            if not done.any():
                continue
            np.testing.assert_array_equal(info["_final_obs"], done)
            np.testing.assert_array_equal(info["_final_info"], done)
            np.testing.assert_array_equal(info["_episode"], done)
            np.testing.assert_array_equal(info["episode"]["r"], np.where(done, returns, 0))
            np.testing.assert_array_equal(info["episode"]["l"], np.where(done, lengths, 0))
            for i in range(8):
                if done[i]:  # it fell: beyond 12 degrees, and the new episode is not
                    self.assertGreater(abs(info["final_obs"][i][2]), 0.2)
                    self.assertLess(abs(obs[i][2]), 0.06)
                else:
                    self.assertIsNone(info["final_obs"][i])
            ended += done.sum()
            returns[done], lengths[done] = 0, 0
        self.assertGreater(ended, 20)

    def test_gymnasium_statistics_wrapper(self):
        envs = RecordEpisodeStatistics(flotilla.make_vec("cartpole", 4))
        own = flotilla.make_vec("cartpole", 4, statistics=True)
        envs.reset(seed=4), own.reset(seed=4)
        for _ in range(100):
            info, ours = envs.step(np.ones(4, int))[-1], own.step(np.ones(4, int))[-1]
            self.assertEqual("episode" in info, "episode" in ours)
            if "episode" in info:
                np.testing.assert_array_equal(info["episode"]["r"], ours["episode"]["r"])

    def test_copies_stay_and_views_do_not(self):
        for copy in (True, False):
            envs = flotilla.make_vec("cartpole", 2, copy=copy)
            first = envs.reset(seed=1)[0]
            before = first.copy()
            second = envs.step(np.zeros(2, int))[0]
            self.assertEqual(np.shares_memory(first, second), not copy)
            self.assertEqual(np.array_equal(first, before), copy)
            envs.close()
            del envs
            gc.collect()
            self.assertTrue(np.isfinite(first).all())  # the memory is still there

    def test_masks(self):
        envs = flotilla.make_vec("cage2", 4)
        _, info = envs.reset(seed=1)
        n = envs.single_action_space.n
        for _ in range(40):
            mask = info["action_mask"]
            self.assertEqual((mask.shape, mask.dtype), ((4, n), np.int8))
            self.assertTrue(info["_action_mask"].all())
            actions = [envs.single_action_space.sample(row) for row in mask]
            *_, info = envs.step(actions)

    def test_box_actions(self):
        envs = flotilla.make_vec("pendulum", 3)
        envs.reset(seed=1)
        one = envs.step(np.full((3, 1), 0.5, np.float32))[0]
        envs.reset(seed=1)
        np.testing.assert_array_equal(envs.step([[0.5]] * 3)[0], one)
        with self.assertRaisesRegex(flotilla.UsageError, "is not a number"):
            envs.step(np.full((3, 1), np.nan))

    def test_send_and_recv(self):
        envs = flotilla.make_vec("cartpole", 6, groups=2, backend="threads", threads=2)
        whole = flotilla.make_vec("cartpole", 6)
        envs.reset(seed=1), whole.reset(seed=1)
        rows = [envs.group(0), envs.group(1)]
        self.assertEqual(rows, [slice(0, 3), slice(3, 6)])
        for step in range(50):
            actions = np.arange(6) % 2 ^ step % 2
            for g in (0, 1):
                envs.send(actions[rows[g]], group=g)
            expected = whole.step(actions)
            for g in (1, 0):
                for ours, theirs in zip(envs.recv(group=g)[:4], expected[:4]):
                    np.testing.assert_array_equal(ours, theirs[rows[g]])
        with self.assertRaisesRegex(flotilla.UsageError, "group 0 was sent no actions"):
            envs.recv()
        envs.send(np.zeros(3, int))
        with self.assertRaisesRegex(flotilla.UsageError, "group 0 is stepping"):
            envs.step(np.zeros(6, int))
        envs.reset(seed=1)  # forgets the step under way
        envs.step(np.zeros(6, int))

    def test_bad_actions_change_nothing(self):
        envs = flotilla.make_vec("cartpole", 2, groups=2)
        with self.assertRaisesRegex(flotilla.UsageError, "call reset"):
            envs.step([0, 0])
        first = envs.reset(seed=1)[0]
        bad = {"env 1 of 'cartpole': action 7 is outside": [0, 7], "expected shape": [0],
               "expected integers, got float64": [0.0, 1.0], "is no choice": [0, 2**40],
               "expected shape \\(2,\\), got": [[0], [1]], "expected integers, got ": ["a", "b"],
               "outside Discrete": [-1, 0]}
        for text, actions in bad.items():
            with self.assertRaisesRegex(flotilla.UsageError, text):
                envs.step(actions)
        after = envs.step([0, 1])[0]
        envs.reset(seed=1)
        np.testing.assert_array_equal(envs.step(np.array([0, 1], np.uint8))[0], after)
        self.assertFalse(np.array_equal(first, after))

    def test_bad_settings(self):
        for text, settings in (("time_limt", {"time_limt": 3}), ("backend", {"backend": "gpu"}),
                               ("num_envs", {"num_envs": 0}), ("groups", {"groups": 2}),
                               ("render_mode", {"render_mode": "human"})):
            with self.assertRaisesRegex(flotilla.UsageError, text):
                flotilla.make_vec("cartpole", **settings)
        with self.assertRaisesRegex(flotilla.UsageError, "did you mean 'cartpole'"):
            flotilla.make_vec("cartpol")

    def test_settings_reach_the_environment(self):
        for settings in ({"time_limit": 5}, {"max_episode_steps": 5}):
            envs = flotilla.make_vec("cartpole", 1, **settings)
            envs.reset(seed=1)
            ends = [bool(envs.step([i % 2])[3][0]) for i in range(5)]
            self.assertEqual(ends, [False] * 4 + [True])

    def test_a_failing_environment(self):
        envs = flotilla.make_vec("faulty", 2, fault="throw", fault_step=3)
        envs.reset(seed=1)
        with self.assertRaises(flotilla.EnvFailure) as caught:
            for _ in range(50):
                envs.step(np.zeros(2, int))
        self.assertEqual(caught.exception.status, 3)
        self.assertEqual(caught.exception.report["env_name"], "faulty")
        self.assertIn("threw", caught.exception.report["cause"])
        with self.assertRaisesRegex(flotilla.UsageError, "call reset"):
            envs.step(np.zeros(2, int))

    def test_a_closed_batch(self):
        envs = flotilla.make_vec("cartpole", 2)
        envs.reset(seed=1)
        envs.close()
        envs.close()
        with self.assertRaisesRegex(flotilla.UsageError, "closed"):
            envs.step([0, 0])

    def test_one_thread_at_a_time(self):
        envs = flotilla.make_vec("cartpole", 20000)
        envs.reset(seed=1)
        refused, actions = [], np.zeros(20000, int)

        def step():
            for _ in range(100):
                try:
                    envs.step(actions)
                except flotilla.UsageError as error:
                    refused.append(str(error))

        threads = [threading.Thread(target=step) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(refused) - {"another thread is using this batch of environments"}, set())

    def test_after_fork(self):
        envs = flotilla.make_vec("cartpole", 4, backend="threads", threads=2)
        envs.reset(seed=1)
        forked = multiprocessing.get_context("fork").Process(target=use_after_fork, args=(envs,))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forked.start()
        forked.join(60)
        self.assertEqual(forked.exitcode, 0)
        envs.step([0, 0, 0, 0])

    def test_workers_end_with_the_batch(self):
        envs = flotilla.make_vec("cartpole", 4, backend="processes", workers=2)
        envs.reset(seed=1)
        workers = children()
        self.assertEqual(len(workers), 2)
        envs.close()
        self.assertEqual(children(), [])


def use_after_fork(envs):
    try:
        envs.step([0, 0, 0, 0])
    except flotilla.UsageError as error:
        assert "forked" in str(error)
    else:
        os._exit(1)
    own = flotilla.make_vec("cartpole", 4, backend="threads", threads=2)
    own.reset(seed=1)
    own.step([0, 0, 0, 0])


def children():
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="utf-8") as file:
        return file.read().split()


class Singles(unittest.TestCase):
    def test_the_checker_of_gymnasium(self):
        for name in ("cartpole", "pendulum", "cage2", "gridworld"):
            if name in flotilla.envs():
                with self.subTest(name=name), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    warnings.filterwarnings("ignore", message=".*(symmetric|infinity|seed|spec).*")
                    check_env(flotilla.make(name), skip_render_check=True)

    def test_it_steps_as_a_batch_of_one(self):
        env, envs = flotilla.make("cartpole", statistics=True), flotilla.make_vec("cartpole", 1)
        obs, _ = env.reset(seed=3)
        np.testing.assert_array_equal(obs, envs.reset(seed=3)[0][0])
        for step in range(200):
            obs, reward, terminated, truncated, info = env.step(step % 2)
            rows, rewards, *flags, infos = envs.step([step % 2])
            self.assertEqual((reward, terminated, truncated),
                             (rewards[0], flags[0][0], flags[1][0]))
            if terminated or truncated:
                np.testing.assert_array_equal(obs, infos["final_obs"][0])
                self.assertGreater(info["episode"]["l"], 0)
                with self.assertRaisesRegex(flotilla.UsageError, "call reset"):
                    env.step(0)
                obs, _ = env.reset()
            np.testing.assert_array_equal(obs, rows[0])

    def test_a_failed_step_cuts_the_episode_off(self):
        env = flotilla.make("faulty", fault="throw", fault_step=3, fault_probability=0.5,
                            on_env_failure="restart", statistics=True)
        obs, info = env.reset(seed=1)
        lengths = []
        for _ in range(20):
            steps, over = 0, False
            self.assertEqual(obs[0], 0)  # the share of the time limit used
            while not over:
                seen = obs
                action = int(np.flatnonzero(info["action_mask"])[-1])
                obs, reward, terminated, over, info = env.step(action)
                steps += 1
                self.assertEqual((terminated, "valid" in info), (False, over))
            self.assertEqual((reward, info), (0, {"valid": False}))
            np.testing.assert_array_equal(obs, seen)
            with self.assertRaisesRegex(flotilla.UsageError, "call reset"):
                env.step(0)
            lengths.append(steps)
            obs, info = env.reset()
        self.assertEqual(min(lengths), 3)
        self.assertGreater(len(set(lengths)), 2)

    def test_registered(self):
        env = gymnasium.make("flotilla/cartpole-v0")
        self.assertEqual(env.reset(seed=1)[0].shape, (4,))
        envs = gymnasium.make_vec("flotilla/cage2-v0", num_envs=2, backend="threads")
        self.assertIsInstance(envs, gymnasium.vector.VectorEnv)
        self.assertEqual(envs.reset(seed=1)[0].shape[0], 2)
        for name in flotilla.envs():
            self.assertIn(f"flotilla/{name}-v0", gymnasium.registry)


if __name__ == "__main__":
    unittest.main()

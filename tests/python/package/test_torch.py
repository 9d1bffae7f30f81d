"""Adapters to torch and Stable-Baselines3, where they are installed."""

import importlib.util
import tempfile
import unittest

import flotilla
import numpy as np


def has(*modules):
    return all(importlib.util.find_spec(module) for module in modules)


@unittest.skipUnless(has("torch"), "torch is not installed")
class TorchModule(unittest.TestCase):
    SMALL = {"num_envs": 8, "n_steps": 64, "eval.episodes": 5, "total_timesteps": 2048}

    def run_of(self, what, **settings):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return flotilla.train(what, seed=1, out=f"{folder.name}/run",
                              settings={**self.SMALL, **settings})

    def policy(self, what, **settings):
        return self.run_of(what, **settings).policy()

    def test_choices(self):
        import torch
        for settings in ({}, {"net.shared": True, "net.activation": "relu"},
                         {"net.normalize_obs": True}):
            with self.subTest(settings=settings):
                policy = self.policy("cartpole", **settings)
                obs = np.random.default_rng(1).normal(size=(500, 4)).astype(np.float32)
                actions = policy.predict(obs)
                value, logprob, _ = policy.evaluate_actions(obs, actions)
                module = policy.torch_module()
                with torch.no_grad():
                    _, values = module(torch.from_numpy(obs))
                    (logprobs,) = module.log_probs(torch.from_numpy(obs))
                    chosen = module.predict(torch.from_numpy(obs))
                np.testing.assert_allclose(values, value, atol=1e-5)
                picked = logprobs.gather(1, torch.from_numpy(actions)[:, None])[:, 0]
                np.testing.assert_allclose(picked, logprob, atol=1e-5)
                self.assertGreater((chosen[:, 0].numpy() == actions).mean(), 0.99)
                self.assertLessEqual(set(module.state_dict()), set(policy.tensors()))

    def test_masks(self):
        import torch
        run = self.run_of("cage2")
        policy = run.policy()
        envs = flotilla.make_vec(run.env, 16, **run.env_settings)
        obs, info = envs.reset(seed=1)
        mask = info["action_mask"]
        with torch.no_grad():
            chosen = policy.torch_module().predict(torch.from_numpy(obs), torch.from_numpy(mask))
        np.testing.assert_array_equal(chosen[:, 0], policy.predict(obs, mask))

    def test_boxes(self):
        import torch
        for squash in (False, True):
            policy = self.policy("pendulum", **{"net.squash": squash})
            obs = np.random.default_rng(1).normal(size=(100, 3)).astype(np.float32)
            with torch.no_grad():
                actions = policy.torch_module().predict(torch.from_numpy(obs))
            np.testing.assert_allclose(actions, policy.predict(obs), atol=1e-5)

    def test_pictures(self):
        for torso in ("nature", "impala"):
            policy = self.policy("coinrun", num_envs=4, n_steps=8, total_timesteps=32,
                                 **{"net.torso": torso, "ppo.batch_size": 16, "eval.episodes": 0})
            obs = np.random.default_rng(1).integers(0, 256, (20, 64, 64, 3), dtype=np.uint8)
            self.expect_same(policy, obs, 1e-4)

    def test_attention(self):
        policy = self.policy("cartpole", **{"net.torso": "attention", "net.fusion": 64,
                                            "net.groups": "1x2:16,2x1:32", "normalize_obs": True})
        obs = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
        self.expect_same(policy, obs, 1e-5)

    def expect_same(self, policy, obs, tolerance):
        """Values and log-probabilities of a policy and of its module."""
        import torch
        actions = policy.predict(obs)
        value, logprob, _ = policy.evaluate_actions(obs, actions)
        module = policy.torch_module()
        with torch.no_grad():
            _, values = module(torch.from_numpy(obs))
            (logprobs,) = module.log_probs(torch.from_numpy(obs))
        np.testing.assert_allclose(values, value, atol=tolerance)
        picked = logprobs.gather(1, torch.from_numpy(actions)[:, None])[:, 0]
        np.testing.assert_allclose(picked, logprob, atol=1e-5)
        self.assertLessEqual(set(module.state_dict()), set(policy.tensors()))

    def test_our_libtorch_stays_out_of_a_process_with_another(self):
        import torch  # noqa: F401
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(flotilla.UsageError, "libtorch"):
                flotilla.train("cartpole", out=f"{folder}/run", policy="torch",
                               settings=self.SMALL)


@unittest.skipUnless(has("stable_baselines3", "sb3_contrib"), "stable-baselines3 is not installed")
class Sb3(unittest.TestCase):
    def test_the_interface(self):
        from flotilla.sb3 import FlotillaVecEnv
        from stable_baselines3.common.monitor import Monitor
        env = FlotillaVecEnv("cartpole", n_envs=3)
        self.assertEqual(env.seed(7), [7, 8, 9])
        first = env.reset()
        np.testing.assert_array_equal(first, flotilla.make_vec("cartpole", 3).reset(seed=7)[0])
        self.assertFalse(np.array_equal(env.reset(), first))
        env.seed(7)
        np.testing.assert_array_equal(env.reset(), first)
        self.assertEqual(env.get_attr("render_mode"), [None] * 3)
        self.assertEqual(env.env_is_wrapped(Monitor), [True] * 3)
        self.assertFalse(env.has_attr("action_masks"))
        self.assertFalse(env.has_attr("nothing"))
        with self.assertRaises(AttributeError):
            env.env_method("nothing")
        with self.assertRaisesRegex(flotilla.UsageError, "no attributes to set"):
            env.set_attr("gravity", 1)
        lengths = np.zeros(3, int)
        for step in range(100):
            _, _, done, infos = env.step(np.full(3, step % 2))
            lengths += 1
            for i in np.flatnonzero(done):
                self.assertEqual(infos[i]["episode"]["l"], lengths[i])
                self.assertEqual(infos[i]["terminal_observation"].shape, (4,))
                self.assertFalse(infos[i]["TimeLimit.truncated"])
                lengths[i] = 0

    def test_a_failed_step_cuts_the_episode_off(self):
        from flotilla.sb3 import FlotillaVecEnv
        env = FlotillaVecEnv("faulty", n_envs=3, fault="throw", fault_step=4, fault_probability=0.5,
                             on_env_failure="restart", time_limit=5)
        env.seed(1)
        obs, ended = env.reset(), {False: 0, True: 0}
        for _ in range(60):
            seen = obs
            actions = [np.flatnonzero(row)[-1] for row in env.action_masks()]
            obs, rewards, done, infos = env.step(np.array(actions))
            np.testing.assert_array_equal(obs[:, 0] == 0, done)  # a new episode, and none else
            for i in np.flatnonzero(done):
                failed = "valid" in infos[i]
                ended[failed] += 1
                self.assertTrue(infos[i]["TimeLimit.truncated"])
                self.assertEqual("episode" in infos[i], not failed)
                if failed:
                    self.assertEqual((infos[i]["valid"], rewards[i]), (False, 0))
                    np.testing.assert_array_equal(infos[i]["terminal_observation"], seen[i])
        self.assertGreater(min(ended.values()), 5)
        with self.assertRaisesRegex(flotilla.UsageError, "copy: "):
            FlotillaVecEnv("cartpole", copy=False)

    def test_ppo_learns_cartpole(self):
        from flotilla.sb3 import FlotillaVecEnv
        from stable_baselines3 import PPO
        from stable_baselines3.common.evaluation import evaluate_policy
        env = FlotillaVecEnv("cartpole", n_envs=8)
        model = PPO("MlpPolicy", env, n_steps=32, batch_size=256, n_epochs=20, gae_lambda=0.8,
                    gamma=0.98, learning_rate=1e-3, ent_coef=0.0, seed=1, device="cpu")
        model.learn(60_000)
        mean, _ = evaluate_policy(model, FlotillaVecEnv("cartpole", n_envs=20), 20)
        self.assertGreaterEqual(mean, 475)

    def test_maskable_ppo_on_cage2(self):
        from flotilla.sb3 import FlotillaVecEnv
        from sb3_contrib import MaskablePPO
        env = FlotillaVecEnv("cage2", n_envs=4)
        self.assertTrue(env.has_attr("action_masks"))
        model = MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=64, seed=1, device="cpu")
        model.learn(1024)
        env.reset()
        masks = env.action_masks()
        actions, _ = model.predict(env.reset(), action_masks=masks)
        self.assertTrue(masks[np.arange(4), actions].all())


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""First steps with the Python package, to be read like a notebook.

    ./flotilla python examples/python/first_steps.py [--quick]
"""

import sys
import tempfile

import flotilla
import numpy as np

QUICK = "--quick" in sys.argv
FOLDER = tempfile.mkdtemp()

# %% A batch of environments, as Gymnasium has it.
envs = flotilla.make_vec("cartpole", num_envs=64, statistics=True)
obs, info = envs.reset(seed=1)
returns: list[float] = []
for _ in range(200):
    obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
    if "episode" in info:
        returns += list(info["episode"]["r"][info["_episode"]])
print(f"by chance: {len(returns)} episodes, mean return {np.mean(returns):.1f}")

# %% Train. The callback sees every update; returning False would stop the run.
def show(progress: flotilla.Progress) -> None:
    if progress.updates % 5 == 0:
        print(f"{progress.steps:7} steps, return {progress.return_mean:6.1f}")


run = flotilla.train("cartpole", seed=1, out=f"{FOLDER}/run", callback=show,
                     total_timesteps=20_000 if QUICK else 100_000)

# %% What it left: columns, which pandas.DataFrame(run.metrics) takes as they are.
print(f"{len(run.metrics)} columns of {len(run.metrics['step'])} updates")
print(f"evaluation: mean return {run.evaluate(episodes=50)['mean']:.1f}")

# %% Act with the policy in a loop of one's own.
policy = run.policy()
env = flotilla.make("cartpole")
obs, info = env.reset(seed=7)
total, over = 0.0, False
while not over:
    obs, reward, terminated, truncated, info = env.step(policy.predict(obs))
    total, over = total + reward, terminated or truncated
print(f"one episode of our own: {total:.0f}")

#!/usr/bin/env python3
"""What a step from Python costs: our batch, the same steps without Python, and Gymnasium's own.

    ./flotilla python bench/python_envs.py [--num-envs 64] [--seconds 1] [--json]

CPU time, medians of five: everything here is one thread. The actions are random and made before;
CartPole-v1 is the same problem.
"""

import argparse
import json
import statistics
import time

import flotilla
import gymnasium
import numpy as np

REPEATS = 5
BLOCK = 64  # different actions, over and over


def time_of(step, actions, seconds):
    """Seconds of one step, the median of some measurements."""
    def measure():
        steps, begin = 0, time.process_time()
        while time.process_time() - begin < seconds / REPEATS:
            for each in actions:
                step(each)
            steps += len(actions)
        return (time.process_time() - begin) / steps

    measure()
    return statistics.median(measure() for _ in range(REPEATS))


def native_time(envs, actions, seconds):
    def many(each):
        envs._batch.time_steps(each, 1000)

    return time_of(many, [actions[0]], seconds) / 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    n = options.num_envs
    actions = list(np.random.default_rng(1).integers(0, 2, size=(BLOCK, n)))

    ours = flotilla.make_vec("cartpole", n)
    ours.reset(seed=1)
    python = time_of(ours.step, actions, options.seconds)
    fixed = time_of(ours.step, [actions[0]] * BLOCK, options.seconds)
    native = native_time(ours, actions, options.seconds)
    views = flotilla.make_vec("cartpole", n, copy=False)
    views.reset(seed=1)
    view = time_of(views.step, actions, options.seconds)
    sync = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * n)
    sync.reset(seed=1)
    theirs = time_of(sync.step, actions, options.seconds)

    result = {"num_envs": n, "step_us": python * 1e6, "step_views_us": view * 1e6,
              "native_us": native * 1e6, "overhead_us": (fixed - native) * 1e6,
              "sync_vector_env_us": theirs * 1e6, "times_sync": theirs / python}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{n} x cartpole, one step of all of them\n"
          f"  make_vec                 {python * 1e6:9.2f} us   {n / python / 1e6:7.2f} M steps/s\n"
          f"  make_vec, copy=False     {view * 1e6:9.2f} us   {n / view / 1e6:7.2f} M steps/s\n"
          f"  without Python           {native * 1e6:9.2f} us   (the same actions: "
          f"{fixed * 1e6:.2f} us from Python)\n"
          f"  SyncVectorEnv            {theirs * 1e6:9.2f} us   {n / theirs / 1e6:7.4f} M steps/s\n"
          f"  make_vec : SyncVectorEnv {theirs / python:9.1f}")


if __name__ == "__main__":
    main()

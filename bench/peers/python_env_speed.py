#!/usr/bin/env python3
"""The same Python environments in Flotilla's workers and in the vector environments of other libraries, under random
actions: steps per second of all environments together, and per second of CPU time, measured in turns. On a machine
with other programs the second number tells more: they take more time from few processes than from many.

    python3 bench/peers/python_env_speed.py --binary build/release/flotilla            # Python with flotilla and gymnasium
    python3 bench/peers/python_env_speed.py --binary ... --check --json bench/results/python_env_speed.json

Stable-Baselines3's SubprocVecEnv takes part where it is installed.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time

FLOOR = 6.0  # times as many steps as AsyncVectorEnv makes


def make(name):
    import gymnasium
    return gymnasium.make(name)


def cpu_seconds(processes):
    """Of this process and of others."""
    total = time.process_time()
    for process in processes:
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            times = file.read().rpartition(")")[2].split()[11:13]
        total += sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return total


def timed(step, processes, args):
    """Calls step() for so long; steps of all environments in a second, and in one of CPU time."""
    for _ in range(20):
        step()
    steps, start, cpu = 0, time.perf_counter(), cpu_seconds(processes)
    while time.perf_counter() - start < args.seconds:
        step()
        steps += args.num_envs
    return steps / (time.perf_counter() - start), steps / (cpu_seconds(processes) - cpu)


def gymnasium_async(args):
    import functools

    import gymnasium
    envs = gymnasium.vector.AsyncVectorEnv([functools.partial(make, args.env)] * args.num_envs)
    try:
        envs.reset(seed=0)
        envs.action_space.seed(0)
        return timed(lambda: envs.step(envs.action_space.sample()), envs.processes, args)
    finally:
        envs.close()


def sb3_subproc(args):
    import functools

    import numpy as np
    from stable_baselines3.common.vec_env import SubprocVecEnv
    envs = SubprocVecEnv([functools.partial(make, args.env)] * args.num_envs)
    try:
        envs.reset()
        return timed(lambda: envs.step(np.array([envs.action_space.sample() for _ in range(args.num_envs)])),
                     envs.processes, args)
    finally:
        envs.close()


def flotilla(args):
    command = [args.binary, "bench", "env", "gym:" + args.env, "--n-envs", str(args.num_envs), "--workers",
               str(args.workers), "--seconds", str(args.seconds), "--python", sys.executable, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    return result["steps_per_s"], result["steps"] / result["cpu_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json", help="file for all numbers")
    parser.add_argument("--check", action="store_true", help="status 1 where the bar is missed")
    args = parser.parse_args()
    sides = {"flotilla": flotilla, "AsyncVectorEnv": gymnasium_async}
    try:
        import stable_baselines3  # noqa: F401
        sides["SubprocVecEnv"] = sb3_subproc
    except ImportError:
        pass
    rates = {name: [] for name in sides}
    for _ in range(args.repeats):
        for name, measure in sides.items():
            rates[name].append(measure(args))
    ratios = {}
    for name, each in rates.items():
        ratios[name] = [statistics.median(ours[i] / theirs[i] for ours, theirs in zip(rates["flotilla"], each))
                        for i in (0, 1)]
        wall, cpu = (statistics.median(rate[i] for rate in each) for i in (0, 1))
        print(f"{name:<16}{wall:>9.0f} steps/s {cpu:>9.0f} per CPU second" +
              ("" if name == "flotilla" else
               f"   flotilla makes {ratios[name][0]:.1f} and {ratios[name][1]:.1f} times as many"))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"env": args.env, "num_envs": args.num_envs, "workers": args.workers,
                       "seconds": args.seconds, "steps_per_s": rates, "ratio": ratios, "cpus": os.cpu_count(),
                       "machine": platform.machine(), "python": platform.python_version(),
                       "date": datetime.date.today().isoformat()}, file, indent=1)
            file.write("\n")
    missed = [name for name in sides if name != "flotilla" and ratios[name][0] < FLOOR]
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())

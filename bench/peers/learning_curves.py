#!/usr/bin/env python3
"""Whether training on our CartPole and on Gymnasium's, in Python workers, learns alike: the same settings, seeds of their
own, and a two-sided permutation test of the difference of two numbers of each run: the mean return over the whole training,
and the steps until 100 episodes have a mean of 195.

    python3 bench/peers/learning_curves.py --binary build/release/flotilla [--python PYTHON] [--check]

--python: an interpreter that has flotilla and gymnasium.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# Those of the recipe cartpole.
SETTINGS = ["num_envs=32", "n_steps=32", "total_timesteps=200000", "normalize_reward=true", "ppo.gamma=0.99",
            "ppo.learning_rate=0.002", "ppo.learning_rate_schedule=linear", "ppo.ent_coef=0"]
GOOD = 195


def train(args, env, seed, folder):
    out = Path(folder) / f"{env.replace(':', '-')}-{seed}"
    command = [args.binary, "train", env, *SETTINGS, "--seed", str(seed), "--out", str(out), "--json"]
    if ":" in env:
        command += ["--python", args.python, "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    means = [(line["step"], line["charts/return_mean_100"]) for line in lines if "charts/return_mean_100" in line]
    reached = next((step for step, mean in means if mean >= GOOD), means[-1][0])
    return {"seed": seed, "mean": statistics.mean(mean for _, mean in means), "steps": reached,
            "score": json.loads(done.stdout)["eval"]["mean"]}


def p_value(first, second, draws=20000):
    """Two-sided: how often a random division of all numbers differs as much in its means."""
    rng, both = random.Random(1), first + second
    apart = abs(statistics.mean(first) - statistics.mean(second))
    count = 0
    for _ in range(draws):
        rng.shuffle(both)
        count += abs(statistics.mean(both[:len(first)]) - statistics.mean(both[len(first):])) >= apart - 1e-12
    return (count + 1) / (draws + 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", help="file for all numbers")
    parser.add_argument("--check", action="store_true", help="status 1 where curves differ or a score is below 475")
    args = parser.parse_args()
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for env, first in (("cartpole", 20000), ("gym:CartPole-v1", 30000)):
            runs[env] = [train(args, env, first + i, folder) for i in range(args.seeds)]
    ours, theirs = runs.values()
    fine = True
    for number in ("mean", "steps"):
        values = [[run[number] for run in side] for side in (ours, theirs)]
        p = p_value(*values)
        fine &= p > 0.05
        print(f"{number}: ours {statistics.mean(values[0]):.1f}, Gymnasium's {statistics.mean(values[1]):.1f}, p = {p:.2f}")
    for env, side in runs.items():
        good = sum(run["score"] >= 475 for run in side)
        fine &= good == len(side)
        print(f"{env}: {good} of {len(side)} at 475 or more")
    if args.json:
        Path(args.json).write_text(json.dumps(runs, indent=1) + "\n")
    if args.check and not fine:
        sys.exit(1)


if __name__ == "__main__":
    main()

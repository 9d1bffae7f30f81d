#!/usr/bin/env python3
"""Steps to a recipe's score on changed settings of its environment: from scratch, and from a run on the usual ones.

    bench/warm_start.py [--seeds 10] [--json]

Both are evaluated equally often and end with the first evaluation that has the score (eval.stop_at).
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# recipe: score, steps between evaluations, changed settings
CASES = {
    "cartpole": (475, 2048, ["env.half_length=1.0", "env.pole_mass=0.3"]),
    "pendulum": (-200, 16384, ["env.mass=1.2", "env.length=0.9"]),
}


def train(program, recipe, seed, out, *settings):
    command = [program, "train", recipe, "--seed", str(seed), "--out", str(out), *settings, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def steps_to_score(summary, score):
    """None where it was not reached."""
    return summary["steps"] if summary["eval"]["mean"] >= score else None


def measure(program, recipe, seed, folder):
    score, every, changed = CASES[recipe]
    until = [f"eval_freq={every}", f"eval.stop_at={score}"]
    usual = folder / f"{recipe}{seed}"
    train(program, recipe, seed, usual)
    scratch = train(program, recipe, seed, f"{usual}-scratch", *changed, *until)
    warm = train(program, recipe, seed, f"{usual}-warm", *changed, *until, "--init", str(usual))
    return {"seed": seed, "scratch": steps_to_score(scratch, score), "warm": steps_to_score(warm, score)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "build/release/flotilla"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=10000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for recipe in CASES:
            seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
            rows = [measure(arguments.program, recipe, seed, Path(folder)) for seed in seeds]
            results[recipe] = rows
            ratios = [row["warm"] / row["scratch"] for row in rows if row["warm"] and row["scratch"]]
            if not arguments.json:
                print(f"{recipe}: {len(ratios)} of {len(rows)} pairs reach {CASES[recipe][0]}; warm / scratch: median "
                      f"{statistics.median(ratios):.2f}, largest {max(ratios):.2f}")
                for row in rows:
                    print(f"  seed {row['seed']}: {row['scratch']} from scratch, {row['warm']} warm")
    if arguments.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

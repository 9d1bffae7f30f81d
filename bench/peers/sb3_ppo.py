#!/usr/bin/env python3
"""PPO steps trained per second: Flotilla beside Stable-Baselines3, on CartPole.

A step trained is an env step that was collected and then learned from, so the figure covers the
whole of a rollout and its update. Both sides use the settings below. Both run on this machine in
one go, taking turns, so that a busy neighbour hits both; each figure is the median of the repeats.
Flotilla times itself. Of Stable-Baselines3 learn() is timed, after a first rollout with its update;
imports and the start of processes are not.
Exit status: 0 measured, 1 --check found a ratio too low, 2 something is missing or failed.
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

from gym_env import ROOT, cpu_model, die, start_flotilla

NUM_ENVS, ROLLOUT = 64, 128
MINIBATCH, EPOCHS = 2048, 4
SETTINGS = {"learning_rate": 3e-4, "n_steps": ROLLOUT, "batch_size": MINIBATCH, "n_epochs": EPOCHS,
            "gamma": 0.99, "gae_lambda": 0.95, "clip_range": 0.2, "ent_coef": 0.01, "vf_coef": 0.5,
            "max_grad_norm": 0.5}
NET = {"pi": [64, 64], "vf": [64, 64]}  # two separate networks
# The same for us, all written out: a recipe or another default must not change the comparison.
OURS = [f"horizon={ROLLOUT}", "net.hidden=64,64", "net.activation=tanh", "net.shared=false",
        "net.init=orthogonal", "net.normalise_obs=false", "normalise_reward=false",
        "ppo.returns=gae", "ppo.phases=joint", "ppo.advantage_scale=minibatch",
        f"ppo.minibatch_size={MINIBATCH}", f"ppo.epochs={EPOCHS}", "ppo.lr=3e-4",
        "ppo.lr_schedule=constant", "ppo.gamma=0.99", "ppo.lambda=0.95", "ppo.clip=0.2",
        "ppo.clip_schedule=constant", "ppo.entropy=0.01", "ppo.entropy_schedule=constant",
        "ppo.epsilon=0", "ppo.epsilon_schedule=constant", "ppo.value_coef=0.5",
        "ppo.value_clip=0", "ppo.max_grad_norm=0.5", "ppo.target_kl=0", "ppo.adam_epsilon=1e-5"]
# (our back end, Stable-Baselines3's class, the least ratio --check accepts)
PAIRS = (("serial", "DummyVecEnv", 10), ("processes", "SubprocVecEnv", 20))


def sb3_envs(kind):
    import gymnasium
    from stable_baselines3.common import vec_env

    factories = [lambda: gymnasium.make("CartPole-v1") for _ in range(NUM_ENVS)]
    # A forked worker need not import torch again: 64 of them start in a moment.
    arguments = {"start_method": "fork"} if kind == "SubprocVecEnv" else {}
    return getattr(vec_env, kind)(factories, **arguments)


def sb3_run(kind, rollouts, seed):
    """Steps and seconds of learn() over that many rollouts, after one that is not timed."""
    from stable_baselines3 import PPO
    from torch import nn

    envs = sb3_envs(kind)
    try:
        model = PPO("MlpPolicy", envs, device="cpu", seed=seed, verbose=0,
                    policy_kwargs={"net_arch": NET, "activation_fn": nn.Tanh}, **SETTINGS)
        model.learn(NUM_ENVS * ROLLOUT)
        before = model.num_timesteps
        start = time.perf_counter()
        model.learn(rollouts * NUM_ENVS * ROLLOUT, reset_num_timesteps=False)
        wall = time.perf_counter() - start
        return {"steps": model.num_timesteps - before, "wall_s": wall}
    finally:
        envs.close()


def flotilla_command(options, backend, seed):
    command = [options.flotilla, "bench", "ppo", "cartpole", "--num-envs", str(NUM_ENVS),
               "--threads", "1", "--policy", "fused", "--seconds", str(options.seconds),
               "--seed", str(seed), "--backend", backend, "--json", *OURS]
    return command + (["--workers", str(options.workers)] if backend == "processes" else [])


def flotilla_run(options, backend, seed):
    command = flotilla_command(options, backend, seed)
    shown = " ".join(command)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                          timeout=60 + 10 * options.seconds)
    if done.returncode != 0:
        die(f"exit status {done.returncode} from: {shown}")
    try:
        result = json.loads(done.stdout.strip().split("\n")[-1])
        run = {key: result[key] for key in ("kernel", "steps", "wall_s", "cpu_s", "gflops")}
        got = tuple(result[key] for key in ("env", "policy", "num_envs", "threads", "backend"))
    except (ValueError, KeyError) as error:
        die(f"no JSON result on the last line of stdout ({error}): {shown}")
    asked = ("cartpole", "fused", NUM_ENVS, 1, backend)
    if got != asked:
        die(f"asked for {asked}, measured {got}")
    if run["steps"] % (NUM_ENVS * ROLLOUT) != 0:
        die(f"{run['steps']} steps are no whole rollouts: {shown}")
    return run


def median_rate(runs):
    return statistics.median(run["steps"] / run["wall_s"] for run in runs)


def measure(options):
    rows = []
    for backend, kind, least in PAIRS:
        ours, theirs = [], []
        for repeat in range(options.repeats):
            print(f"{backend} and {kind}, {repeat + 1} of {options.repeats}", file=sys.stderr)
            ours.append(flotilla_run(options, backend, repeat))
            theirs.append(sb3_run(kind, options.rollouts, repeat))
        our_rate, their_rate = median_rate(ours), median_rate(theirs)
        rows.append({"backend": backend, "peer": kind, "kernel": ours[0]["kernel"],
                     "steps_per_s": our_rate, "peer_steps_per_s": their_rate,
                     "ratio": our_rate / their_rate, "least_ratio": least,
                     "repeats": ours, "peer_repeats": theirs})
    return rows


def print_table(rows, machine, options):
    print(f"PPO on CartPole, {NUM_ENVS} envs x {ROLLOUT} steps, {EPOCHS} epochs of minibatches of "
          f"{MINIBATCH}, 1 thread; median of {options.repeats}; steps trained per second")
    print(f"{machine['cpu']}, {machine['cores']} cores; Stable-Baselines3 "
          f"{machine['stable_baselines3']}, torch {machine['torch']}, Gymnasium "
          f"{machine['gymnasium']}, Python {machine['python']}; our kernel: {rows[0]['kernel']}")
    print(f"{'flotilla':<12}{'':>14}  {'sb3':<16}{'':>10}{'ratio':>9}")
    for row in rows:
        print(f"{row['backend']:<12}{row['steps_per_s']:>14,.0f}  {row['peer']:<16}"
              f"{row['peer_steps_per_s']:>10,.0f}{row['ratio']:>9.1f}")


def parse_arguments():
    def positive(kind):
        def parse(text):
            value = kind(text)
            if value <= 0:
                raise argparse.ArgumentTypeError(f"{text} is not positive")
            return value
        return parse

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--flotilla", default=os.path.join(ROOT, "build", "release", "flotilla"),
                        help="the program to measure (default: the release build)")
    parser.add_argument("--workers", type=positive(int), default=2,
                        help="of our processes back end; Stable-Baselines3 has one per env")
    parser.add_argument("--seconds", type=positive(float), default=3,
                        help="of each measurement of ours")
    parser.add_argument("--rollouts", type=positive(int), default=10,
                        help="of each measurement of Stable-Baselines3")
    parser.add_argument("--repeats", type=positive(int), default=3)
    parser.add_argument("--json", metavar="FILE", help="record every repeat, machine and versions")
    parser.add_argument("--check", action="store_true",
                        help="exit 1 if a ratio is under the least expected of it")
    return parser.parse_args()


def main():
    options = parse_arguments()
    try:
        import gymnasium
        import numpy
        import stable_baselines3
        import torch
    except ImportError as error:
        die(f"{error.name} is not installed for {sys.executable}; see README.md beside me")
    torch.set_num_threads(1)

    start_flotilla(options.flotilla)
    rows = measure(options)
    machine = {"cpu": cpu_model(), "cores": os.cpu_count(), "python": platform.python_version(),
               "gymnasium": gymnasium.__version__, "numpy": numpy.__version__,
               "torch": torch.__version__, "stable_baselines3": stable_baselines3.__version__}
    print_table(rows, machine, options)
    if options.json:
        record = {"env": "cartpole", "num_envs": NUM_ENVS, "workers": options.workers,
                  "seconds": options.seconds, "rollouts": options.rollouts,
                  "settings": {**SETTINGS, "net_arch": NET, "activation": "tanh"},
                  "our_settings": OURS,
                  "date": datetime.date.today().isoformat(), "machine": machine, "rows": rows}
        with open(options.json, "w", encoding="utf-8") as out:
            out.write(json.dumps(record) + "\n")
    short = [row for row in rows if row["ratio"] < row["least_ratio"]]
    if options.check:
        for row in short:
            print(f"{row['backend']} / {row['peer']}: {row['ratio']:.1f} is under "
                  f"{row['least_ratio']}", file=sys.stderr)
        return 1 if short else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Env steps per second: Flotilla's back ends beside Gymnasium's vector envs, on CartPole.

Both sides run on this machine in one go, taking turns, so that a busy neighbour hits both. Each
figure is the median of the repeats. Gymnasium gets random actions drawn by one NumPy call per step.
Exit status: 0 measured, 1 --check found a ratio too low, 2 something is missing or failed.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# (our back end, Gymnasium's class, the least ratio --check accepts)
PAIRS = (("serial", "SyncVectorEnv", 200), ("processes", "AsyncVectorEnv", 120))


def die(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def gymnasium_rate(kind, num_envs, seconds, seed):
    """Steps of single envs per second."""
    import gymnasium
    import numpy as np

    envs = getattr(gymnasium.vector, kind)(
        [lambda: gymnasium.make("CartPole-v1") for _ in range(num_envs)])
    try:
        rng = np.random.default_rng(seed)
        envs.reset(seed=seed)
        for _ in range(20):  # imports, first allocations, worker start
            envs.step(rng.integers(0, 2, num_envs))
        rounds = 0
        start = time.perf_counter()
        while True:
            envs.step(rng.integers(0, 2, num_envs))
            rounds += 1
            wall = time.perf_counter() - start
            if wall >= seconds:
                return rounds * num_envs / wall
    finally:
        envs.close()


def flotilla_rate(binary, backend, num_envs, workers, seconds, seed):
    command = [binary, "bench", "env", "cartpole", "--num-envs", str(num_envs),
               "--backend", backend, "--seconds", str(seconds), "--seed", str(seed), "--json"]
    if backend == "processes":
        command += ["--workers", str(workers)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60 + 10 * seconds)
    if done.returncode != 0:
        die(f"exit status {done.returncode} from: {' '.join(command)}")
    try:
        result = json.loads(done.stdout.strip().split("\n")[-1])
        rate, got = result["steps_per_s"], (result["env"], result["backend"], result["num_envs"])
    except (ValueError, KeyError) as error:
        die(f"no JSON result on the last line of stdout ({error}): {' '.join(command)}")
    if got != ("cartpole", backend, num_envs):
        die(f"asked for cartpole on {backend} with {num_envs} envs, measured {got}")
    return rate


def start_flotilla(binary):
    """Lets the launcher build, if it has to, before anything is timed."""
    try:
        status = subprocess.run([binary, "--version"], stdout=subprocess.DEVNULL).returncode
    except OSError as error:
        die(f"{binary}: {error.strerror}")
    if status != 0:
        die(f"exit status {status} from: {binary} --version")


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            for line in info:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def measure(options):
    rows = []
    for backend, kind, least in PAIRS:
        ours, theirs = [], []
        for repeat in range(options.repeats):
            print(f"{backend} and {kind}, {repeat + 1} of {options.repeats}", file=sys.stderr)
            ours.append(flotilla_rate(options.flotilla, backend, options.num_envs, options.workers,
                                      options.seconds, repeat))
            theirs.append(gymnasium_rate(kind, options.num_envs, options.seconds, repeat))
        our_rate, their_rate = statistics.median(ours), statistics.median(theirs)
        rows.append({"backend": backend, "peer": kind, "steps_per_s": our_rate,
                     "peer_steps_per_s": their_rate, "ratio": our_rate / their_rate,
                     "least_ratio": least, "repeats": ours, "peer_repeats": theirs})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--flotilla", default=os.path.join(ROOT, "flotilla"),
                        help="the program to measure (default: the launcher of this repository)")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="of our processes back end")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--check", action="store_true",
                        help="exit 1 if a ratio is under the least expected of it")
    options = parser.parse_args()
    try:
        import gymnasium
        import numpy
    except ImportError as error:
        die(f"{error.name} is not installed for {sys.executable}; see README.md beside me")

    start_flotilla(options.flotilla)
    rows = measure(options)
    machine = {"cpu": cpu_model(), "cores": os.cpu_count(), "python": platform.python_version(),
               "gymnasium": gymnasium.__version__, "numpy": numpy.__version__}
    if options.json:
        print(json.dumps({"env": "cartpole", "num_envs": options.num_envs,
                          "workers": options.workers, "seconds": options.seconds,
                          "machine": machine, "rows": rows}))
    else:
        print(f"CartPole, {options.num_envs} envs, median of {options.repeats} x "
              f"{options.seconds:g} s; steps per second")
        print(f"{machine['cpu']}, {machine['cores']} cores; Gymnasium {machine['gymnasium']}, "
              f"NumPy {machine['numpy']}, Python {machine['python']}")
        print(f"{'flotilla':<12}{'':>14}  {'gymnasium':<16}{'':>10}{'ratio':>9}")
        for row in rows:
            print(f"{row['backend']:<12}{row['steps_per_s']:>14,.0f}  {row['peer']:<16}"
                  f"{row['peer_steps_per_s']:>10,.0f}{row['ratio']:>9.0f}")
    short = [row for row in rows if row["ratio"] < row["least_ratio"]]
    if options.check:
        for row in short:
            print(f"{row['backend']} / {row['peer']}: {row['ratio']:.0f} is under "
                  f"{row['least_ratio']}", file=sys.stderr)
        return 1 if short else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

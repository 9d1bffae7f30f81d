#!/usr/bin/env python3
"""Speed of environment stepping: CartPole under random actions in every back end.

Runs each setting several times, in turns so that a noisy machine hits all alike, and prints
medians and ratios. --check exits 1 where a bar is missed, --json FILE keeps the result.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

SETTINGS = {
    "serial 64": ["--num-envs", "64", "--backend", "serial"],
    "serial 1024": ["--num-envs", "1024", "--backend", "serial"],
    "threads 1024 x 2": ["--num-envs", "1024", "--backend", "threads", "--threads", "2"],
    "processes 64 x 2": ["--num-envs", "64", "--backend", "processes", "--workers", "2"],
    "processes 64 x 1": ["--num-envs", "64", "--backend", "processes", "--workers", "1"],
}


def measure(binary, arguments, seconds):
    command = [binary, "bench", "env", "cartpole", "--json", "--seconds", str(seconds), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flotilla", default=str(ROOT / "flotilla"), help="program to measure")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run")
    parser.add_argument("--json", metavar="FILE", help="write the result there")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bar is missed")
    args = parser.parse_args()

    rates = {name: [] for name in SETTINGS}
    for _ in range(args.repeats):
        for name, arguments in SETTINGS.items():
            last = measure(args.flotilla, arguments, args.seconds)
            rates[name].append(last["steps_per_s"])
    median = {name: statistics.median(values) for name, values in rates.items()}
    pairs = zip(rates["threads 1024 x 2"], rates["serial 1024"])
    speed_up = statistics.median(threads / serial for threads, serial in pairs)

    print(f"{last['cores']} x {last['cpu']}, medians of {args.repeats}")
    for name, values in rates.items():
        spread = f"{min(values) / 1e6:.1f} to {max(values) / 1e6:.1f}"
        print(f"{name:<18} {median[name] / 1e6:6.1f} M steps/s   ({spread})")
    print(f"threads over serial, 1024 envs: {speed_up:.2f}x")

    bars = {
        "serial 64 of at least 15 M": median["serial 64"] >= 15e6,
        "threads of at least 1.6x serial": speed_up >= 1.6,
        "processes 64 x 2 of at least 2 M": median["processes 64 x 2"] >= 2e6,
    }
    for bar, met in bars.items():
        print(f"{'met   ' if met else 'MISSED'} {bar}")
    if args.json:
        result = {
            "date": datetime.date.today().isoformat(),
            "machine": f"{last['cores']} x {last['cpu']}",
            "repeats": args.repeats,
            "median_steps_per_s": {name: round(rate) for name, rate in median.items()},
            "threads_over_serial": round(speed_up, 3),
        }
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if all(bars.values()) or not args.check else 1


if __name__ == "__main__":
    sys.exit(main())

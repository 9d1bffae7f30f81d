"""Measuring several settings of one program in turns, so that a noisy machine hits all alike."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def arguments(description, repeats, seconds):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--flotilla", default=str(ROOT / "flotilla"), help="program to measure")
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--seconds", type=float, default=seconds, help="of each run")
    parser.add_argument("--json", metavar="FILE", help="write the result there")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bar is missed")
    return parser.parse_args()


def show(text):
    """A line that replaces itself, for who waits at a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def last_json(line):
    """The JSON object that a program prints in its last line; ends this one where it fails."""
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(line)}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def write_rates(file, rates):
    """All rates by what was measured, for --json."""
    record = {"machine": platform.machine(), "cpus": os.cpu_count(), "date": datetime.date.today().isoformat(), "rates": rates}
    pathlib.Path(file).write_text(json.dumps(record, indent=2) + "\n")


def measure(args, command, settings):
    """The JSON objects that `flotilla bench COMMAND` prints, by setting, one per repeat."""
    results = {name: [] for name in settings}
    for repeat in range(args.repeats):
        for name, options in settings.items():
            show(f"measuring {repeat + 1} of {args.repeats}: {name}")
            line = [args.flotilla, "bench", *command, "--json", "--seconds", str(args.seconds)]
            results[name].append(last_json([*line, *options]))
    show("")
    return results


def rates(results):
    return {name: [run["steps_per_s"] for run in runs] for name, runs in results.items()}


def median_ratio(all_rates, over, under):
    """Median of the ratios of neighbours in time."""
    return statistics.median(a / b for a, b in zip(all_rates[over], all_rates[under]))


def report(args, machine, all_rates, unit, ratios, bars):
    """Prints medians, ratios and bars, writes --json, and ends the program as --check says."""
    scale = {"M": 1e6, "k": 1e3}[unit]
    median = {name: statistics.median(values) for name, values in all_rates.items()}
    print(f"{machine}, medians of {args.repeats}")
    for name, values in all_rates.items():
        spread = f"{min(values) / scale:.1f} to {max(values) / scale:.1f}"
        print(f"{name:<20} {median[name] / scale:6.1f} {unit} steps/s   ({spread})")
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f}x")
    if args.json:
        record = {
            "machine": machine,
            "date": datetime.date.today().isoformat(),
            "repeats": args.repeats,
            "seconds": args.seconds,
            "steps_per_s": {name: round(value) for name, value in median.items()},
            "ratios": {name: round(ratio, 2) for name, ratio in ratios.items()},
        }
        pathlib.Path(args.json).write_text(json.dumps(record, indent=2) + "\n")
    met = bars(median)
    for name, ok in met.items():
        print(f"{'met   ' if ok else 'MISSED'} {name}")
    sys.exit(1 if args.check and not all(met.values()) else 0)

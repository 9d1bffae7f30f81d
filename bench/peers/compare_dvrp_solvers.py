#!/usr/bin/env python3
"""Minutes of travel: our large-neighbourhood search beside OR-Tools, on dial-a-ride instances.

OR-Tools gets the best of so many seeds of so many seconds, our solver one run of the same seconds
in all, and one of a single second. Both run on this machine in one go, taking turns on each
instance, so that a busy neighbour hits both. Results of both go through `flotilla dvrp check`.
Exit status: 0 measured, 1 --check found our mean gap too large, 2 something is missing or failed.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

from gym_env import ROOT, cpu_model, die, start_flotilla
from ortools_referee import check

MOST_GAP = 0.02
SAME = 1e-3  # minutes: less than any two different sums of whole seconds are apart


def run(command, seconds, stdin=None):
    """The JSON object a command prints, with the seconds of CPU it took."""
    timed = [sys.executable, "-c", TIMED, *map(str, command)]
    done = subprocess.run(timed, input=stdin, stdout=subprocess.PIPE, text=True,
                          timeout=60 + 10 * seconds)
    if done.returncode != 0:
        die(f"exit status {done.returncode} from: {' '.join(map(str, command))}")
    *_, printed, cpu = done.stdout.strip().split("\n")
    return {**json.loads(printed), "cpu_s": float(cpu)}


# Two jobs at a time run in one process, whose own account of its children would mix them up.
TIMED = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
sys.exit(status)
"""


def compare(options, size, seed):
    """One instance, by each solver in turn."""
    drawn = subprocess.run([options.flotilla, "dvrp", "instance", "--customers", str(size),
                            "--seed", str(seed), "--full"], stdout=subprocess.PIPE, text=True)
    if drawn.returncode != 0:
        die(f"`dvrp instance` ended with status {drawn.returncode}")
    total = options.seconds * options.seeds
    referee = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ortools_referee.py")
    theirs = run([sys.executable, referee, "-", "--seconds", options.seconds,
                  "--seeds", options.seeds, "--flotilla", options.flotilla], total, drawn.stdout)
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="dvrp-") as file:
        file.write(drawn.stdout)
        file.flush()
        ours, brief = (run([options.flotilla, "dvrp", "solve", file.name, "--seconds", seconds,
                            "--json"], seconds) for seconds in (total, 1))
    for result in (ours, brief):
        verdict = check(options.flotilla, None, json.loads(drawn.stdout), result["routes"])
        if not verdict["ok"]:
            die(f"our routes of {size} requests, seed {seed}: {verdict['fault']}")
    keep = ("cost", "vehicles", "cpu_s")
    row = {"requests": size, "seed": seed,
           "ortools": {key: theirs[key] for key in (*keep, "seeds")},
           "ours": {key: ours[key] for key in (*keep, "iterations")},
           "ours_1s": {key: brief[key] for key in (*keep, "iterations")}}
    print(f"{size} requests, seed {seed}: OR-Tools {theirs['cost']:.2f}, ours {ours['cost']:.2f}, "
          f"in 1 s {brief['cost']:.2f}", file=sys.stderr)
    return row


def gaps(rows, which):
    return [row[which]["cost"] / row["ortools"]["cost"] - 1 for row in rows]


def summary(size, rows):
    line = {"requests": size, "instances": len(rows)}
    for which in ("ortools", "ours", "ours_1s"):
        line[which] = statistics.mean(row[which]["cost"] for row in rows)
        line[f"cpu_s_{which}"] = statistics.mean(row[which]["cpu_s"] for row in rows)
    for which in ("ours", "ours_1s"):
        apart = [row[which]["cost"] - row["ortools"]["cost"] for row in rows]
        line[f"gap_{which}"] = statistics.mean(gaps(rows, which))
        line[f"worst_gap_{which}"] = max(gaps(rows, which))
        line[f"better_{which}"] = sum(each < -SAME for each in apart)
        line[f"worse_{which}"] = sum(each > SAME for each in apart)
    return line


def print_table(lines, machine, options):
    total = options.seconds * options.seeds
    print(f"mean minutes of travel; OR-Tools {machine['ortools']}, best of {options.seeds} seeds x "
          f"{options.seconds:g} s; ours, one run of {total:g} s and one of 1 s")
    print(f"{machine['cpu']}, {machine['cores']} cores, {options.jobs} instances at a time")
    print("gap: ours over OR-Tools, mean of the instances, and the largest; +: instances where "
          "ours is better, -: worse")
    columns = f"{'gap':>9}{'largest':>9}{'+':>4}{'-':>4}"
    print(f"{'requests':>8}{'OR-Tools':>10}{f'ours {total:g} s':>12}{columns}"
          f"{'ours 1 s':>12}{columns}")
    for line in lines:
        text = f"{line['requests']:>8}{line['ortools']:>10.2f}"
        for which in ("ours", "ours_1s"):
            text += (f"{line[which]:>12.2f}{line[f'gap_{which}']:>+9.2%}"
                     f"{line[f'worst_gap_{which}']:>+9.2%}{line[f'better_{which}']:>4}"
                     f"{line[f'worse_{which}']:>4}")
        print(text)
    spent = [[line[f"cpu_s_{which}"] for line in lines] for which in ("ortools", "ours", "ours_1s")]
    print("seconds of CPU, mean: OR-Tools {:.1f}, ours {:.1f}, ours in 1 s {:.2f}".format(
        *map(statistics.mean, spent)))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--flotilla", default=os.path.join(ROOT, "build", "release", "flotilla"),
                        help="the program to measure (default: the release build)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 20, 30], help="requests")
    parser.add_argument("--instances", type=int, default=10, help="of each size (default 10)")
    parser.add_argument("--seconds", type=float, default=5, help="of a seed of OR-Tools")
    parser.add_argument("--seeds", type=int, default=3, help="of OR-Tools")
    parser.add_argument("--jobs", type=int, default=1, choices=(1, 2),
                        help="instances at a time (default 1)")
    parser.add_argument("--json", metavar="FILE", help="record every instance, machine and date")
    parser.add_argument("--check", action="store_true",
                        help=f"exit 1 if our mean gap is above {MOST_GAP:.0%} at some size")
    return parser.parse_args()


def main():
    options = parse_arguments()
    try:
        import ortools
    except ImportError:
        die(f"ortools is not installed for {sys.executable}; see README.md beside me")
    start_flotilla(options.flotilla)
    load = os.getloadavg()[0]
    cases = [(size, seed) for size in options.sizes for seed in range(options.instances)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda case: compare(options, *case), cases))
    machine = {"cpu": cpu_model(), "cores": os.cpu_count(), "load_before": round(load, 2),
               "python": platform.python_version(), "ortools": ortools.__version__}
    lines = [summary(size, [row for row in rows if row["requests"] == size])
             for size in options.sizes]
    print_table(lines, machine, options)
    if options.json:
        record = {"date": datetime.date.today().isoformat(), "machine": machine,
                  "seconds": options.seconds, "seeds": options.seeds, "jobs": options.jobs,
                  "summary": lines, "rows": rows}
        with open(options.json, "w", encoding="utf-8") as out:
            out.write(json.dumps(record) + "\n")
    wide = [line for line in lines if line["gap_ours"] > MOST_GAP]
    if options.check:
        for line in wide:
            print(f"{line['requests']} requests: a mean gap of {line['gap_ours']:.2%}",
                  file=sys.stderr)
        return 1 if wide else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

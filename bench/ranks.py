"""How fast several processes train together, beside as many alone, measured in turns.

    python3 bench/ranks.py --ranks 4x256,8x1024 --threads 2

Each rank has as many environments and threads as the one that is measured alone. mpirun starts them and binds each to cores of its
own. One process with all threads and environments, which exchanges nothing, is beside them.
"""

import argparse
import os
import shutil
import statistics
import sys

from turns import ROOT, last_json, show, write_rates

WORK = "cage2 red=mix"
SUMS = ("exact", "fast")


def rate(options, ranks, envs, threads, summed="exact"):
    """Steps per second of so many ranks of `threads` threads, with `envs` environments together."""
    start = ["mpirun", "--map-by", f"slot:PE={threads}", "--bind-to", "core", "-np", str(ranks)]
    if os.geteuid() == 0:
        start.insert(1, "--allow-run-as-root")
    bench = ["bench", "ppo", *WORK.split(), "--threads", str(threads), "--num-envs", str(envs), "--seconds", str(options.seconds)]
    together = [f"ppo.blocks={ranks}", f"cluster.sum={summed}"]
    return last_json([*start, options.flotilla, *bench, *together, "--json"])["steps_per_s"]


def measure(options, ranks, envs):
    """Rates by what was measured, one per turn."""
    rates = {}
    for turn in range(options.repeats):
        show(f"measuring {turn + 1} of {options.repeats}: {ranks} ranks of {envs} environments")
        add = lambda key, value: rates.setdefault(key, []).append(value)
        add("alone", rate(options, 1, envs, options.threads))
        for summed in SUMS:
            add(summed, rate(options, ranks, ranks * envs, options.threads, summed))
        add("one process", rate(options, 1, ranks * envs, ranks * options.threads))
    show("")
    return rates


def shape(text):
    ranks, envs = text.split("x")
    return int(ranks), int(envs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flotilla", default=str(ROOT / "flotilla"), help="program to measure")
    parser.add_argument("--ranks", default="4x256,8x1024", metavar="RANKSxENVS,...",
                        type=lambda text: [shape(each) for each in text.split(",")])
    parser.add_argument("--threads", type=int, default=2, help="of a rank")
    parser.add_argument("--seconds", type=float, default=1, help="of each run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write all rates there")
    options = parser.parse_args()
    if shutil.which("mpirun") is None:
        sys.exit("mpirun is not installed: apt-get install openmpi-bin")
    found = {}
    for ranks, envs in options.ranks:
        rates = found[f"{ranks}x{envs}"] = measure(options, ranks, envs)
        print(f"{ranks} ranks of {envs} environments and {options.threads} threads; "
              f"one alone: {statistics.median(rates['alone']) / 1e3:.1f} k steps/s")
        for key in (*SUMS, "one process"):
            parts = [together / (ranks * alone) for together, alone in zip(rates[key], rates["alone"])]
            print(f"  {key:<12} {statistics.median(rates[key]) / 1e3:8.1f} k steps/s   {statistics.median(parts):.0%} "
                  f"({min(parts):.0%} to {max(parts):.0%})")
    if options.json:
        write_rates(options.json, found)


if __name__ == "__main__":
    main()

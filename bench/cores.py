"""How much faster many threads are than one, work by work, measured in turns.

    python3 bench/cores.py --threads 1,2,4,8,16
    python3 bench/cores.py --threads 16 --before OTHER/flotilla --busy 2 --json cores.json

--before names another build, whose one thread the others are compared with; without it that is one thread of this one. --busy
adds a column with so many busy loops beside the most threads. Ratios are medians of those of the same turn.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys

from turns import ROOT, last_json, show, write_rates

# By name: what is measured, where its last line has the rate, and the threads it is compared with.
WORK = {
    "CartPole alone, 4096": (
        "bench env cartpole --num-envs 4096 --backend threads --seconds 0.3",
        lambda found: found.get("free_steps_per_s", found["steps_per_s"]), 1),
    "CartPole, 1024": ("bench ppo cartpole --num-envs 1024 --seconds 1", lambda found: found["steps_per_s"], 1),
    "CartPole, 64": ("bench ppo cartpole --num-envs 64 --seconds 1", lambda found: found["steps_per_s"], 1),
    "CAGE 2, 256": ("bench ppo cage2 red=mix --num-envs 256 --seconds 1", lambda found: found["steps_per_s"], 1),
    "dial-a-ride, 256": (
        "dvrp scaling --num-envs 256 --epochs 2 env.oracle.kind=network",
        lambda found: found["rows"][0]["samples_per_s"], 2),
}


def rate(program, name, threads):
    words, of, _ = WORK[name]
    return of(last_json([program, *words.split(), "--threads", str(threads), "--json"]))


@contextlib.contextmanager
def busy_loops(count):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def measure(options, name):
    """Rates by what was measured, one per turn: "before", numbers of threads, "busy"."""
    base = WORK[name][2]
    rates = {}
    for turn in range(options.repeats):
        show(f"measuring {turn + 1} of {options.repeats}: {name}")
        add = lambda key, value: rates.setdefault(key, []).append(value)
        add("before", rate(options.before or options.flotilla, name, base))
        for threads in options.threads:
            add(str(threads), rate(options.flotilla, name, threads))
        if options.busy:
            with busy_loops(options.busy):
                add("busy", rate(options.flotilla, name, max(options.threads)))
    show("")
    return rates


def over(rates, key, base="before"):
    return [a / b for a, b in zip(rates[key], rates[base])]


def print_rates(name, rates, options):
    base = WORK[name][2]
    build = "the build before" if options.before else "this build"
    print(f"{name}: {statistics.median(rates['before']) / 1e3:,.1f} k/s by {base} thread{'s' * (base > 1)} of {build}")
    for threads in options.threads:
        ratios = over(rates, str(threads))
        print(f"  {threads:>3} threads {statistics.median(rates[str(threads)]) / 1e3:12,.1f} k/s   "
              f"{statistics.median(ratios):5.2f}x ({min(ratios):.1f} to {max(ratios):.1f})")
    if "busy" in rates:
        kept = statistics.median(over(rates, "busy", str(max(options.threads))))
        print(f"  with {options.busy} busy loops beside: {kept:.2f} of that")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flotilla", default=str(ROOT / "flotilla"), help="program to measure")
    parser.add_argument("--before", help="program whose one thread the others are compared with")
    parser.add_argument("--threads", default=str(os.cpu_count()), type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--busy", type=int, default=0, help="busy loops beside the most threads")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--work", help="measure alone what has this in its name")
    parser.add_argument("--json", metavar="FILE", help="write all rates there")
    options = parser.parse_args()
    found = {}
    for name in WORK:
        if options.work and options.work not in name:
            continue
        found[name] = measure(options, name)
        print_rates(name, found[name], options)
    if options.json:
        write_rates(options.json, found)


if __name__ == "__main__":
    main()

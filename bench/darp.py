#!/usr/bin/env python3
"""`dvrp solve` on standard dial-a-ride instances, beside their optima.

    python3 bench/darp.py --seconds 10                     # those of tests/golden/darp
    python3 bench/darp.py --folder DIR --only a8- --json results.json

Every list of routes is judged here, too, by rules written anew: a difference of times for each, and Bellman and Ford. Status
1 where routes break a rule.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOLERANCE = 1e-6


def read_instance(path):
    """Vehicles, seats, limits and stops of a file by Cordeau; the depot at the end is `back`."""
    rows = [[float(word) for word in line.split()] for line in path.read_text().splitlines() if line.strip()]
    (vehicles, _, route_limit, seats, ride_limit), stops = rows[0], rows[1:]
    back = stops.pop() if len(stops) % 2 == 0 else stops[0]
    return {"vehicles": vehicles, "route_limit": route_limit, "seats": seats, "ride_limit": ride_limit, "stops": stops,
            "back": back, "requests": (len(stops) - 1) // 2}


def distance(a, b):
    return math.hypot(a[1] - b[1], a[2] - b[2])


def has_times(instance, route):
    """Whether some times keep all windows and limits of one route."""
    stops, n = instance["stops"], instance["requests"]
    path = [stops[0], *(stops[i] for i in route), instance["back"]]
    last, zero = len(path) - 1, len(path)
    rules = [(last, 0, -instance["route_limit"])]  # (sooner, later, least difference)
    for i, stop in enumerate(path):
        rules += [(zero, i, stop[5]), (i, zero, -stop[6])]
        if i > 0:
            rules.append((i - 1, i, path[i - 1][3] + distance(path[i - 1], stop)))
    for i, stop in enumerate(route, start=1):
        if stop > n:
            pickup = route.index(stop - n) + 1
            rules.append((i, pickup, -instance["ride_limit"] - stops[stop - n][3]))
    time = [0.0] * (zero + 1)
    for _ in range(zero + 2):
        changed = False
        for sooner, later, least in rules:
            if time[sooner] + least > time[later] + TOLERANCE:
                time[later] = time[sooner] + least
                changed = True
        if not changed:
            return True
    return False


def fault_of(instance, routes):
    """What is wrong with the routes, or an empty text."""
    n, stops = instance["requests"], instance["stops"]
    if len(routes) > instance["vehicles"]:
        return "too many vehicles"
    if sorted(stop for route in routes for stop in route) != list(range(1, 2 * n + 1)):
        return "not every stop is served once"
    for number, route in enumerate(routes, start=1):
        load = 0
        for i, stop in enumerate(route):
            load += stops[stop][4]
            if load > instance["seats"]:
                return f"route {number} is overloaded"
            if stop > n and stop - n not in route[:i]:
                return f"route {number}: stop {stop} comes before its pickup"
        if not has_times(instance, route):
            return f"route {number} keeps not all windows and limits"
    return ""


def length_of(instance, routes):
    stops = instance["stops"]
    total = 0
    for route in routes:
        path = [stops[0], *(stops[i] for i in route), stops[0]]
        total += sum(distance(a, b) for a, b in zip(path, path[1:]))
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/flotilla"))
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "tests/golden/darp")
    parser.add_argument("--only", default="", help="names that begin so")
    parser.add_argument("--seconds", default="10")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--json", type=pathlib.Path, help="file for the results")
    options = parser.parse_args()
    optima = json.loads((options.folder / "optima.json").read_text())
    results = []
    for name, optimum in optima.items():
        if not name.startswith(options.only):
            continue
        path = options.folder / f"{name}.txt"
        done = subprocess.run([options.binary, "dvrp", "solve", path, "--seconds", options.seconds, "--seed", options.seed,
                               "--json"], stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        instance = read_instance(path)
        fault = fault_of(instance, found["routes"])
        if not fault and abs(length_of(instance, found["routes"]) - found["cost"]) > 1e-6:
            fault = "another distance"
        gap = 100 * (found["cost"] / optimum - 1)
        results.append({"name": name, "cost": found["cost"], "optimum": optimum, "gap_pct": gap, "fault": fault,
                        "iterations": found["iterations"]})
        print(f"{name:6} {found['cost']:9.2f} {optimum:9.2f} {gap:6.2f} % {found['iterations']:8} {fault}", flush=True)
    gaps = [result["gap_pct"] for result in results]
    print(f"mean {sum(gaps) / len(gaps):.2f} %, worst {max(gaps):.2f} %")
    if options.json:
        options.json.write_text(json.dumps({"seconds": options.seconds, "seed": options.seed, "results": results}, indent=1) + "\n")
    sys.exit(any(result["fault"] for result in results))


if __name__ == "__main__":
    main()

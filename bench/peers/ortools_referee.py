#!/usr/bin/env python3
"""Routes dial-a-ride instances with OR-Tools, under the rules of `flotilla dvrp check`.

Reads instances as `flotilla dvrp instance --full` prints them, one per line, and prints one JSON
object per instance: the least cost of all seeds in minutes, its routes in the same numbers of
nodes, and the cost of each seed. OR-Tools computes in whole seconds, of which the travel times are
whole, so nothing is lost. Every result goes through `flotilla dvrp check`.
Exit status: 0 solved, 1 a result broke a rule, 2 something is missing or failed.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile

DAY_S = 24 * 3600
RELEASE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "release", "flotilla")
ROUNDING = 1e-6  # of windows in minutes, which are seldom whole in binary


def die(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def whole_seconds(window):
    """The seconds within a window of minutes."""
    early, late = window
    return math.ceil(60 * early - ROUNDING), math.floor(60 * late + ROUNDING)


def longest_ride(instance, pickup):
    """Whole seconds that a traveller may be on board, or None where nothing limits them."""
    limits = []
    if "max_ride" in instance:
        limits.append(60 * instance["max_ride"])
    if "max_excess" in instance:
        limits.append(instance["seconds"][pickup][pickup + 1] + 60 * instance["max_excess"])
    return math.floor(min(limits) + ROUNDING) if limits else None


def shortest_ways(instance):
    nodes = range(len(instance["windows"]))
    way = [row[:] for row in instance["seconds"]]
    for k in nodes:
        for i in nodes:
            for j in nodes:
                way[i][j] = min(way[i][j], way[i][k] + way[k][j])
    return way


def tightened(instance, way):
    """Windows in seconds, without times that shortest ways and ride limits rule out.

    They follow from the rules, so no routes are lost. OR-Tools' filters see windows, but no limits of rides: without this it
    needs many times as long where windows are wide.
    """
    windows = [list(whole_seconds(window)) for window in instance["windows"]]
    for p in range(1, len(windows), 2):
        pickup, dropoff, longest = windows[p], windows[p + 1], longest_ride(instance, p)
        pickup[1] = min(pickup[1], dropoff[1] - way[p][p + 1])
        dropoff[0] = max(dropoff[0], pickup[0] + way[p][p + 1])
        if longest is not None:
            pickup[0] = max(pickup[0], dropoff[0] - longest)
            dropoff[1] = min(dropoff[1], pickup[1] + longest)
    return windows


def impossible(instance, windows, way, a, b):
    """Whether no vehicle can go from stop a to stop b at once."""
    arrives = max(windows[a][0] + instance["seconds"][a][b], windows[b][0])
    if arrives > windows[b][1] or (a % 2 == 0 and b == a - 1):
        return True
    if a % 2 == 0 or b == a + 1:
        return False
    there = arrives + way[b][a + 1]  # for whoever got on at a is on board at b
    longest = longest_ride(instance, a)
    return there > windows[a + 1][1] or (longest is not None and there - windows[a][1] > longest)


def solve(instance, seconds, seed):
    """(seconds of travel, routes), or None where OR-Tools finds no routes.

    Its local search has no seed of its own that matters: the seed is the order of the requests, and how the first routes are made.
    """
    from ortools.constraint_solver import pywrapcp, routing_enums_pb2

    ways = shortest_ways(instance)
    windows = tightened(instance, ways)
    requests = len(instance["windows"]) // 2
    order = list(range(requests))
    if seed > 0:  # the first one takes them as they come
        random.Random(seed).shuffle(order)
    nodes = [0] + [node for k in order for node in (2 * k + 1, 2 * k + 2)]
    travel = [[instance["seconds"][i][j] for j in nodes] for i in nodes]

    manager = pywrapcp.RoutingIndexManager(len(nodes), requests, 0)  # a vehicle for each request
    model = pywrapcp.RoutingModel(manager)
    way = model.RegisterTransitMatrix(travel)
    model.SetArcCostEvaluatorOfAllVehicles(way)
    model.AddDimension(way, DAY_S, DAY_S, False, "time")  # waiting is free
    demand = model.RegisterUnaryTransitVector([0] + [1, -1] * requests)
    model.AddDimension(demand, 0, instance["capacity"], True, "load")
    time = model.GetDimensionOrDie("time")
    for place, node in enumerate(nodes[1:], 1):
        time.CumulVar(manager.NodeToIndex(place)).SetRange(*windows[node])
        for later, other in enumerate(nodes[1:], 1):
            if place != later and impossible(instance, windows, ways, node, other):
                model.NextVar(manager.NodeToIndex(place)).RemoveValue(manager.NodeToIndex(later))
    for vehicle in range(requests):
        time.CumulVar(model.End(vehicle)).SetRange(*windows[0])
    solver = model.solver()
    for place in range(1, len(nodes), 2):
        pickup, dropoff = manager.NodeToIndex(place), manager.NodeToIndex(place + 1)
        model.AddPickupAndDelivery(pickup, dropoff)
        solver.Add(model.VehicleVar(pickup) == model.VehicleVar(dropoff))
        solver.Add(time.CumulVar(pickup) + ways[nodes[place]][nodes[place] + 1] <= time.CumulVar(dropoff))
        longest = longest_ride(instance, nodes[place])
        if longest is not None:
            solver.Add(time.CumulVar(dropoff) - time.CumulVar(pickup) <= longest)

    search = pywrapcp.DefaultRoutingSearchParameters()
    first = routing_enums_pb2.FirstSolutionStrategy
    search.first_solution_strategy = (first.PARALLEL_CHEAPEST_INSERTION, first.LOCAL_CHEAPEST_INSERTION,
                                      first.SEQUENTIAL_CHEAPEST_INSERTION)[seed % 3]
    search.local_search_metaheuristic = (
        routing_enums_pb2.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH)
    search.time_limit.FromMilliseconds(round(1000 * seconds))
    solver.ReSeed(seed)
    solution = model.SolveWithParameters(search)
    if solution is None:
        return None
    routes = []
    for vehicle in range(requests):
        route, index = [], solution.Value(model.NextVar(model.Start(vehicle)))
        while not model.IsEnd(index):
            route.append(nodes[manager.IndexToNode(index)])
            index = solution.Value(model.NextVar(index))
        if route:
            routes.append(route)
    return solution.ObjectiveValue(), routes


def check(flotilla, data, instance, routes):
    """What our checker says of routes: its JSON object."""
    with tempfile.TemporaryDirectory(prefix="ortools-referee-") as folder:
        files = [os.path.join(folder, name) for name in ("instance.json", "routes.json")]
        for path, content in zip(files, (instance, {"routes": routes})):
            with open(path, "w", encoding="utf-8") as file:
                json.dump(content, file)
        command = [flotilla, "dvrp", "check", *files, "--json", *(["--data", data] if data else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60)
    if done.returncode not in (0, 1):
        die(f"exit status {done.returncode} from: {' '.join(command)}")
    return json.loads(done.stdout)


def referee(instance, options):
    """The best of all seeds, as the object that is printed; None: none found routes."""
    found = [solve(instance, options.seconds, seed) for seed in
             range(options.first_seed, options.first_seed + options.seeds)]
    costs = [each and each[0] / 60 for each in found]
    if not any(found):
        return None
    travel, routes = min(each for each in found if each)
    return {"cost": travel / 60, "vehicles": len(routes), "seeds": costs, "routes": routes}


def instances_in(file):
    lines = [line for line in file if line.strip()]
    try:
        instances = [json.loads(line) for line in lines]
    except ValueError as error:
        die(f"expected one JSON object per line: {error}")
    for number, instance in enumerate(instances, 1):
        missing = [key for key in ("capacity", "windows", "seconds") if key not in instance]
        if missing:
            die(f"instance {number} has no {' and no '.join(missing)}: print it with "
                "`flotilla dvrp instance --full`")
    return instances


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=argparse.FileType(encoding="utf-8"),
                        help="instances, one per line; - reads stdin")
    parser.add_argument("--seconds", type=float, default=5, help="of each seed (default 5)")
    parser.add_argument("--seeds", type=int, default=3, help="the best of how many (default 3)")
    parser.add_argument("--first-seed", type=int, default=0, help="of those (default 0)")
    parser.add_argument("--flotilla", default=RELEASE,
                        help="the program that checks the routes (default: the release build)")
    parser.add_argument("--data", help="directory of the tables the instances were drawn from")
    options = parser.parse_args()
    if options.seconds <= 0 or options.seeds <= 0:
        parser.error("--seconds and --seeds are positive")
    try:
        import ortools.constraint_solver.pywrapcp  # noqa: F401: only whether it is there
    except ImportError:
        die(f"ortools is not installed: {sys.executable} -m pip install ortools")
    status = 0
    for number, instance in enumerate(instances_in(options.file), 1):
        result = referee(instance, options)
        if result is None:
            die(f"instance {number}: OR-Tools finds no routes in {options.seconds:g} s")
        verdict = check(options.flotilla, options.data, instance, result["routes"])
        if not verdict["ok"]:
            print(f"instance {number}: {verdict['fault']}", file=sys.stderr)
            status = 1
        elif abs(verdict["cost"] - result["cost"]) > 1e-3:
            print(f"instance {number}: OR-Tools says {result['cost']} minutes, the checker "
                  f"{verdict['cost']}", file=sys.stderr)
            status = 1
        print(json.dumps(result), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())

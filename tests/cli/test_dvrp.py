#!/usr/bin/env python3
"""Black-box tests of `flotilla dvrp`.

    test_dvrp.py --binary build/release/flotilla [unittest arguments]
"""

import argparse
import csv
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from xml.etree import ElementTree

BINARY = None
TIMEOUT_S = 60
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "bench/peers"))
import darp  # noqa: E402  an independent judge of standard instances
import ortools_referee  # noqa: E402


class DvrpTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="flotilla-dvrp-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def call(self, *arguments, status=0):
        command = [BINARY, "dvrp", *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                              timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, status,
                         f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done

    def json_of(self, *arguments, status=0):
        return json.loads(self.call(*arguments, "--json", status=status).stdout)

    def refused(self, *arguments, status=4):
        """The one line that says why."""
        done = self.call(*arguments, status=status)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0].removeprefix("flotilla: ")

    def write(self, name, content):
        (self.folder / name).write_text(content if isinstance(content, str)
                                        else json.dumps(content))
        return name


class Instances(DvrpTest):
    def test_customers_are_as_many_as_there_are_travellers(self):
        self.call("data", "--travellers", 3, "--cells", 5, "--out", "city")
        self.assertEqual(self.refused("instance", "--data", "city", "--customers", 4, status=2),
                         "--customers 4: there are 3 travellers")
        self.assertIn("--customers", self.refused("instance", "--customers", 0, status=2))
        drawn = json.loads(self.call("instance", "--data", "city", "--customers", 3).stdout)
        self.assertEqual(len(drawn["requests"]), 3)

    def test_those_of_another_city_are_refused_by_name(self):
        names = []
        for seed, folder in ((1, "one"), (2, "two")):
            self.call("data", "--travellers", 3, "--cells", 5, "--seed", seed, "--out", folder)
            names.append(self.json_of("inspect", folder)["city"])
        self.assertNotEqual(*names)
        self.call("instance", "--data", "one", "--customers", 3, "--out", "drawn.json")
        self.call("solve", "drawn.json", "--data", "one", "--iterations", 10)
        self.assertEqual(self.refused("solve", "drawn.json", "--data", "two"),
                         f"drawn.json: is of city '{names[0]}', the data is of city '{names[1]}' "
                         "(`dvrp inspect` names it)")
        old = json.loads((self.folder / "drawn.json").read_text())
        del old["city"]
        for request in old["requests"]:
            del request["from"], request["to"]
        self.write("old.json", old)
        self.call("solve", "old.json", "--data", "one", "--iterations", 10)

    def test_they_take_the_place_of_instances_only(self):
        draw = ("instance", "--customers", 3, "--out")
        for name in ("three.json", "four.json"):
            self.write(name, "")
            self.call(*draw, name)
            self.call(*draw, name, "--seed", 1)
        self.assertNotEqual(json.loads((self.folder / "four.json").read_text())["requests"], [])
        self.write("routes.json", {"routes": [[1, 2]]})
        self.write("table.csv", "a,b\n")
        for name in ("routes.json", "table.csv"):
            before = (self.folder / name).read_bytes()
            self.assertEqual(self.refused(*draw, name, status=2),
                             f"'{name}' is there already and no instance; give another name")
            self.assertEqual((self.folder / name).read_bytes(), before)

    def test_full_ones_are_the_same_requests(self):
        plain = json.loads(self.call("instance", "--customers", 6, "--seed", 4).stdout)
        text = self.call("instance", "--customers", 6, "--seed", 4, "--full").stdout
        self.assertEqual(text.count("\n"), 1)
        full = json.loads(text)
        self.assertEqual(full["requests"], plain["requests"])
        self.assertEqual([len(row) for row in full["seconds"]], [13] * 13)
        self.assertEqual(full["windows"][2], full["requests"][0]["dropoff"])
        self.write("full.json", full)
        self.write("plain.json", plain)
        costs = [self.json_of("solve", name, "--iterations", 50)["cost"]
                 for name in ("full.json", "plain.json")]
        self.assertEqual(*costs)

    def test_windows_on_seconds(self):
        """Who must be fetched and brought within one second, with and without limits of rides."""
        self.call("instance", "--customers", 1, "--seed", 3, "--full", "--out", "one.json")
        one = json.loads((self.folder / "one.json").read_text())
        way = one["seconds"][1][2]
        self.write("routes.json", {"routes": [[1, 2]]})
        for limits in ({}, {"max_excess": 0.001}):
            for begin in range(30000, 30040):
                one["requests"][0].update(pickup=[begin / 60] * 2, dropoff=[(begin + way) / 60] * 2)
                self.write("one.json", {**one, **limits})
                self.assertAlmostEqual(self.json_of("solve", "one.json", "--iterations", 0)["cost"],
                                       self.json_of("check", "one.json", "routes.json")["cost"])
        one["requests"][0].update(dropoff=[(begin + way - 1) / 60] * 2)
        self.write("one.json", one)
        self.assertEqual(self.refused("solve", "one.json"), "one.json: cannot be served, even alone: request 1")
        self.assertFalse(self.json_of("check", "one.json", "routes.json", status=1)["ok"])

    def test_requests_that_cannot_be_served_are_named(self):
        self.call("instance", "--customers", 4, "--out", "four.json")
        instance = json.loads((self.folder / "four.json").read_text())
        for request in instance["requests"][1:3]:
            request["pickup"] = [0, 0.5]
        self.write("four.json", instance)
        self.assertEqual(self.refused("solve", "four.json"),
                         "four.json: cannot be served, even alone: requests 2, 3")


def large_problem(requests):
    """A file in Cordeau's format whose requests have the day for it, with many vehicles."""
    draw = random.Random(requests)
    places = [(0, 0), *((draw.uniform(-10, 10), draw.uniform(-10, 10)) for _ in range(2 * requests))]
    early = [draw.randrange(60, 1200) for _ in range(requests)]
    lines = [f"100 {2 * requests} 1440 6 90"]
    for stop, (x, y) in enumerate(places):
        load = 0 if stop == 0 else 1 if stop <= requests else -1
        window = (0, 1440) if load < 1 else (early[stop - 1], early[stop - 1] + 120)
        lines.append(f"{stop} {x:.3f} {y:.3f} 0 {load} {window[0]} {window[1]}")
    return "\n".join(lines) + "\n"


class Interrupts(DvrpTest):
    """Ctrl-C where the own solver is at work, which may have hours to do."""

    def interrupted(self, *arguments):
        command = [BINARY, "dvrp", *map(str, arguments)]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            deadline = time.monotonic() + TIMEOUT_S
            while not self.listens(process.pid) and time.monotonic() < deadline:
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual((process.returncode, out, errors), (130, "", "flotilla: interrupted\n"), arguments)

    def listens(self, pid):
        """Whether the program has a handler for it by now."""
        status = Path(f"/proc/{pid}/status").read_text()
        caught = int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16)
        return caught & 1 << (signal.SIGINT - 1)

    def test_the_search_for_routes_ends_at_once(self):
        self.call("instance", "--customers", 30, "--out", "day.json")
        for arguments in (("solve", "day.json", "--seconds", 3600), ("solve", "day.json", "--iterations", 10**9),
                          ("show", "day.json", "--seconds", 3600, "--out", "day.svg")):
            self.interrupted(*arguments)
        self.assertFalse((self.folder / "day.svg").exists())

    def test_the_first_routes_of_a_large_problem_end_at_once(self):
        self.write("large.txt", large_problem(1000))
        self.interrupted("solve", "large.txt", "--seconds", 3600)

    def test_first_routes_that_take_longer_than_there_is_time_are_made_and_named(self):
        self.write("large.txt", large_problem(200))
        done = self.call("solve", "large.txt", "--seconds", 0.001, "--json")
        self.assertEqual(json.loads(done.stdout)["iterations"], 0)
        self.assertEqual(done.stderr, "the first routes alone took longer than 0.001 s: nothing was searched\n")


class Standard(DvrpTest):
    """Instances of the literature, by Cordeau and by Li and Lim."""

    INSTANCES = ROOT / "tests/golden/darp"

    def test_routes_pass_both_checkers_and_are_near_the_optimum(self):
        optima = json.loads((self.INSTANCES / "optima.json").read_text())
        for name, iterations, most in (("a2-16", 5000, 1.01), ("a3-18", 5000, 1.01), ("a4-48", 5000, 1.03)):
            with self.subTest(name=name):
                path = self.INSTANCES / f"{name}.txt"
                found = self.json_of("solve", path, "--iterations", iterations)
                instance = darp.read_instance(path)
                self.assertEqual(darp.fault_of(instance, found["routes"]), "")
                self.assertAlmostEqual(darp.length_of(instance, found["routes"]), found["cost"], places=6)
                self.assertLess(found["cost"], optima[name] * most)
                self.assertGreater(found["cost"], optima[name] - 0.01)
                self.assertEqual((found["unserved"], found["vehicles"]), ([], len(found["routes"])))
                self.write("routes.json", found)
                verdict = self.json_of("check", path, "routes.json")
                self.assertEqual((verdict["ok"], verdict["vehicles"]), (True, found["vehicles"]))
                self.assertAlmostEqual(verdict["cost"], found["cost"], places=6)
                self.write("routes.json", {"routes": [[], *found["routes"], []]})
                self.assertEqual(self.json_of("check", path, "routes.json")["vehicles"], found["vehicles"])
                self.assertIn(f"in {found['vehicles']} vehicles, ",
                              self.call("check", path, "routes.json").stdout)

    def test_times_keep_the_rules(self):
        path = self.INSTANCES / "a2-24.txt"
        found = self.json_of("solve", path, "--iterations", 200)
        instance = darp.read_instance(path)
        for route, times in zip(found["routes"], found["times"]):
            self.assertEqual(len(times), len(route) + 2)
            self.assertLessEqual(times[-1] - times[0], instance["route_limit"] + 1e-6)
            for stop, time_at in zip(route, times[1:]):
                early, late = instance["stops"][stop][5:7]
                self.assertTrue(early - 1e-6 <= time_at <= late + 1e-6)
                if stop > instance["requests"]:
                    pickup = stop - instance["requests"]
                    ride = time_at - times[route.index(pickup) + 1] - instance["stops"][pickup][3]
                    self.assertLessEqual(ride, instance["ride_limit"] + 1e-6)

    def test_wrong_routes_are_named(self):
        path = self.INSTANCES / "a2-16.txt"
        found = self.json_of("solve", path, "--iterations", 50)
        routes = found["routes"]
        self.write("less.json", {"routes": routes[1:]})
        self.assertRegex(self.json_of("check", path, "less.json", status=1)["fault"], r"^stop \d+ is not served$")
        self.write("other.json", {"routes": [[99]]})
        self.assertEqual(self.refused("check", path, "other.json"), "other.json, route 1: there is no stop 99")
        self.write("long.json", {"routes": [[stop for route in routes for stop in route]]})
        self.assertEqual(self.call("check", path, "long.json", status=1).stdout,
                         "fault: route 1: no times keep all windows and limits\n")

    def test_those_without_a_place_are_named(self):
        lines = (self.INSTANCES / "a2-16.txt").read_text().splitlines()
        self.write("one.txt", "\n".join(["1 32 480 3 30", *lines[1:]]) + "\n")
        found = self.json_of("solve", "one.txt", "--iterations", 20, status=1)
        self.assertEqual(found["vehicles"], 1)
        self.assertTrue(found["unserved"])
        text = self.call("solve", "one.txt", "--iterations", 20, status=1).stdout
        self.assertIn("without a place: pickups " + ", ".join(map(str, found["unserved"])), text)

    def test_of_li_and_lim(self):
        self.write("lc.txt", "3\t20\t1\n0 0 0 0 0 100 0 0 0\n1 0 10 5 0 50 1 0 3\n2 10 0 5 0 50 1 0 4\n"
                             "3 0 20 -5 0 90 1 1 0\n4 20 0 -5 0 90 1 2 0\n")
        found = self.json_of("solve", "lc.txt", "--iterations", 50)
        self.assertEqual(found["vehicles"], 1)
        self.assertEqual(sorted(sum(found["routes"], [])), [1, 2, 3, 4])

    def test_the_count_of_the_first_line_is_that_of_the_stops(self):
        head, *stops = (self.INSTANCES / "a2-16.txt").read_text().splitlines()
        self.assertEqual((head, len(stops)), ("2 32 480 3 30", 33))
        for count in (32, 16, 33):
            self.write("counted.txt", "\n".join([f"2 {count} 480 3 30", *stops]) + "\n")
            self.call("solve", "counted.txt", "--iterations", 0)
        for count in (99, 0, -3, 31, 16.5):
            self.write("counted.txt", "\n".join([f"2 {count} 480 3 30", *stops]) + "\n")
            self.assertEqual(self.refused("solve", "counted.txt"),
                             f"counted.txt, line 1: expected 16 requests or 32 stops, as there are, got {count}")

    def test_bad_files(self):
        self.write("bad.txt", "2 32 480 3 30\n0 0 0\n")
        self.assertEqual(self.refused("solve", "bad.txt"), "bad.txt, line 2: expected 7 numbers, got 3")
        self.assertEqual(self.refused("solve", self.INSTANCES / "a2-16.txt", "--data", "city", status=2),
                         "--data: a standard instance has distances of its own")


class Check(DvrpTest):
    def setUp(self):
        super().setUp()
        self.call("instance", "--customers", 8, "--seed", 2, "--full", "--out", "eight.json")
        self.solved = self.json_of("solve", "eight.json", "--iterations", 200)

    def test_routes_of_the_solver_pass(self):
        self.write("routes.json", self.solved)
        verdict = self.json_of("check", "eight.json", "routes.json")
        self.assertEqual(verdict, {"ok": True, "cost": self.solved["cost"],
                                   "vehicles": self.solved["vehicles"]})
        self.assertEqual(self.call("check", "eight.json", "routes.json").stdout,
                         f"ok: 8 requests in {self.solved['vehicles']} vehicles, "
                         f"{self.solved['cost']:.2f} minutes\n")

    def test_vehicles_that_serve_nobody_are_not_counted(self):
        vehicles = self.solved["vehicles"]
        self.write("routes.json", {"routes": [[], *self.solved["routes"], [], []]})
        self.assertEqual(self.json_of("check", "eight.json", "routes.json")["vehicles"], vehicles)
        self.assertIn(f"in {vehicles} vehicles,", self.call("check", "eight.json", "routes.json").stdout)

    def test_the_cost_is_the_sum_of_the_ways(self):
        seconds = json.loads((self.folder / "eight.json").read_text())["seconds"]
        total = 0
        for route in self.solved["routes"]:
            stops = [0, *route, 0]
            total += sum(seconds[i][j] for i, j in zip(stops, stops[1:]))
        self.assertAlmostEqual(self.solved["cost"], total / 60, places=3)

    def test_a_fault_is_named_and_is_status_1(self):
        first = self.solved["routes"][0]
        self.write("routes.json", {"routes": self.solved["routes"][1:]})
        fault = self.json_of("check", "eight.json", "routes.json", status=1)
        self.assertFalse(fault["ok"])
        self.assertRegex(fault["fault"], r"^request \d is not served$")
        self.write("routes.json", {"routes": [first[::-1], *self.solved["routes"][1:]]})
        self.assertRegex(self.call("check", "eight.json", "routes.json", status=1).stdout,
                         r"^fault: route 1: ")
        self.write("routes.json", {"routes": [[99]]})
        self.assertEqual(self.json_of("check", "eight.json", "routes.json", status=1),
                         {"ok": False, "fault": "route 1: there is no node 99"})

    def test_files_that_are_no_routes(self):
        self.write("routes.json", "[1, 2")
        self.assertEqual(self.refused("check", "eight.json", "routes.json"),
                         "routes.json: is not JSON")
        self.write("routes.json", {"routes": [["1"]]})
        self.assertEqual(self.refused("check", "eight.json", "routes.json"),
                         "routes.json: route 1: expected a list of nodes")
        self.assertIn("none.json", self.refused("check", "eight.json", "none.json"))


class Limits(DvrpTest):
    """Rides that may take only so long."""

    def excesses(self, instance, solved):
        """Minutes beyond the direct way by request, with the printed times checked on the way."""
        excess = {}
        for route, times in zip(solved["routes"], solved["times"]):
            stops = [0, *route, 0]
            self.assertEqual(len(times), len(stops))
            for before, stop, left, served in zip(stops, stops[1:], times, times[1:]):
                early, late = instance["windows"][stop]
                self.assertTrue(early - 1e-6 <= served <= late + 1e-6)
                self.assertGreaterEqual(served, left + instance["seconds"][before][stop] / 60 - 1e-6)
            for node in route:
                if node % 2 == 0:
                    ride = times[stops.index(node)] - times[stops.index(node - 1)]
                    excess[node] = ride - instance["seconds"][node - 1][node] / 60
        return excess

    def test_routes_keep_them_and_others_are_refused(self):
        drawn = ("instance", "--customers", 25, "--seed", 4, "--full")
        self.call(*drawn, "--out", "free.json")
        self.call(*drawn, "--max-excess", 8, "--out", "limited.json")
        free, limited = (json.loads((self.folder / f"{name}.json").read_text())
                         for name in ("free", "limited"))
        self.assertEqual(limited, {**free, "max_excess": 8})
        loose = self.json_of("solve", "free.json", "--iterations", 300)
        tight = self.json_of("solve", "limited.json", "--iterations", 300)
        self.assertNotIn("times", loose)
        self.assertGreater(tight["cost"], loose["cost"])
        excess = self.excesses(limited, tight)
        self.assertEqual(len(excess), 25)
        self.assertLessEqual(max(excess.values()), 8 + 1e-6)
        # An option stands for what the file says.
        self.assertEqual(self.json_of("solve", "free.json", "--iterations", 300, "--max-excess", 8),
                         tight)
        self.assertEqual(self.json_of("solve", "limited.json", "--iterations", 300, "--max-excess", 0),
                         loose)
        self.write("loose.json", loose)
        self.write("tight.json", tight)
        self.assertTrue(self.json_of("check", "limited.json", "tight.json")["ok"])
        self.assertTrue(self.json_of("check", "limited.json", "loose.json", "--max-excess", 0)["ok"])
        self.assertRegex(self.json_of("check", "limited.json", "loose.json", status=1)["fault"],
                         r"^route \d+: (request \d+ is on board for more than [\d.]+ minutes|no times)")
        self.call("show", "limited.json", "--routes", "tight.json", "--out", "tight.svg")
        self.assertIn("breaks a rule", self.refused("show", "limited.json", "--routes", "loose.json",
                                                    "--out", "loose.svg"))

    def test_those_that_nobody_can_keep_are_refused_by_name(self):
        self.call("instance", "--customers", 6, "--seed", 4, "--full", "--out", "six.json")
        instance = json.loads((self.folder / "six.json").read_text())
        direct = [instance["seconds"][2 * k + 1][2 * k + 2] / 60 for k in range(6)]
        longest = max(range(6), key=direct.__getitem__)
        self.assertEqual(self.refused("solve", "six.json", "--max-ride", direct[longest] - 0.01),
                         f"six.json: cannot be served, even alone: request {longest + 1}")
        self.assertIn("--max-ride", self.refused("solve", "six.json", "--max-ride", -1, status=2))
        standard = ROOT / "tests/golden/darp/a2-16.txt"
        self.assertEqual(self.refused("solve", standard, "--max-excess", 9, status=2),
                         "--max-ride and --max-excess: a standard instance has limits of its own")
        done = subprocess.run([BINARY, "train", "dvrp", "--out", "run", "env.max_ride=10"],
                              cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("max_ride, max_excess: expected limits that every trip can keep alone",
                      done.stderr)

    def test_the_other_referee_is_told(self):
        self.call("instance", "--customers", 4, "--full", "--max-ride", 40, "--max-excess", 9.5,
                  "--out", "four.json")
        instance = json.loads((self.folder / "four.json").read_text())
        for pickup in (1, 3, 5, 7):
            direct = instance["seconds"][pickup][pickup + 1]
            self.assertEqual(ortools_referee.longest_ride(instance, pickup),
                             min(2400, direct + 570))
        del instance["max_ride"], instance["max_excess"]
        self.assertIsNone(ortools_referee.longest_ride(instance, 1))

    def test_negotiations_are_judged_and_compared_under_them(self):
        small = ("--customers", "8", "--num-envs", "16", "horizon=8", "ppo.minibatch_size=64",
                 "net.hidden=16", "advice.every=2", "eval.episodes=4", "--epochs", "2")
        for name, settings in (("free", ()), ("dear", ("env.max_excess=10", "env.kappa=0.5")),
                               ("cheap", ("env.max_excess=10",))):
            subprocess.run([BINARY, "train", "dvrp", "--out", name, *small, *settings], check=True,
                           cwd=self.folder, capture_output=True, timeout=TIMEOUT_S)
        budget = ("--instances", 8, "--iterations", 100, "--trim")
        judged = self.json_of("eval", "cheap", *budget)
        self.assertEqual((judged["max_ride"], judged["max_excess"]), (None, 10))
        by_day = self.json_of("eval", "cheap", *budget, "--by-day")["by_negotiator"]
        for name, each in by_day.items():
            days = each.pop("minutes_by_day")
            self.assertEqual(len(days), 8)
            self.assertAlmostEqual(sum(days) / 8, each["minutes"])
            self.assertEqual(each, judged["by_negotiator"][name])
        self.assertIn("--by-day requires --json", self.call("eval", "cheap", "--by-day", status=2).stderr)
        for each in judged["by_negotiator"].values():
            self.assertLessEqual(each["longest_excess_minutes"], 10 + 1e-6)
        pareto = self.json_of("pareto", "free", "dear", "cheap", *budget, "--out", "pareto.svg")
        self.assertEqual([each["max_excess"] for each in pareto["limits"]], [10, None])
        limited, free = (each["points"] for each in pareto["limits"])
        self.assertEqual([point["name"] for point in limited],
                         ["no_negotiation", "least_detour", "random_allowed", "trained", "trained",
                          "ceiling"])
        self.assertEqual([point.get("kappa") for point in limited[3:5]], [0.5, 0.002])
        cheap, alone = limited[4], judged["by_negotiator"]["trained"]
        for name in ("minutes", "saving_pct", "saving_ci95", "excess_minutes"):
            self.assertEqual(cheap[name], alone[name], name)
        self.assertAlmostEqual(cheap["asked_minutes"], 8 * alone["shifted_minutes"])
        self.assertAlmostEqual(cheap["saved_minutes"], judged["baseline"] - cheap["minutes"])
        self.assertLessEqual(limited[5]["minutes"], min(point["minutes"] for point in limited) + 1e-6)
        self.assertGreater(limited[0]["minutes"], free[0]["minutes"] - 1e-6)
        drawing = "".join(ElementTree.parse(self.folder / "pareto.svg").getroot().itertext())
        for text in ("10 min of excess", "no limit", "least detour", "trained"):
            self.assertIn(text, drawing)
        for runs in (("cheap",), ("cheap", "cheap")):  # of one price: one point, their mean
            self.call("pareto", *runs, "--instances", 4, "--iterations", 20, "--no-ceiling", "--out",
                      f"{len(runs)}.svg")
        self.assertEqual((self.folder / "1.svg").read_text(), (self.folder / "2.svg").read_text())
        table = self.call("pareto", "cheap", "--instances", 4, "--iterations", 20, "--no-ceiling")
        self.assertNotIn("S*", table.stdout)
        self.assertLessEqual(max(map(len, table.stdout.splitlines())), 80)
        for name, setting in (("wide", "env.shift=widen"), ("hard", "env.acceptance=hard")):
            subprocess.run([BINARY, "train", "dvrp", "--out", name, *small, setting], check=True,
                           cwd=self.folder, capture_output=True, timeout=TIMEOUT_S)
        both = self.json_of("pareto", "free", "wide", "--instances", 4, "--iterations", 20, "--no-ceiling")
        self.assertEqual([each["shift"] for each in both["limits"]], ["move", "widen"])
        self.assertIn("expected env.acceptance=table",
                      self.call("pareto", "cheap", "hard", status=2).stderr)
        for out, status, said in (("nowhere/x.svg", 4, "cannot write nowhere/x.svg: No such file or directory"),
                                  ("cheap/config.yaml", 2, "is there already and no .svg file"),
                                  ("cheap", 4, "cannot write cheap: Is a directory")):
            self.assertIn(said, self.refused("pareto", "cheap", "--instances", 100000, "--out", out,
                                             status=status))


MATRIX = "travel_time_matrix.csv"
TRIPS = "traveler_trip_types.csv"
DECISIONS = "traveler_decisions_augmented.csv"


class Tables(DvrpTest):
    """Tables with one thing wrong, as a user would make them."""

    def setUp(self):
        super().setUp()
        self.call("data", "--cells", 5, "--travellers", 3, "--seed", 2, "--out", "city")

    def table(self, name):
        with open(self.folder / "city" / name, newline="") as file:
            return list(csv.reader(file))

    def store(self, name, rows):
        with open(self.folder / "city" / name, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)

    def altered(self, name, row, column, value):
        """Writes a table with one cell changed; rows are counted from 1, behind the header."""
        rows = self.table(name)
        rows[row][rows[0].index(column)] = value
        self.store(name, rows)

    def inspected(self):
        done = self.call("inspect", "city", "--json")
        return json.loads(done.stdout), done.stderr

    def test_good_ones_are_read_without_a_word(self):
        facts, said = self.inspected()
        self.assertEqual(said, "")
        self.assertEqual((facts["cells"], facts["travellers"], facts["infeasible"]), (5, 3, 0))

    def test_a_missing_column(self):
        rows = self.table(TRIPS)
        gone = rows[0].index("arrival_time_window")
        self.store(TRIPS, [row[:gone] + row[gone + 1:] for row in rows])
        self.assertRegex(self.refused("inspect", "city"),
                         rf"^city/{TRIPS}: no column 'arrival_time_window'")

    def test_a_cell_that_is_no_number(self):
        self.altered(MATRIX, 2, "cell003", "12s")
        self.assertEqual(self.refused("inspect", "city"),
                         f"city/{MATRIX}: line 3, column 'cell003': '12s' is not an integer")

    def test_a_traveller_beyond_the_last_number(self):
        for number in (0, 100001):
            self.altered(TRIPS, 4, "traveler_id", str(number))
            self.assertEqual(self.refused("inspect", "city"),
                             f"city/{TRIPS}: line 5, column 'traveler_id': travellers are numbered from 1 to "
                             "100000")

    def test_minutes_that_are_no_number(self):
        self.altered(TRIPS, 4, "flexibility_pickup_earlier", "ten")
        self.assertEqual(self.refused("inspect", "city"),
                         f"city/{TRIPS}: line 5, column 'flexibility_pickup_earlier': 'ten' is not "
                         "an integer")

    def test_a_negative_travel_time(self):
        self.altered(MATRIX, 1, "cell002", "-300")
        self.assertEqual(self.refused("inspect", "city"),
                         f"city/{MATRIX}: line 2, column 'cell002': a negative travel time")

    def test_a_window_outside_of_the_day(self):
        for window in ("23:50-24:20", "09:30-09:00", "9:00-9:30"):
            self.altered(TRIPS, 7, "departure_time_window", window)
            self.assertEqual(self.refused("inspect", "city"),
                             f"city/{TRIPS}: line 8, column 'departure_time_window': expected a "
                             f"window of the day such as 07:30-08:00, got '{window}'")

    def test_a_decision_on_an_unknown_place(self):
        self.altered(DECISIONS, 20, "arrival_location", "the moon")
        self.assertEqual(self.refused("inspect", "city"),
                         f"city/{DECISIONS}: line 21, column 'arrival_location': the table of trips "
                         "has no such trip: 'the moon' is in none")

    def test_the_table_of_decisions_is_needed_only_for_answers_from_it(self):
        (self.folder / "city" / DECISIONS).unlink()
        _, said = self.inspected()
        self.assertIn("no table of decisions: where travellers answer, they do so by rule", said)
        measured = [BINARY, "bench", "env", "dvrp", "data=city", "customers=2",
                    "oracle.kind=insertion", "--num-envs", "2", "--seconds", "0.05"]
        for acceptance, status in (("table", 4), ("threshold", 0), ("hard", 0)):
            done = subprocess.run([*measured, f"acceptance={acceptance}"], cwd=self.folder,
                                  capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertEqual(done.returncode, status, done.stderr)
            if status:
                self.assertIn(DECISIONS, done.stderr)

    def test_a_trip_of_an_unknown_cell_is_left_out(self):
        before, _ = self.inspected()
        self.altered(TRIPS, 5, "origin_h3", "atlantis")
        self.altered(TRIPS, 9, "destination_h3", "atlantis")
        facts, said = self.inspected()
        self.assertEqual(facts["trips"], before["trips"] - 2)
        self.assertIn("rows=2", said)
        self.assertIn("first_line=6", said)

    def test_ways_longer_than_a_detour_are_counted(self):
        rows = self.table(MATRIX)
        way = int(rows[1][2])
        self.altered(MATRIX, 1, "cell001", str(way + 50_000))
        facts, said = self.inspected()
        self.assertGreater(facts["triangle_violations"], 0)
        self.assertIn(f"triples={facts['triangle_violations']}", said)
        self.assertRegex(said, r'by_at_most="(49|50)\d{3} s"')

    def test_trips_that_cannot_be_served_are_named_by_row(self):
        rows = self.table(TRIPS)
        first = dict(zip(rows[0], rows[3]))
        self.altered(TRIPS, 3, "departure_time_window", "00:00-00:30")
        for row, line in enumerate(self.table(DECISIONS)):
            told = dict(zip(self.table(DECISIONS)[0], line)) if row else {}
            if told and all(told[key] == first[key] for key in
                            ("traveler_id", "departure_time_window", "arrival_time_window",
                             "trip_purpose", "departure_location", "arrival_location")):
                self.altered(DECISIONS, row, "departure_time_window", "00:00-00:30")
        facts, said = self.inspected()
        self.assertEqual(facts["infeasible"], 1)
        self.assertIn("trip 3 in line 4", said)

    def test_they_may_be_gzipped(self):
        before, _ = self.inspected()
        for name in (MATRIX, TRIPS, DECISIONS):
            path = self.folder / "city" / name
            with gzip.open(f"{path}.gz", "wb") as packed:
                packed.write(path.read_bytes())
            path.unlink()
        self.assertEqual(self.inspected(), (before, ""))
        self.call("data", "--cells", 5, "--travellers", 3, "--seed", 2, "--out", "packed", "--gzip")
        self.assertEqual(sorted(path.name for path in (self.folder / "packed").iterdir()),
                         sorted([MATRIX, TRIPS, f"{DECISIONS}.gz"]))
        self.assertEqual(json.loads(self.call("inspect", "packed", "--json").stdout), before)


class Pictures(DvrpTest):
    def setUp(self):
        super().setUp()
        self.call("instance", "--customers", 8, "--seed", 2, "--out", "eight.json")

    def test_of_the_solver_or_of_a_file(self):
        (self.folder / "routes.json").write_text(self.call("solve", "eight.json", "--json").stdout)
        self.assertEqual(self.call("show", "eight.json", "--out", "a.svg").stdout, "a.svg\n")
        self.call("show", "eight.json", "--routes", "routes.json", "--out", "b.svg")
        svg = (self.folder / "a.svg").read_text()
        self.assertEqual(svg, (self.folder / "b.svg").read_text())
        ElementTree.fromstring(svg)
        self.assertEqual(svg.count("<title>request "), 8)

    def test_routes_that_break_a_rule_are_refused(self):
        self.write("routes.json", {"routes": [[1, 2]]})
        self.assertEqual(self.refused("show", "eight.json", "--routes", "routes.json", "--out",
                                      "a.svg"),
                         "routes.json: breaks a rule: request 2 is not served")
        self.assertFalse((self.folder / "a.svg").exists())

    def test_they_take_the_place_of_pictures_only(self):
        before = (self.folder / "eight.json").read_bytes()
        for out, status, said in (
                ("eight.json", 2, "'eight.json' is there already and no .svg file; give another name"),
                ("nowhere/a.svg", 4, "cannot write nowhere/a.svg: No such file or directory"), (".", 4, "cannot write .: Is a directory"),
                ("/dev/null", 4, "cannot write /dev/null: not a regular file")):
            # Before the work, which would take an hour.
            self.assertIn(said, self.refused("show", "eight.json", "--seconds", 3600, "--out", out,
                                             status=status))
        self.assertEqual((self.folder / "eight.json").read_bytes(), before)


class Oracle(DvrpTest):
    EXAM = ("--instances", 12, "--shifts", 40, "--shifted", 1, "--iterations", 800)
    SMALL = ("--batch", 4, "--teach-chunk", 8, "--teach-first", 1, "--teach-iterations", 20,
             "--validate-every", 2, "--validate", 4, "--customers", 6)

    def test_eval_grades_the_shipped_weights(self):
        grade = self.json_of("oracle", "eval", *self.EXAM)
        for requests in (10, 20, 30):
            self.assertLess(grade[f"gap_{requests}"], 4)
            self.assertLess(grade["greedy"][f"gap_{requests}"], 11)
            self.assertLess(grade[f"gap_{requests}"], grade["greedy"][f"gap_{requests}"])
        self.assertLess(grade["greedy"]["gap_30"], grade["insertion"]["gap_30"])
        self.assertGreater(grade["corr_across"], 0.95)
        self.assertGreater(grade["corr_within"], 0.6)
        self.assertGreater(grade["r0"], grade["corr_within"] - 0.1)
        self.assertGreater(grade["samples_per_s"], 10)
        again = self.json_of("oracle", "eval", *self.EXAM, "--threads", 1)
        for key in ("gap_10", "gap_20", "gap_30", "corr_across", "corr_within", "r0"):
            self.assertEqual(grade[key], again[key], key)

    def test_a_table_without_shifts(self):
        lines = self.call("oracle", "eval", "--instances", 3, "--shifted", 0, "--iterations", 50)
        names = [line[:34].strip() for line in lines.stdout.splitlines()[1:]]
        self.assertEqual(lines.stdout.splitlines()[1].split()[-3:-1], ["-", "-"])
        self.assertEqual(names, ["network + local search + 40", "network", "insertion",
                                 "insertion + local search + 40"])

    def test_weights_that_do_not_fit_are_refused_by_name(self):
        self.call("data", "--cells", 5, "--out", "five")
        text = self.refused("oracle", "eval", "--data", "five")
        self.assertTrue(text.endswith("oracle.safetensors: is the oracle of a city of 31 cells, "
                                      "this one has 5"), text)
        self.write("junk.safetensors", "not a file of tensors")
        self.assertIn("junk.safetensors: ",
                      self.refused("oracle", "eval", "--weights", "junk.safetensors"))
        self.assertIn("none.safetensors",
                      self.refused("oracle", "eval", "--weights", "none.safetensors"))

    def test_weights_of_another_city_are_used_with_a_warning(self):
        self.call("data", "--seed", 9, "--out", "other")
        done = self.call("oracle", "eval", "--data", "other", "--instances", 3, "--shifted", 0,
                         "--iterations", 50)
        self.assertIn("was trained in another city", done.stderr)

    def train(self, *arguments, status=0):
        done = subprocess.run([BINARY, "dvrp", "oracle", "train", *map(str, arguments)],
                              cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S)
        if "this build has no libtorch" in done.stderr:
            self.skipTest("no libtorch")
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_training_goes_on_where_it_stopped_and_its_weights_route(self):
        self.train("--out", "run", "--imitate", 4, "--reinforce", 2, *self.SMALL)
        done = self.train("--resume", "run", "--reinforce", 4, "--json")
        self.assertEqual(json.loads(done.stdout)["step"], 8)
        with open(self.folder / "run" / "curves.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["step"] for row in rows], ["2", "4", "6", "8"])
        self.assertEqual([row["phase"] for row in rows], ["imitate"] * 2 + ["reinforce"] * 2)
        ElementTree.parse(self.folder / "run" / "curves.svg")
        grade = self.json_of("oracle", "eval", "--weights", "run/oracle.safetensors", "--instances",
                             3, "--shifted", 0, "--iterations", 50)
        self.assertGreater(grade["greedy"]["gap_30"], 15)  # it has learnt next to nothing
        self.assertIsNone(grade["corr_within"])

    def test_an_interrupt_before_the_first_step_leaves_a_state_to_go_on_from(self):
        command = [BINARY, "dvrp", "oracle", "train", "--out", "early", "--imitate", 100000, "--customers", 6,
                   "--batch", 4, "--teach-chunk", 8, "--teach-first", 50, "--teach-iterations", 20]
        with subprocess.Popen([*map(str, command)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            while not (self.folder / "early/config.yaml").exists() and process.poll() is None:
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=TIMEOUT_S)
        if "this build has no libtorch" in errors:
            self.skipTest("no libtorch")
        self.assertEqual(process.returncode, 130, errors)
        self.assertRegex(errors, r"interrupted at step [1-9]\d*; resume with --resume")

    def test_the_network_beside_insertion_by_size(self):
        found = self.json_of("oracle", "eval", "--customers", "6,35", "--instances", 4,
                             "--iterations", 200, "--refine", 5)
        self.assertEqual([size["customers"] for size in found["sizes"]], [6, 35])
        for size in found["sizes"]:
            network, insertion, longer, continued = size["rows"]
            self.assertEqual([row["name"] for row in size["rows"]],
                             ["network", "insertion", "insertion, same time", "continued"])
            self.assertEqual((network["refine"], insertion["refine"], continued["refine"]), (5, 5, 5))
            self.assertEqual((network["above_network_pct"], network["above_network_ci95"]), (0, 0))
            for row in size["rows"]:
                self.assertAlmostEqual(row["above_network_pct"], row["gap_pct"] - network["gap_pct"])
                self.assertGreater(row["day_s"], row["instance_ms"] / 2000)
            self.assertGreaterEqual(longer["refine"], 0)
        table = self.call("oracle", "eval", "--customers", "6", "--instances", 2, "--iterations", 20)
        self.assertRegex(table.stdout, r"(?m)^6 +network \+ 40 ")
        self.assertLessEqual(max(map(len, table.stdout.splitlines())), 80)
        self.assertIn("--shifts is not for --customers",
                      self.refused("oracle", "eval", "--customers", 6, "--shifts", 5, status=2))
        self.call("data", "--travellers", 3, "--cells", 5, "--out", "three")
        self.assertEqual(self.refused("oracle", "eval", "--data", "three", "--customers", 4, status=2),
                         "--customers 4: there are 3 travellers")

    def test_training_refuses_what_it_cannot_do(self):
        self.train("--out", "run", "--imitate", 0, "--reinforce", 0)
        self.assertIn("holds a run already", self.train("--out", "run", status=2).stderr)
        state = self.folder / "run" / "training.safetensors"
        state.write_bytes(state.read_bytes()[:100])
        self.assertIn("training.safetensors", self.train("--resume", "run", status=4).stderr)
        self.call("data", "--cells", 5, "--out", "five")
        self.train("--data", "five", "--out", "other", "--imitate", 0, "--reinforce", 0)
        shutil.copy(self.folder / "other" / "training.safetensors", state)
        self.assertIn("training.safetensors: tensor 'init.weight' has shape",
                      self.train("--resume", "run", status=4).stderr)
        self.assertIn("there are 30 travellers",
                      self.train("--data", "five", "--out", "more", "--customers", 31,
                                 status=2).stderr)
        self.assertIn("fewest: 7 requests, but customers, the most, is 6",
                      self.train("--out", "more", "--fewest", 7, *self.SMALL, status=2).stderr)
        self.assertIn("--init is not for --resume",
                      self.train("--resume", "run", "--init", "a.safetensors", status=2).stderr)
        self.assertIn("is the oracle of a city of 5 cells, this one has 31",
                      self.train("--out", "more", "--init", "other/oracle.safetensors",
                                 status=4).stderr)

    def test_training_begins_with_given_weights_on_larger_days(self):
        larger = (*self.SMALL[:-1], 40, "--fewest", 10, "--sizes", "doubling")
        self.train("--out", "first", "--imitate", 2, "--reinforce", 0, *self.SMALL)
        begin = ("--init", "first/oracle.safetensors", "--imitate", 2, "--reinforce", 0, *larger)
        self.train("--out", "none", "--imitate-rate", 0, *begin)
        first, none = (self.folder / name / "oracle.safetensors" for name in ("first", "none"))
        self.assertEqual(first.read_bytes(), none.read_bytes())
        self.train("--out", "second", *begin)
        self.assertNotEqual(first.read_bytes(), (first.parents[1] / "second" / first.name).read_bytes())
        (self.folder / "first").rename(self.folder / "moved")
        done = self.train("--resume", "second", "--imitate", 4, "--json")
        self.assertEqual(json.loads(done.stdout)["step"], 4)


class Negotiation(DvrpTest):
    """A negotiator of six requests a day, hardly trained."""

    SMALL = ("--customers", "6", "--num-envs", "16", "horizon=6", "ppo.minibatch_size=48",
             "net.hidden=16", "advice.every=2", "eval.every=2", "eval.episodes=4")
    NETWORK = "env.oracle.kind=network"  # which has a kernel; the recipe continues routes

    def train(self, *arguments, recipe="dvrp", without="", status=0):
        folder = () if "--save_dir" in arguments else ("--out", "run")
        small = [word for word in self.SMALL if word != without]
        command = [BINARY, "train", recipe, *folder, *small, *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                              timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def metrics(self):
        return [json.loads(line) for line in
                (self.folder / "run/metrics.jsonl").read_text().splitlines()]

    def test_a_run_is_judged_shown_and_goes_on(self):
        self.train("--epochs", "6", self.NETWORK)
        lines = self.metrics()
        self.assertEqual([line["update"] for line in lines], list(range(1, 7)))
        last = lines[-1]
        for name in ("env/cost", "env/baseline_cost", "env/saving_pct", "env/saving_pct_ci95",
                     "env/accepted", "env/accepted_nonzero", "env/offered_nonzero", "env/failed",
                     "eval/saving_pct_ci95", "losses/policy_loss", "losses/entropy",
                     "schedule/epsilon", "time/stage_s", "time/step_s", "time/update_s",
                     "flexibility/right", "flexibility/answers"):
            self.assertIn(name, last)
        self.assertEqual(last["flexibility/answers"], 6 * 16 * 6)
        self.assertGreater(last["flexibility/right"], lines[0]["flexibility/right"])

        judged = self.json_of("eval", "run", "--instances", 12, "--iterations", 200)
        self.assertEqual(judged, self.json_of("eval", "run", "--instances", 12, "--iterations", 200,
                                              "--threads", 1))
        self.assertEqual(judged["instances"], 12)
        self.assertLessEqual(judged["ceiling"], min(judged["baseline"], judged["trained"],
                                                    judged["random_allowed"]) + 1e-6)
        self.assertAlmostEqual(judged["share_of_ceiling"],
                               judged["saving_pct"] / judged["ceiling_saving_pct"])
        self.assertGreater(judged["saving_ci95"], 0)
        self.assertGreater(judged["acceptance"], 0.5)
        self.check_by_negotiator(judged)
        trimmed = self.json_of("eval", "run", "--instances", 12, "--iterations", 200, "--trim")
        self.assertEqual((judged["trim"], trimmed["trim"]), (False, True))
        for name, before in judged["by_negotiator"].items():
            after = trimmed["by_negotiator"][name]
            self.assertEqual(after["minutes"], before["minutes"], "the routes are the same")
            self.assertLessEqual(after["shifted_minutes"], before["shifted_minutes"])
            self.assertLessEqual(after["moved"], before["moved"])
        self.assertLess(trimmed["by_negotiator"]["trained"]["shifted_minutes"],
                        judged["by_negotiator"]["trained"]["shifted_minutes"])
        table = self.call("eval", "run", "--instances", 4, "--iterations", 50, "--no-ceiling")
        self.assertIn("random allowed offers", table.stdout)
        self.assertRegex(table.stdout, r"(?m)^least detour  ")
        self.assertRegex(table.stdout, r"(?m)^above the least detour: -?\d+\.\d\d \+- ")
        self.assertNotIn("S*", table.stdout)
        self.assertLessEqual(max(map(len, table.stdout.splitlines())), 80)

        self.call("show", "run", "--day", 2, "--out", "day.svg")
        text = "".join(ElementTree.parse(self.folder / "day.svg").getroot().itertext())
        self.assertIn("After negotiation", text)
        self.check_trimmed_picture(text)

        policy = "run/checkpoints/step_576/model.safetensors"
        alone = self.json_of("eval", policy, "--instances", 12, "--iterations", 200)
        self.assertEqual({**alone, "policy": ""}, {**judged, "policy": ""})

    def check_trimmed_picture(self, text):
        """The same routes, with less that is asked for."""
        self.call("show", "run", "--day", 2, "--trim", "--out", "trimmed.svg")
        trimmed = "".join(ElementTree.parse(self.folder / "trimmed.svg").getroot().itertext())
        asked = [sum(map(int, re.findall(r"(?:pickup -|drop-off \+)(\d+)", each))) for each in (text, trimmed)]
        self.assertLess(asked[1], asked[0])
        costs = [re.findall(r"(?:As asked|After negotiation): [\d.]+ minutes", each) for each in (text, trimmed)]
        self.assertEqual(costs[0], costs[1])
        self.call("instance", "--customers", 3, "--out", "some.json")
        self.assertEqual(self.refused("show", "some.json", "--trim", "--out", "a.svg", status=2),
                         "--trim is for runs and policy files")

    def check_by_negotiator(self, judged):
        """What the travellers pay, beside what is saved."""
        by = judged["by_negotiator"]
        self.assertEqual(list(by), ["no_negotiation", "random_allowed", "least_detour", "trained",
                                    "ceiling"])
        none, rule, trained = by["no_negotiation"], by["least_detour"], by["trained"]
        for name in ("saving_pct", "saving_ci95", "acceptance", "offered_nonzero"):
            self.assertEqual(trained[name], judged[name], name)
        self.assertEqual(none["minutes"], judged["baseline"])
        for name in ("saving_pct", "saving_ci95", "offered_nonzero", "shifted_minutes"):
            self.assertEqual(none[name], 0, name)
        for each in by.values():
            self.assertGreater(each["ride_minutes"], 0)
            self.assertGreaterEqual(each["ride_minutes"], each["excess_minutes"])
            self.assertLessEqual(each["shifted_minutes"], 60 * each["offered_nonzero"])
            self.assertAlmostEqual(each["ride_minutes"] - each["excess_minutes"],
                                   none["ride_minutes"] - none["excess_minutes"], places=6,
                                   msg="the direct way is the same for all")
        self.assertLess(rule["offered_nonzero"], by["random_allowed"]["offered_nonzero"])
        self.assertAlmostEqual(judged["above_least_detour_pct"],
                               trained["saving_pct"] - rule["saving_pct"])

    def test_a_run_ends_with_what_it_saves_and_how_to_judge_it(self):
        lines = self.train("--epochs", "1").stdout.splitlines()
        saving = json.loads((self.folder / "run/summary.json").read_text())["eval"]["metrics"]
        self.assertRegex(lines[-3], rf"^saving {saving['saving_pct']:.2f} \+- \d+\.\d\d % on 4 days")
        self.assertEqual(lines[-2], "a day before and after: run/day.svg")
        ElementTree.parse(self.folder / "run/day.svg")
        command = lines[-1].removeprefix("judged by a solver: ").split()
        self.assertEqual(command[1:], ["dvrp", "eval", "run"])
        self.call(*command[2:], "--instances", 2, "--iterations", 5, "--no-ceiling")
        self.call("show", "run", "--out", "shown.svg")
        self.assertEqual((self.folder / "shown.svg").read_bytes(),
                         (self.folder / "run/day.svg").read_bytes())

    def test_without_an_evaluation_nothing_is_said_about_the_saving(self):
        text = self.train("--epochs", "1", "eval.every=0", "eval.episodes=0").stdout
        self.assertNotIn("saving", text)
        self.assertIn("a day before and after: run/day.svg", text)

    def test_its_options_are_in_the_help_of_its_runs_only(self):
        def helped(*arguments):
            done = subprocess.run([BINARY, *arguments, "--help"], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=True)
            return done.stdout

        for option in ("--customers", "--policy-update-interval"):
            for own in (("train", "dvrp"), ("train", "dvrp-64"), ("bench", "ppo", "dvrp")):
                self.assertIn(option, helped(*own))
            for other in (("train",), ("train", "cartpole"), ("train", "cage2"), ("bench", "ppo")):
                self.assertNotIn(option, helped(*other))

    def test_another_kernel_of_the_oracle_is_warned_of(self):
        self.train("--epochs", "1", self.NETWORK)
        state = max((self.folder / "run/checkpoints").glob("step_*/state.json"))
        self.assertRegex(json.loads(state.read_text())["kernel"], "; oracle: network, [a-z0-9]+$")
        command = [BINARY, "train", "--resume", "run", "--epochs", "2"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                              timeout=TIMEOUT_S, env={**os.environ, "FLOTILLA_KERNEL": "portable"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("another kernel than before", done.stderr)
        self.assertIn("oracle: network, portable", done.stderr)

    def test_what_is_no_negotiator_is_refused(self):
        subprocess.run([BINARY, "train", "cartpole", "--steps", "8192", "--out", "pole"],
                       cwd=self.folder, capture_output=True, check=True, timeout=TIMEOUT_S)
        self.assertIn("is of 'cartpole', not of dvrp", self.refused("eval", "pole", status=2))
        self.assertIn("no run or policy file 'nothing'", self.refused("eval", "nothing", status=2))
        self.call("instance", "--customers", 3, "--out", "three.json")
        self.assertEqual(self.refused("show", "three.json", "--day", 1, "--out", "a.svg", status=2),
                         "--day is for runs and policy files")
        self.assertIn("--routes and --data are for instances",
                      self.refused("show", "pole", "--data", "x", "--out", "a.svg", status=2))

    def test_days_are_written_for_any_solver(self):
        self.train("--epochs", "2")
        self.call("days", "run", "--instances", 3, "--out", "days")
        index = json.loads((self.folder / "days/days.json").read_text())
        self.assertEqual([day["day"] for day in index["days"]], [0, 1, 2])
        self.assertEqual((index["seed"], index["trim"], index["unit"]), (9999, False, "seconds"))
        asked = 0
        for day in index["days"]:
            times = [list(map(int, line.split())) for line in
                     (self.folder / "days" / day["times"]).read_text().splitlines()]
            rows = {}
            for name in ("before", "after"):
                path = self.folder / "days" / day[name]
                head, *rows[name] = [list(map(float, line.split()))
                                     for line in path.read_text().splitlines()]
                self.assertEqual(head, [6, 12, 86400, 8, 86400])
                solved = self.json_of("solve", path, "--iterations", 300)
                seconds = sum(times[a][b] for route in solved["routes"]
                              for a, b in zip([0, *route], [*route, 0]))
                self.assertEqual(solved["cost"], seconds)
                self.write("routes.json", solved)
                self.assertEqual(self.json_of("check", path, "routes.json"),
                                 {"ok": True, "cost": seconds, "vehicles": solved["vehicles"]})
            for k, request in enumerate(day["requests"], start=1):
                earlier = rows["before"][k][5] - rows["after"][k][5]
                later = rows["after"][6 + k][6] - rows["before"][6 + k][6]
                self.assertEqual((60 * request["pickup_earlier"], 60 * request["dropoff_later"]),
                                 (earlier, later))
                asked += earlier + later
        self.assertGreater(asked, 0)
        self.check_trimmed_days(index, asked)
        self.assertIn("days/days.json' is there already",
                      self.call("days", "run", "--out", "days", status=2).stderr)
        self.assertIn("--iterations requires --trim",
                      self.call("days", "run", "--out", "more", "--iterations", 5, status=2).stderr)

    def test_days_have_the_limits_of_the_run(self):
        self.train("--epochs", "1", "env.max_excess=3", "env.oracle.kind=insertion")
        self.call("days", "run", "--instances", 2, "--out", "days")
        index = json.loads((self.folder / "days/days.json").read_text())
        self.assertEqual((index["max_ride"], index["max_excess"]), (None, 3))
        for day in index["days"]:
            folder = self.folder / "days"
            times = [list(map(int, line.split())) for line in (folder / day["times"]).read_text().splitlines()]
            rides = [int(line) for line in (folder / day["rides"]).read_text().splitlines()]
            self.assertEqual(rides, [times[k][6 + k] + 180 for k in range(1, 7)])
            self.assertEqual((folder / day["after"]).read_text().split()[4], str(max(rides)))
            solved = self.json_of("solve", folder / day["after"], "--iterations", 100)
            for route, served in zip(solved["routes"], solved["times"]):
                at = dict(zip(route, served[1:]))
                for k in range(1, 7):
                    if k in at:
                        self.assertLessEqual(at[6 + k] - at[k], rides[k - 1] + 1e-6)
            (folder / day["rides"]).write_text("1\n")
            self.assertIn(f"{day['rides']}: 1 line, the instance has 6 requests",
                          self.call("solve", folder / day["after"], status=4).stderr)

    def test_days_of_other_limits_are_not_mixed(self):
        self.train("--epochs", "1")
        (self.folder / "days").mkdir()
        (self.folder / "days/day-00000.rides").write_text("1\n" * 6)
        self.assertEqual(self.refused("days", "run", "--instances", 1, "--out", "days", status=2),
                         "'days/day-00000.rides' is there already")
        (self.folder / "days/day-00000.rides").rename(self.folder / "days/notes.txt")
        self.call("days", "run", "--instances", 1, "--out", "days")

    def check_trimmed_days(self, index, asked):
        self.call("days", "run", "--instances", 3, "--out", "trimmed", "--trim", "--iterations", 200)
        trimmed = json.loads((self.folder / "trimmed/days.json").read_text())
        minutes = 0
        for day, whole in zip(trimmed["days"], index["days"]):
            before = (self.folder / "trimmed" / day["before"]).read_bytes()
            self.assertEqual(before, (self.folder / "days" / whole["before"]).read_bytes())
            for request, untrimmed in zip(day["requests"], whole["requests"]):
                shift = request["pickup_earlier"] + request["dropoff_later"]
                self.assertLessEqual(shift, untrimmed["pickup_earlier"] + untrimmed["dropoff_later"])
                minutes += shift
        self.assertLess(60 * minutes, asked)

    def test_days_of_other_travellers_are_not_compared(self):
        self.train("--epochs", "1")
        (self.folder / "run").rename(self.folder / "few")
        self.train("--epochs", "1", "travellers=60")
        few, many = (f"{name}/checkpoints/step_96/model.safetensors" for name in ("few", "run"))
        self.assertEqual(self.refused("pareto", "few", "run", "--instances", 2, "--iterations", 5,
                                      "--no-ceiling", status=2),
                         f"{many}: expected env.travellers=30, as {few} has it, got 60")

    def test_few_epochs_are_warned_of(self):
        self.assertIn("64 episodes of 16 envs are 4 epochs, too few to learn much: raise --episodes "
                      "to 800, or say --epochs 50", self.train("--episodes", "64").stderr)
        shutil.rmtree(self.folder / "run")
        self.assertIn("64 episodes of 16 envs are 2 epochs, too few to learn much: raise --episodes "
                      "to 1600, or say --epochs 50",
                      self.train("--episodes", "64", "--policy-update-interval", "2",
                                 without="horizon=6").stderr)
        shutil.rmtree(self.folder / "run")
        self.assertIn("n_steps=6 and an option that makes it 12 contradict each other",
                      self.train("--policy-update-interval", "2", status=2).stderr)

    def test_options_of_the_earlier_system(self):
        recipe = (ROOT / "configs/dvrp.yaml").read_text()
        (self.folder / "unjudged.yaml").write_text(recipe.replace("episodes: 64", "episodes: 0"))
        self.train("--save_dir", "old", "--episodes", "96", "--save_interval=2", "--log-interval", "1",
                   "--policy_update_interval", "1", "eval.every=0", "--eval", recipe="unjudged.yaml",
                   without="eval.episodes=4")
        config = (self.folder / "old/config.yaml").read_text()
        self.assertIn("save_freq: 192\n", config)
        self.assertEqual(json.loads((self.folder / "old/summary.json").read_text())["eval"]["episodes"],
                         10)
        kept = sorted(int(path.name.removeprefix("step_"))
                      for path in (self.folder / "old/checkpoints").glob("step_*"))
        self.assertEqual(kept, [192, 384, 576])
        self.assertIn("--log-interval: expected 1, got 5: metrics.jsonl has a line for every epoch",
                      self.train("--log-interval", "5", status=2).stderr)
        for option, why in ((("--eval",), "--eval is for dvrp; set eval.episodes instead"),
                            (("--log-interval", "1"), "--log-interval is for dvrp; leave it out")):
            done = subprocess.run([BINARY, "train", "cartpole", *option], cwd=self.folder,
                                  capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)

    def test_other_environments_save_by_steps(self):
        done = subprocess.run([BINARY, "train", "cartpole", "--steps", "4096", "--save-interval",
                               "1024", "--out", "pole"], cwd=self.folder, capture_output=True,
                              text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("save_freq: 1024\n", (self.folder / "pole/config.yaml").read_text())
        done = subprocess.run([BINARY, "train", "cartpole", "save_freq=5", "--save-interval", "6"],
                              cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 2)
        self.assertIn("save_freq=5 and an option that makes it 6 contradict", done.stderr)

    def test_updates_every_second_episode(self):
        self.train("--policy-update-interval", "2", "--epochs", "2", without="horizon=6")
        self.assertEqual(self.metrics()[-1]["step"], 2 * 2 * 6 * 16)

    def test_lessons_without_enough_answers_are_skipped_with_the_reason(self):
        done = self.train("--epochs", "4", "advice.batch=500")
        self.assertIn('flexibility: nothing learnt why="192 records, fewer than the 500 of a batch"',
                      done.stderr)
        self.assertEqual(self.metrics()[-1]["flexibility/loss"], 0)

    def test_scaling(self):
        table = self.json_of("scaling", "--num-envs", "1,4", "--epochs", 1, "customers=3",
                             "horizon=3", "net.hidden=8")
        self.assertEqual([row["num_envs"] for row in table["rows"]], [1, 4])
        for row in table["rows"]:
            self.assertEqual(row["samples_per_epoch"], 3 * row["num_envs"])
            self.assertAlmostEqual(row["samples_per_s"] * row["epoch_s"], row["samples_per_epoch"])
            self.assertGreater(row["epoch_s"], row["oracle_s"])
            self.assertGreater(row["update_s"], 0)
            self.assertGreater(row["peak_rss_mb"], 1)
        self.assertEqual(table["rows"][0]["speedup"], 1)
        long = self.json_of("scaling", "--num-envs", "1", "--customers", 40, "--epochs", 1,
                            "net.hidden=8", "oracle.kind=continued", "oracle.improve=0")
        self.assertEqual(long["rows"][0]["samples_per_epoch"], 40, "more than there are travellers")
        one = self.json_of("scaling", "--epochs", 1, "--num-envs", "1", "customers=3", "horizon=3",
                           "net.hidden=8", "threads=1")
        self.assertEqual((one["rows"][0]["threads"], one["rows"][0]["device"]), (1, "cpu"))

    def test_an_interrupted_measurement_ends_at_once(self):
        with subprocess.Popen([BINARY, "dvrp", "scaling", "--num-envs", "64"], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stderr.readline()
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual((process.returncode, errors), (130, "flotilla: interrupted\n"))

    def test_an_interrupted_judgement_ends_at_once(self):
        self.train("--epochs", "1")
        for budget, at in ((("--instances", "100000"), "negotiating 100000 days"),
                           (("--instances", "2", "--iterations", "1000000000"), "routing 2 days")):
            with subprocess.Popen([BINARY, "dvrp", "eval", "run", *budget], cwd=self.folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                self.assertIn("run/checkpoints", process.stderr.readline())
                while at not in process.stderr.readline():
                    self.assertIsNone(process.poll())
                begun = self.cpu_s(process.pid)
                while self.cpu_s(process.pid) < begun + 0.1:  # it is at the work that it named
                    self.assertIsNone(process.poll())
                    time.sleep(0.001)
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=TIMEOUT_S)
            self.assertEqual((process.returncode, errors), (130, "flotilla: interrupted\n"))

    def cpu_s(self, pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_options_of_the_other_referee_are_refused(self):
        self.train("--epochs", "1")
        self.assertIn("--seconds is not for --referee lns",
                      self.call("eval", "run", "--seconds", 3, status=2).stderr)

    def test_scaling_refuses_what_it_cannot_train(self):
        done = self.call("scaling", "--recipe", "cartpole", "--num-envs", "1", status=2)
        self.assertIn("--recipe: 'cartpole' is not of dvrp", done.stderr)
        self.call("scaling", "--num-envs", "0", status=2)
        for setting, by in (("num_envs=99", "--num-envs"), ("total_timesteps=5", "--epochs"),
                            ("eval.episodes=7", "the measurement, which evaluates nothing"),
                            ("eval.every=1", "the measurement, which evaluates nothing"),
                            ("customers=4", "--customers"), ("horizon=4", "--customers"),
                            ("threads=1", "--threads"), ("oracle.device=cpu", "--device")):
            said = self.refused("scaling", "--num-envs", 1, "--customers", 3, "--threads", 2, "--device", "cpu",
                                setting, status=2)
            key = {"horizon": "n_steps", "customers": "env.customers",
                   "oracle.device": "env.oracle.device"}.get(setting.split("=")[0], setting.split("=")[0])
            self.assertEqual(said, f"{key}: is settled by {by}; leave it out")


def main():
    global BINARY
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    arguments, rest = parser.parse_known_args()
    BINARY = str(Path(arguments.binary).resolve())
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

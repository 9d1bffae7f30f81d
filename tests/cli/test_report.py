#!/usr/bin/env python3
"""Black-box tests of `flotilla plot`, `compare`, `export` and `cage2 show`.

    test_report.py --binary build/release/flotilla [unittest arguments]

Run directories are made by the tests, so that every number in a report is known.
"""

import argparse
import csv
import io
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

BINARY = None
TIMEOUT_S = 60
SVG = "{http://www.w3.org/2000/svg}"
LARGEST_SVG = 200_000
DEFENDER = Path(__file__).resolve().parents[2] / "assets/cage2"


def metrics(lines, seed=0, seconds=0.5, best=500.0, holes=False):
    """Lines of a run that learns: steps of 1000, a return that rises to `best`, and noise."""
    rng = random.Random(seed)
    result = []
    for i in range(1, lines + 1):
        part = i / lines
        level = best * (1 - math.exp(-5 * part))
        line = {"step": 1000 * i, "update": i, "episodes": 10 * i, "wall_s": seconds * i,
                "charts/SPS": 1000 / seconds * rng.uniform(0.9, 1.1)}
        if not holes or not 0.4 < part < 0.6:
            line["charts/episodic_return"] = level + rng.gauss(0, 0.1 * best)
            line["charts/episodic_length"] = 100.0
            line["charts/return_mean_100"] = level
        line |= {"charts/learning_rate": 0.002 * (1 - part), "losses/policy_loss": -0.01,
                 "losses/value_loss": 100 * math.exp(-5 * part), "losses/entropy": 0.6,
                 "losses/approx_kl": 0.01, "losses/clipfrac": None,
                 "losses/explained_variance": part, "time/step_s": 0.2 * seconds,
                 "time/update_s": 0.6 * seconds, "memory/rss_mb": 40 + part}
        if i % max(1, lines // 10) == 0:
            line |= {"eval/episodic_return": level, "eval/std": 5.0, "eval/ci95": 1.0,
                     "eval/episodes": 100}
        result.append(line)
    return result


class ReportTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="flotilla-report-")
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)

    def make_run(self, name, lines=40, seed=0, threads=1, env="cartpole", finished=True, lr=0.002,
                 machine="Xeon", seconds=0.5, tail="", **options):
        run = self.dir / name
        run.mkdir(parents=True)
        rows = metrics(lines, seed, seconds, **options)
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)
        (run / "config.yaml").write_text(
            f"env:\n  name: {env}\n  time_limit: 500\nbackend: threads\nnum_envs: 32\n"
            f"threads: {threads}\nworkers: 0\nseed: {seed}\nalgo: ppo\nppo:\n  lr: {lr}\n")
        if finished:
            (run / "summary.json").write_text(json.dumps({
                "domain": env, "algo": "ppo", "backend": "threads", "num_envs": 32,
                "threads": threads, "workers": 0, "seed": seed, "steps": 1000 * lines,
                "wall_s": seconds * lines + 1, "steps_per_s": 1000 / seconds,
                "return_mean_100": rows[-1]["charts/return_mean_100"],
                "eval": {"episodes": 100, "mean": 490.5, "std": 5, "ci95": 1.25},
                "peak_rss_mb": 41.5, "config_sha256": f"{env}{seed}{lr}",
                "version": "flotilla 0.1.0 (abc)", "machine": {"cpu": machine, "cores": 2}}))
        return rows

    def run_cli(self, *arguments, status=0):
        result = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True,
                                cwd=self.dir, timeout=TIMEOUT_S)
        self.assertEqual((result.returncode, result.stderr), (status, ""), result.stdout)
        return result.stdout

    def expect_error(self, arguments, status, message):
        """The command ends with `status`, prints `message` on stderr and nothing on stdout."""
        result = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True,
                                cwd=self.dir, timeout=TIMEOUT_S)
        self.assertEqual((result.stderr, result.stdout, result.returncode),
                         (f"flotilla: {message}\n", "", status), arguments)

    def svg(self, path):
        """The root of a well-formed picture with numbers that can be drawn."""
        path = self.dir / path
        self.assertLess(path.stat().st_size, LARGEST_SVG)
        root = ElementTree.parse(path).getroot()
        self.assertEqual(root.tag, SVG + "svg")
        _, _, width, height = map(float, root.get("viewBox").split())
        for element in root.iter():
            self.assertNotIn(element.tag, (SVG + "script", SVG + "image", SVG + "style"))
            for pair in (element.get("points") or "").split():
                x, y = map(float, pair.split(","))
                self.assertTrue(0 <= x <= width and 0 <= y <= height, (path, pair))
            if element.tag == SVG + "text":
                self.assertTrue(0 <= float(element.get("x")) <= width, element.text)
                self.assertTrue(0 <= float(element.get("y")) <= height, element.text)
        return root

    def texts(self, path):
        return [element.text for element in self.svg(path).iter(SVG + "text")]


class Plot(ReportTest):
    FILES = ["learning.svg", "losses.svg", "timing.svg"]

    def test_writes_three_pictures(self):
        self.make_run("run", lines=500)
        self.assertEqual(self.run_cli("plot", "run"),
                         "".join(f"run/plots/{name}\n" for name in self.FILES))
        learning = self.texts("run/plots/learning.svg")
        self.assertGreaterEqual(set(learning), {"run: cartpole, ppo", "return", "episode length",
                                                "steps", "mean of 100 episodes",
                                                "evaluation, 95 % interval", "500 k"})
        losses = self.texts("run/plots/losses.svg")
        self.assertGreaterEqual(set(losses), {"policy loss", "value loss", "entropy",
                                              "approximate KL", "explained variance",
                                              "learning rate", "mean of 11"})
        self.assertNotIn("clipped fraction", losses)  # null in every line
        timing = self.texts("run/plots/timing.svg")
        self.assertGreaterEqual(set(timing), {"steps per second", "share of time (%)",
                                              "resident memory (MB)", "step 20.0 %",
                                              "update 60.0 %", "other 20.0 %", "wall time (s)"})

    def test_the_same_run_gives_the_same_bytes(self):
        self.make_run("run")
        self.run_cli("plot", "run")
        self.run_cli("plot", "run", "--out", "new/folder")
        for name in self.FILES:
            self.assertEqual((self.dir / "new/folder" / name).read_bytes(),
                             (self.dir / "run/plots" / name).read_bytes())

    def test_json(self):
        self.make_run("run", finished=False)
        self.assertEqual(json.loads(self.run_cli("plot", "run", "--json", "--out", "p")),
                         {"run": "run", "finished": False,
                          "files": [f"p/{name}" for name in self.FILES]})

    def test_long_short_broken_off_and_holes(self):
        self.make_run("long", lines=20_000)
        self.make_run("one", lines=1)
        self.make_run("killed", finished=False, tail='{"step": 41000, "upda')
        self.make_run("holes", lines=1000, holes=True)
        for name in ("long", "one", "killed", "holes"):
            self.run_cli("plot", name)
            for file in self.FILES:
                self.svg(f"{name}/plots/{file}")
        self.assertIn("killed: cartpole, ppo (not finished)",
                      self.texts("killed/plots/learning.svg"))
        whole = len(list(self.svg("long/plots/learning.svg").iter(SVG + "polyline")))
        broken = len(list(self.svg("holes/plots/learning.svg").iter(SVG + "polyline")))
        self.assertEqual(broken - whole, 4)  # raw and smoothed, of two panels

    def test_names_that_are_markup(self):
        self.make_run('a<b>&"c"')
        self.run_cli("plot", 'a<b>&"c"')
        self.assertIn('a<b>&"c": cartpole, ppo', self.texts('a<b>&"c"/plots/learning.svg'))

    def test_a_table_of_another_program(self):
        (self.dir / "progress.csv").write_text(
            "time/total_timesteps,time/time_elapsed,rollout/ep_rew_mean\n2048,1,20\n4096,2,30\n")
        self.assertEqual(self.run_cli("plot", "progress.csv"), "plots/learning.svg\n")
        self.assertIn("progress.csv", self.texts("plots/learning.svg"))

    def test_what_cannot_be_plotted(self):
        self.make_run("run")
        (self.dir / "empty").mkdir()
        (self.dir / "started").mkdir()
        (self.dir / "started/config.yaml").write_text("seed: 0\n")
        (self.dir / "nothing").mkdir()
        (self.dir / "nothing/metrics.jsonl").write_text('{"step": 1}\n')
        (self.dir / "file").write_text("")
        self.expect_error(["plot", "none"], 2, "there is no 'none'")
        self.expect_error(["plot", "empty"], 2, "'empty' is no run: it has no config.yaml, "
                                                "metrics.jsonl or summary.json")
        self.expect_error(["plot", "file"], 2,
                          "'file' is no run: expected a run directory or a .csv file")
        self.expect_error(["plot", "started"], 4, "started/metrics.jsonl is missing")
        self.expect_error(["plot", "nothing"], 4, "'nothing' has no metric that can be drawn")
        self.expect_error(["plot", "run", "--out", "file/x"], 2,
                          "cannot make 'file/x': Not a directory")
        self.expect_error(["plot"], 2, "run is required")
        self.assertFalse((self.dir / "nothing/plots").exists())

    def test_a_bad_line_is_named(self):
        self.make_run("run", tail='{"step": 1\n{"step": 2}\n')
        self.expect_error(["plot", "run"], 4, "run/metrics.jsonl:41: not valid JSON")


class Compare(ReportTest):
    def compare(self, *arguments):
        result = json.loads(self.run_cli("compare", *arguments, "--json"))
        self.svg(result["plot"])
        return result

    def test_table(self):
        self.make_run("slow")
        self.make_run("fast", threads=2, seconds=0.2)
        shown = self.run_cli("compare", "slow", "fast")
        rows = [line.split() for line in shown.splitlines()[:3]]
        self.assertEqual(rows[0], "run env algo backend envs threads steps wall steps/s speed-up "
                                  "return eval time-to-score steps-to-score memory".split())
        self.assertEqual(rows[1], "slow cartpole ppo threads 32 1 40000 21.00 s 2 k 1.00x 496.63 "
                                  "490.50 +- 1.25 9.50 s 19000 42 MB".split())
        self.assertEqual(rows[2], "fast cartpole ppo threads 32 2 40000 9.00 s 5 k 2.50x 496.63 "
                                  "490.50 +- 1.25 3.80 s 19000 42 MB".split())
        self.assertIn("\nconfig: 8 keys equal, 1 differs; config_sha256 equal\n"
                      "differ in how the run is carried out:\n"
                      "  threads: 1 (slow); 2 (fast)\n"
                      "learning curves: compare.svg\n", shown)
        self.assertNotIn("warning", shown)
        self.assertGreaterEqual(set(self.texts("compare.svg")),
                                {"slow", "fast", "steps", "wall time (s)", "return, mean of 100"})

    def test_whole_numbers_stay_whole(self):
        largest = 2**63 - 1  # no double has it
        self.make_run("a", seed=largest)
        self.make_run("b", seed=largest - 1, finished=False)
        shown = self.run_cli("compare", "a", "b", "--json")
        self.assertNotRegex(shown, r'"(num_envs|threads|workers|steps|steps_to_score)":\d+\.')
        self.assertEqual([run["seed"] for run in json.loads(shown)["runs"]], [largest, largest - 1])

    def test_time_to_a_score(self):
        rows = self.make_run("a")
        self.make_run("b", best=300.0)
        score = 250.0
        first = next(row for row in rows if row["charts/return_mean_100"] >= score)
        runs = self.compare("a", "b", "--score", score)["runs"]
        self.assertEqual((runs[0]["time_to_score_s"], runs[0]["steps_to_score"]),
                         (first["wall_s"], first["step"]))
        runs = self.compare("a", "b", "--score", "400")["runs"]
        self.assertIsNone(runs[1]["time_to_score_s"])
        self.assertIsNone(runs[1]["steps_to_score"])
        self.assertEqual(self.compare("a", "b", "--score", "-150")["runs"][0]["steps_to_score"],
                         1000)

    def test_the_score_without_one_is_named(self):
        starts = [self.make_run("a"), self.make_run("b", best=300.0)]
        low = min(rows[0]["charts/return_mean_100"] for rows in starts)
        end = min(rows[-1]["charts/return_mean_100"] for rows in starts)
        result = self.compare("a", "b")
        self.assertEqual(result["score"], math.floor(low + 0.9 * (end - low)))
        self.assertIn("90 % of the way", result["score_origin"])
        self.assertTrue(all(run["steps_to_score"] for run in result["runs"]))

    def test_settings_and_warnings(self):
        self.make_run("a")
        self.make_run("b", env="pendulum", lr=0.1, machine="EPYC", finished=True)
        self.make_run("c", finished=False)
        result = self.compare("a", "b", "c")
        self.assertEqual(result["settings"]["semantic"], {
            "env.name": {"a": "cartpole", "b": "pendulum", "c": "cartpole"},
            "ppo.learning_rate": {"a": "0.002", "b": "0.1", "c": "0.002"}})
        self.assertEqual(result["settings"]["execution"], {})
        self.assertIsNone(result["settings"]["same_config_sha256"])
        self.assertIsNone(result["score"])
        self.assertEqual(result["warnings"], [
            "the environments differ: cartpole (a, c); pendulum (b); their returns cannot be "
            "compared",
            "the machines differ: Xeon, 2 cores (a); EPYC, 2 cores (b); a speed-up across machines "
            "is not one",
            "the machine is not known of c; speeds compare only if it is the same",
            "not finished: c; shown as far as the metrics go"])
        self.assertEqual([run["state"] for run in result["runs"]],
                         ["finished", "finished", "not finished"])
        self.assertIn("\nwarning: the environments differ", self.run_cli("compare", "a", "b"))

    def test_seeds_are_grouped(self):
        for seed in range(3):
            self.make_run(f"one/seed{seed}", seed=seed, best=500.0 + 10 * seed)
            self.make_run(f"two/seed{seed}", seed=seed, threads=2, seconds=0.25)
        paths = [f"{name}/seed{seed}" for name in ("one", "two") for seed in range(3)]
        result = self.compare(*paths)
        self.assertEqual([(group["name"], group["runs"]) for group in result["groups"]],
                         [("one", paths[:3]), ("two", paths[3:])])
        returns = [run["return_mean_100"] for run in result["runs"][:3]]
        found = result["groups"][0]["return_mean_100"]
        mean = sum(returns) / 3
        self.assertAlmostEqual(found["mean"], mean)
        self.assertAlmostEqual(found["std"], math.sqrt(sum((r - mean)**2 for r in returns) / 2))
        self.assertEqual(len(list(self.svg("compare.svg").iter(SVG + "polygon"))), 4)
        self.assertIn("two (mean and range of 3 seeds)", self.texts("compare.svg"))
        shown = self.run_cli("compare", *paths).splitlines()
        self.assertTrue(shown[7].startswith("one: 3 seeds  cartpole"))
        self.assertIn("2.00x", shown[8])

    def test_tables_of_other_programs(self):
        self.make_run("ours")
        (self.dir / "progress.csv").write_text(
            "time/total_timesteps,time/time_elapsed,rollout/ep_rew_mean\n"
            "10000,20,100\n20000,40,450\n")
        result = self.compare("ours", "progress.csv", "--score", "400")
        peer = result["runs"][1]
        self.assertEqual((peer["state"], peer["steps"], peer["wall_s"], peer["steps_per_s"]),
                         ("table", 20000, 40, 500))
        self.assertEqual((peer["time_to_score_s"], peer["speed_up"]), (40, 0.25))
        self.assertIn("config: known of fewer than two runs\n",
                      self.run_cli("compare", "ours", "progress.csv"))

    def test_a_run_without_metrics_has_its_summary(self):
        self.make_run("a")
        self.make_run("b")
        (self.dir / "b/metrics.jsonl").unlink()
        runs = self.compare("a", "b")["runs"]
        self.assertEqual(runs[1]["return_mean_100"], runs[0]["return_mean_100"])
        self.assertIsNone(runs[1]["steps_to_score"])

    def test_many_runs(self):
        names = [f"a run with a rather long name, number {i}" for i in range(30)]
        for i, name in enumerate(names):
            self.make_run(name, lr=0.001 * (i + 1), lines=20)
        self.assertEqual(len(self.compare(*names)["runs"]), 30)

    def test_what_cannot_be_compared(self):
        self.make_run("a")
        (self.dir / "started").mkdir()
        (self.dir / "started/config.yaml").write_text("seed: 0\n")
        (self.dir / "bad").mkdir()
        (self.dir / "bad/config.yaml").write_text("seed: [\n")
        (self.dir / "bad.csv").write_text("a,b\n1,2\n")
        self.expect_error(["compare"], 2, "runs is required")
        self.expect_error(["compare", "a"], 2, "compare needs two runs or more, got 1")
        self.expect_error(["compare", "a", "none"], 2, "there is no 'none'")
        self.expect_error(["compare", "a", "started"], 4,
                          "'started' has neither metrics nor a summary yet")
        self.expect_error(["compare", "a", "bad.csv"], 4,
                          "bad.csv: no column 'step' or 'time/total_timesteps'")
        self.expect_error(["compare", "a", "a", "--score", "nan"], 2,
                          "--score: expected a finite number")
        self.expect_error(["compare", "a", "a", "--out", "no/where.svg"], 4,
                          "cannot write no/where.svg: No such file or directory")
        result = subprocess.run([BINARY, "compare", "a", "bad"], capture_output=True, text=True,
                                cwd=self.dir, timeout=TIMEOUT_S)
        self.assertEqual((result.returncode, result.stderr.count("\n")), (4, 1))
        self.assertIn("bad/config.yaml:", result.stderr)
        self.assertFalse((self.dir / "compare.svg").exists())

    def test_garbage_gets_one_line(self):
        rng = random.Random(7)
        self.make_run("good", lines=5)
        for number in range(40):
            self.make_run(f"r{number}", lines=5)
            for name in ("metrics.jsonl", "summary.json", "config.yaml"):
                path = self.dir / f"r{number}" / name
                data = bytearray(path.read_bytes())
                for _ in range(rng.randrange(1, 8)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
                path.write_bytes(data[:rng.randrange(len(data))] if number % 2 else data)
            result = subprocess.run([BINARY, "compare", "good", f"r{number}"], cwd=self.dir,
                                    capture_output=True, timeout=TIMEOUT_S)
            self.assertIn(result.returncode, (0, 4), result.stderr)
            if result.returncode == 0:
                self.svg("compare.svg")
            else:
                self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)


    def test_a_slip_costs_no_file(self):
        self.make_run("a")
        self.make_run("b")
        (self.dir / "t.csv").write_text("step,return\n1,2\n")
        kept = {path: path.read_bytes() for path in self.dir.rglob("*") if path.is_file()}
        for name in ("a/config.yaml", "a/metrics.jsonl", "b/summary.json", "t.csv"):
            message = f"'{name}' is there already and no .svg file; give another name"
            self.expect_error(["compare", "a", "b", "--out", name], 2, message)
        for name in ("a/config.yaml", "a/metrics.jsonl"):
            message = f"'{name}' is there already and no .csv file; give another name"
            self.expect_error(["export", "a", "--out", name], 2, message)
        self.assertEqual({path: path.read_bytes() for path in kept}, kept)
        for _ in range(2):
            self.run_cli("compare", "a", "b", "--out", "again.svg")

class Export(ReportTest):
    def test_every_number_comes_back(self):
        rows = self.make_run("run", holes=True)
        self.assertEqual(self.run_cli("export", "run"), "run/metrics.csv\n")
        text = (self.dir / "run/metrics.csv").read_text()
        table = list(csv.DictReader(io.StringIO(text)))
        columns = list(dict.fromkeys(name for row in rows for name in row))
        self.assertEqual(list(table[0]), columns)
        self.assertEqual(len(table), len(rows))
        for got, row in zip(table, rows):
            self.assertEqual({name: float(value) for name, value in got.items() if value},
                             {name: value for name, value in row.items() if value is not None})

    def test_where_to(self):
        self.make_run("run")
        self.run_cli("export", "run")
        text = (self.dir / "run/metrics.csv").read_text()
        self.assertEqual(self.run_cli("export", "run", "--out", "x.csv"), "x.csv\n")
        self.assertEqual((self.dir / "x.csv").read_text(), text)
        self.assertEqual(self.run_cli("export", "run", "--out", "-"), text)

    def test_what_it_wrote_can_be_compared(self):
        self.make_run("run")
        self.run_cli("export", "run", "--out", "again.csv")
        runs = json.loads(self.run_cli("compare", "run", "again.csv", "--json"))["runs"]
        self.assertEqual(runs[0]["steps_to_score"], runs[1]["steps_to_score"])

    def test_errors(self):
        (self.dir / "a.csv").write_text("step,charts/episodic_return\n1,1\n")
        (self.dir / "run").mkdir()
        (self.dir / "run/metrics.jsonl").write_text("")
        self.expect_error(["export", "a.csv"], 2, "export: expected a run directory, got a CSV file")
        self.expect_error(["export", "run"], 4, "run/metrics.jsonl has no line yet")
        self.expect_error(["export", "none"], 2, "there is no 'none'")
        self.expect_error(["export", "run", "--format", "svg"], 2,
                          "--format: svg not in {csv,onnx}")
        self.expect_error(["export", "run", "--checkpoint", "best"], 2,
                          "--checkpoint: metrics have none; give --format onnx as well")
        self.expect_error(["export", "run", "--format", "onnx"], 4, "'run' has no checkpoints")
        self.expect_error(["export", "none", "--format", "onnx"], 2,
                          "there is no run or policy file 'none'")

    def test_a_policy(self):
        """tests/python/test_onnx.py runs what it writes."""
        subprocess.run([BINARY, "train", "catch", "--steps", "512", "--n-envs", "4", "n_steps=64",
                        "net.hidden=8", "eval.episodes=0", "--out", "run"], cwd=self.dir,
                       capture_output=True, timeout=TIMEOUT_S, check=True)
        self.assertEqual(self.run_cli("export", "run", "--format", "onnx"), "run/policy.onnx\n")
        model = (self.dir / "run/policy.onnx").read_bytes()
        self.assertTrue(model.startswith(b"\x08\x07\x12\x08flotilla"), model[:20])
        for name in (b"obs", b"action", b"logits", b"value", b"actor.1.weight"):
            self.assertIn(name, model)
        self.assertNotIn(b"mask", model)
        for out in (["--out", "x.onnx"], ["--checkpoint", "512", "--out", "y.onnx"]):
            self.run_cli("export", "run", "--format", "onnx", *out)
            self.assertEqual((self.dir / out[-1]).read_bytes(), model)
        stdout = subprocess.run([BINARY, "export", "run", "--format", "onnx", "--out", "-"],
                                cwd=self.dir, capture_output=True, timeout=TIMEOUT_S, check=True)
        self.assertEqual(stdout.stdout, model)
        self.run_cli("export", DEFENDER, "--format", "onnx", "--out", "defender.onnx")
        self.assertIn(b"mask", (self.dir / "defender.onnx").read_bytes())


class Show(ReportTest):
    HOSTS = ["User0", "User4", "Defender", "Enterprise0", "Op_Host0", "Op_Server0"]

    def test_draws_an_episode(self):
        line = self.run_cli("cage2", "show", DEFENDER, "--red", "bline", "--seed", 7, "--steps", 50)
        start, reward = line.rstrip("\n").rsplit(" ", 1)
        self.assertEqual(start, "episode.svg: B_line, seed 7, 50 steps: reward")
        self.assertLess(float(reward), 0)
        texts = self.texts("episode.svg")
        self.assertIn(f"B_line, seed 7, 50 steps: reward {reward}", texts)
        self.assertGreaterEqual(set(texts), {*self.HOSTS, "OT service", "total reward", "Restore"})

    def test_json_and_the_same_bytes(self):
        arguments = ["cage2", "show", DEFENDER, "--red", "meander", "--json", "--out"]
        found = json.loads(self.run_cli(*arguments, "a.svg"))
        reward = found.pop("reward")
        self.assertEqual(found, {"policy": f"{DEFENDER}/model.safetensors", "red": "Meander",
                                 "seed": 0, "steps": 100, "file": "a.svg"})
        self.assertIn(f"Meander, seed 0, 100 steps: reward {reward:.1f}", self.texts("a.svg"))
        self.run_cli(*arguments, "b.svg")
        self.assertEqual((self.dir / "a.svg").read_bytes(), (self.dir / "b.svg").read_bytes())

    def test_errors(self):
        (self.dir / "bad.safetensors").write_bytes(b"x")
        self.expect_error(["cage2", "show"], 2, "path is required")
        self.expect_error(["cage2", "show", DEFENDER, "--red", "green"], 2,
                          "--red: green not in {bline,meander,sleep,attackers,mix}")
        self.expect_error(["cage2", "show", DEFENDER, "--steps", "0"], 2,
                          "--steps: Value 0 not in range 1 to 10000")
        self.expect_error(["cage2", "show", DEFENDER, "--out", "no/where.svg"], 4,
                          "cannot write no/where.svg: No such file or directory")
        for path, status in (("none", 2), ("bad.safetensors", 4)):
            result = subprocess.run([BINARY, "cage2", "show", path], capture_output=True,
                                    text=True, cwd=self.dir, timeout=TIMEOUT_S)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (status, 1))
        self.assertFalse((self.dir / "episode.svg").exists())


def main():
    global BINARY
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=Path, required=True, help="the built flotilla")
    options, rest = parser.parse_known_args()
    BINARY = options.binary.resolve()
    if not os.access(BINARY, os.X_OK):
        parser.error(f"--binary: no program at {BINARY}")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

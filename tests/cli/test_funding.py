#!/usr/bin/env python3
"""Black-box tests of `flotilla funding data | inspect | explain | eval` and of the environment's options.

    test_funding.py --binary build/release/flotilla [unittest arguments]
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = None
TIMEOUT_S = 120
SMALL = ["env.market.days=12", "env.market.symbols=12", "env.episode_days=0.2", "env.split.embargo_days=1"]


class Funding(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="flotilla-funding-")
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)

    def call(self, *arguments, status=0):
        done = subprocess.run([BINARY, *map(str, arguments)], cwd=self.dir, capture_output=True,
                              text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def refused(self, status, *arguments):
        done = self.call(*arguments, status=status)
        self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
        return done.stderr.removeprefix("flotilla: ").rstrip("\n")

    def json(self, *arguments):
        return json.loads(self.call(*arguments, "--json").stdout)

    def test_explains_all_that_is_seen_and_done(self):
        explained = self.json("funding", "explain")
        self.assertEqual((len(explained["observations"]), len(explained["actions"])), (203, 36))
        self.assertEqual(explained["observations"][93], "row_1.fund_profit_8h")
        text = self.call("funding", "explain").stdout
        self.assertIn("203 observations:\n    0 max_leverage\n", text)
        self.assertIn("   35 exit pair_5\n", text)

    def test_a_market_is_written_inspected_and_traded(self):
        data = ["funding", "data", "--days", 3, "--symbols", 4, "--seed", 5, "--out"]
        made = self.json(*data, "market")
        self.assertEqual((made["days"], made["symbols"]), (3, 4))
        found = self.json("funding", "inspect", "market")
        self.assertEqual({key: found[key] for key in made}, made)
        for doubt in ("unpaid", "filled_prices", "missing_numbers", "odd_prices", "odd_aprs", "late_payments",
                      "unscheduled_payments", "payments_between"):
            self.assertEqual(found[doubt], 0, doubt)
        self.assertEqual(found["partial_symbols"], [])
        self.assertGreater(found["payments"], 4 * 2 * 9 - 1)
        self.assertIn("nothing looks wrong", self.call("funding", "inspect", "market").stdout)
        self.assertIn("is there already", self.refused(2, *data, "market"))
        packed = self.json(*data, "packed", "--gzip")
        self.assertEqual(packed, made)
        self.assertTrue((self.dir / "packed/opportunities.csv.gz").is_file())
        for directory in ("market", "packed"):
            speed = self.json("bench", "env", "funding", f"data={directory}", "episode_days=0.5",
                              "--num-envs", 2, "--seconds", "0.01")
            self.assertGreater(speed["steps"], 0)

    def test_damaged_files_are_named_before_training(self):
        self.call("funding", "data", "--days", 3, "--symbols", 2, "--out", "market")
        prices = self.dir / "market/prices/COIN001USDT.csv"
        lines = prices.read_text().splitlines()
        cells = lines[6].split(",")
        lines[6] = ",".join([cells[0], "nan", *cells[2:]])
        prices.write_text("\n".join(lines) + "\n")
        message = "market/prices/COIN001USDT.csv: line 7, column 'binance_price': 'nan' is not a finite number"
        self.assertEqual(self.refused(4, "funding", "inspect", "market"), message)
        train = self.call("train", "funding", "env.data=market", "env.episode_days=0.5", "--steps", 100,
                          "--out", "run", status=4)
        self.assertIn(message, train.stderr)
        self.assertFalse((self.dir / "run").exists())
        self.assertIn("nowhere/prices", self.refused(4, "funding", "inspect", "nowhere"))

    def train(self, *more, out="run", steps=256):
        self.call("train", "funding", *SMALL, "num_envs=4", "n_steps=32", "ppo.minibatches=2", "net.hidden=16",
                  "eval.episodes=4", "--steps", steps, "--out", out, *more)

    def test_a_policy_is_judged_beside_other_traders(self):
        self.train("eval.every=1")
        judged = self.json("funding", "eval", "run", "--windows", 6)
        self.assertEqual((judged["windows"], judged["levels"], judged["seen_in_training"]), (6, "test", False))
        traders = {name: judged[name] for name in ("trained", "cash", "best_apr", "random_allowed", "hindsight")}
        for trader in traders.values():
            self.assertEqual(set(trader), {"pnl_pct", "ci95", "drawdown_pct", "trades", "win_rate", "profit_factor", "score",
                                           "funding", "price_pnl", "fees"})
            earned = trader["funding"] + trader["price_pnl"] - trader["fees"]
            self.assertAlmostEqual(trader["pnl_pct"], 100 * earned / 10000, places=6)
            self.assertLessEqual(trader["pnl_pct"], traders["hindsight"]["pnl_pct"] + 1e-9)
        self.assertEqual(traders["cash"]["pnl_pct"], 0)
        for name in ("win_rate", "profit_factor", "score"):
            self.assertIsNone(traders["cash"][name])
        files = ["--trades", "trades.csv", "--svg", "equity.svg"]
        self.assertEqual(self.json("funding", "eval", "run", "--windows", 6, *files), judged)
        self.assertIn("6 windows of levels=test", self.call("funding", "eval", "run", "--windows", 6).stdout)
        with open(self.dir / "trades.csv", encoding="utf-8") as file:
            trades = list(csv.DictReader(file))
        self.assertAlmostEqual(len(trades), 6 * judged["trained"]["trades"])
        self.assertAlmostEqual(sum(float(trade["realised_pnl"]) for trade in trades) / 100,
                               6 * judged["trained"]["pnl_pct"], places=6)
        self.assertIn(">drawdown<", (self.dir / "equity.svg").read_text())
        self.assertIn("P&L", self.call("funding", "show", "run", "--trader", "best_apr", "--out", "window.svg").stdout)
        self.assertIn("</svg>", (self.dir / "window.svg").read_text())
        for option, name in (("--svg", "trades.csv"), ("--trades", "window.svg")):  # before any window is traded
            self.assertIn(f"'{name}' is there already",
                          self.refused(2, "funding", "eval", "run", "--windows", 100000, option, name))
        both = self.json("eval", "run", "--episodes", 4, "--levels", "both")
        self.assertIn("gap", both)

    def test_the_best_checkpoint_is_the_best_on_validation_windows(self):
        self.train("eval.every=1", steps=512)
        evals = [json.loads(line) for line in (self.dir / "run/metrics.jsonl").read_text().splitlines()]
        best = max(evals, key=lambda line: line["eval/episodic_return"])["step"]
        judged = self.json("funding", "eval", "run", "--windows", 2)
        self.assertEqual((judged["checkpoint"], f"step_{best}/" in judged["policy"]), ("best", True), judged["policy"])
        last = self.json("funding", "eval", "run", "--windows", 2, "--checkpoint", "last")
        self.assertIn("step_512/", last["policy"])
        self.assertEqual(self.json("funding", "eval", last["policy"], "--windows", 2)["checkpoint"], "file")
        self.assertIn("is one policy", self.refused(2, "funding", "eval", last["policy"], "--checkpoint", "best"))
        validation = self.json("eval", "run", "--checkpoint", "512", "--episodes", 4, "levels=validation")
        self.assertAlmostEqual(validation["mean"], evals[-1]["eval/episodic_return"])
        self.assertIn("eval.levels", self.refused(2, "train", "funding", "eval.levels=test"))
        self.train("eval.every=0", out="unjudged", steps=128)
        self.assertEqual(self.json("funding", "eval", "unjudged", "--windows", 2)["checkpoint"], "last")

    def make_market(self, name, seed, year=2025):
        self.call("funding", "data", "--days", 8, "--symbols", 4, "--seed", seed, "--out", name)
        if year == 2025:
            return
        for path in (self.dir / name).rglob("*.csv"):
            path.write_text(path.read_text().replace("2025-", f"{year}-"))

    def test_the_scaler_is_the_runs_own_whatever_becomes_of_the_data(self):
        own = ["env.data=market", "env.episode_days=0.1"]
        self.make_market("market", 1)
        self.train(*own)
        kept = [line for line in (self.dir / "run/config.yaml").read_text().splitlines() if "  scaler: " in line]
        rows = self.dir / "market/opportunities.csv"
        lines = [line.split(",") for line in rows.read_text().splitlines()]
        lines[50][lines[0].index("spread30SampleAvg")] = "0.5"
        rows.write_text("\n".join(map(",".join, lines)) + "\n")
        self.train(*own, out="fitted")
        self.assertNotIn(kept[0], (self.dir / "fitted/config.yaml").read_text())
        self.call("train", "--resume", "run", "--steps", 384)
        self.assertIn(kept[0], (self.dir / "run/config.yaml").read_text())
        self.assertIn("a resumed run cannot change env.scaler",
                      self.call("train", "--resume", "run", "env.scaler=", "--steps", 512, status=2).stderr)

    def test_days_of_training_are_judged_only_when_asked_for_twice(self):
        self.make_market("market", 1)
        self.train("env.data=market", "env.episode_days=0.1")
        self.make_market("later", 2, 2026)
        judged = self.json("funding", "eval", "run", "--data", "later", "--windows", 2)
        self.assertEqual((judged["seen_in_training"], judged["levels"], judged["data"]), (False, None, "later"))
        for overlapping in (["--levels", "train"], ["--data", "market"]):
            command = ["funding", "eval", "run", *overlapping, "--windows", 2]
            message = self.refused(2, *command)
            self.assertIn("overlap those of training, 2025-09-01T00:00:00Z/2025-09-05T19:05:00Z", message)
            self.assertTrue(self.refused(2, *command, "--allow-overlap").endswith("--allow-overlap twice, not once"))
            self.assertTrue(self.json(*command, "--allow-overlap", "--allow-overlap")["seen_in_training"])

    def test_options_of_the_earlier_system(self):
        self.call("train", "funding", *SMALL[:2], SMALL[3], "--episode-length-days", "0.05", "n_steps=7", "net.hidden=8",
                  "ppo.minibatches=1", "--n-envs", 8, "--num-episodes", 20, "--learning-rate", "0.0001", "--gamma", "0.9",
                  "--checkpoint-dir", "run", "--backend", "processes", "--workers", 2, "--parallel-start-method", "fork",
                  "--eval-every", 2, "--eval-episodes", 2, "--save-every", 3, "--initial-capital", 5000,
                  "--max-positions", 3)
        config = (self.dir / "run/config.yaml").read_text()
        for line in ("num_envs: 8", "initial_capital: 5000.0", "max_positions: 3", "learning_rate: 0.0001", "gamma: 0.9",
                     "start_method: fork", "save_freq: 168", "every: 2", "episode_days: 0.05"):
            self.assertIn(f" {line}\n", " " + config.replace("\n", "\n "))
        summary = json.loads((self.dir / "run/summary.json").read_text())
        self.assertEqual((summary["episodes"], summary["updates"]), (24, 6), "finished ones, of 14 steps each")
        self.assertIn("cartpole has no key env.initial_capital",
                      self.refused(2, "train", "cartpole", "--initial-capital", 5))

    def test_scaling_is_measured(self):
        table = self.json("bench", "scaling", "funding", *SMALL, "eval.episodes=0", "--n-envs", "1,4,8,16", "n_steps=4",
                          "--seconds", "0.01", "--repeats", 1)
        lines = table["lines"]
        self.assertEqual([line["num_envs"] for line in lines], [1, 4, 8, 16])
        for line in lines:
            self.assertAlmostEqual(line["speedup"], line["steps_per_s"] / lines[0]["steps_per_s"])

    def test_settings_are_checked(self):
        bench = ["bench", "env", "funding", "--seconds", "0.01"]
        self.assertIn("max_leverage", self.refused(2, *bench, "max_leverage=11"))
        self.assertIn("stop_loss_threshold", self.refused(2, *bench, "stop_loss_threshold=0.01"))
        self.assertIn("liquidation_buffer", self.refused(2, *bench, "liquidation_buffer=0.6"))
        self.assertIn("max_positions", self.refused(2, *bench, "max_positions=6"))
        self.assertEqual(self.refused(2, *bench, "episode_days=10", "levels=test"),
                         "episode_days: levels=test has 9.00 days, an episode of 10.00 needs 10.00; "
                         "split.train, split.validation and split.embargo_days part the days")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    options, rest = parser.parse_known_args()
    BINARY = str(Path(options.binary).resolve())
    unittest.main(argv=[sys.argv[0], *rest])

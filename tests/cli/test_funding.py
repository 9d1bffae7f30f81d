#!/usr/bin/env python3
"""Black-box tests of `flotilla funding data | inspect | explain | eval` and of the environment's options.

    test_funding.py --binary build/release/flotilla [unittest arguments]
"""

import argparse
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
        self.assertEqual((found["unpaid"], found["filled_prices"], found["late_payments"]), (0, 0, 0))
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

    def test_a_policy_is_judged_beside_other_traders(self):
        self.call("train", "funding", *SMALL, "num_envs=4", "n_steps=32", "ppo.minibatches=2",
                  "net.hidden=16", "eval.episodes=4", "--steps", 256, "--out", "run")
        judged = self.json("funding", "eval", "run", "--windows", 6)
        self.assertEqual((judged["windows"], judged["levels"]), (6, "test"))
        traders = {name: judged[name] for name in ("trained", "cash", "best_apr", "random_allowed", "hindsight")}
        for trader in traders.values():
            self.assertGreaterEqual(set(trader), {"pnl_pct", "ci95", "drawdown_pct", "trades", "win_rate", "profit_factor"})
            self.assertLessEqual(trader["pnl_pct"], traders["hindsight"]["pnl_pct"] + 1e-9)
        self.assertEqual(traders["cash"]["pnl_pct"], 0)
        self.assertIsNone(traders["cash"]["win_rate"])
        self.assertIsNone(traders["cash"]["profit_factor"])
        self.assertEqual(self.json("funding", "eval", "run", "--windows", 6), judged)
        self.assertIn("6 windows of levels=test", self.call("funding", "eval", "run", "--windows", 6).stdout)
        both = self.json("eval", "run", "--episodes", 4, "--levels", "both")
        self.assertIn("gap", both)

    def test_settings_are_checked(self):
        bench = ["bench", "env", "funding", "--seconds", "0.01"]
        self.assertIn("max_leverage", self.refused(2, *bench, "max_leverage=11"))
        self.assertIn("stop_loss_threshold", self.refused(2, *bench, "stop_loss_threshold=0.01"))
        self.assertIn("liquidation_buffer", self.refused(2, *bench, "liquidation_buffer=0.6"))
        self.assertIn("max_positions", self.refused(2, *bench, "max_positions=6"))
        self.assertEqual(self.refused(2, *bench, "episode_days=10", "levels=test"),
                         "episode_days: levels=test has 9.00 days, an episode of 10.00 needs 10.00")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    options, rest = parser.parse_known_args()
    BINARY = str(Path(options.binary).resolve())
    unittest.main(argv=[sys.argv[0], *rest])

#!/usr/bin/env python3
"""Black-box tests of the search over workflows.

    test_search.py --binary build/release/flotilla [unittest arguments]
"""

import argparse
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BINARY = None
TIMEOUT_S = 120


def small(workflows=6):
    return ["--n-workflows", str(workflows), "--n-envs", "5", "--episodes-per-env", "8", "eval.episodes=20", "--threads",
            "1"]


# Everything that a search leaves and that does not tell when it ran.
FILES = ["config.yaml", "search.yaml", "search.json", "training_log.csv", "gp_sampling_log.csv", "posterior.svg",
         *(f"policies/{i}.safetensors" for i in range(1, 7))]


class SearchTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="flotilla-search-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def call(self, *arguments, status=0):
        command = [BINARY, *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, status, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done

    def refused(self, *arguments, status=2):
        done = self.call(*arguments, status=status)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0].removeprefix("flotilla: ")


class Results(SearchTest):
    def test_json_has_the_best_and_the_history(self):
        done = self.call("cage2", "search", *small(), "--out", "s", "--json")
        result = json.loads(done.stdout)
        self.assertEqual(len(result["training_history"]), 6)
        for number, each in enumerate(result["training_history"], 1):
            self.assertEqual(each["iteration"], number)
            self.assertEqual(each["n_envs"], 5)
            self.assertEqual(each["episodes_trained"], 40)
        self.assertEqual(result["training_history"][-1]["total_episodes_used"], result["episodes"])
        last = {each["order"]: each for each in result["training_history"]}
        best = max(last.values(), key=lambda each: (each["success"], each["eval_reward"]))
        self.assertEqual(result["best"]["eval_reward"], best["eval_reward"])
        self.assertEqual(result["best"]["policy"], f"s/policies/{best['iteration']}.safetensors")

    def test_the_best_is_the_first_of_the_table(self):
        # With 24 orders and repeats, where the last training of an order may be worse than one before.
        command = ["corners", "search", *small(40), "--kernel", "kendall", "--beta", "0.3", "--seed", "2"]
        best = json.loads(self.call(*command, "--out", "a", "--json").stdout)["best"]
        history = json.loads((self.folder / "a/search.json").read_text())["training_history"]
        self.assertLess(best["eval_reward"], max(each["eval_reward"] for each in history))
        table = self.call("corners", "search", "--resume", "a").stdout
        self.assertRegex(table, rf"(?m)^ 1  .* value {best['eval_reward']:.2f}\b")

    def test_a_policy_of_a_search_can_be_played(self):
        self.call("corners", "search", *small(1), "--out", "s")
        order = json.loads((self.folder / "s/search.json").read_text())["training_history"][0]["order"]
        evaluation = json.loads(self.call("eval", "s/policies/1.safetensors", "--json", "--episodes", "20").stdout)
        self.assertEqual(evaluation["deterministic"], False)  # as the recipe says, so that the value is the same
        value = json.loads((self.folder / "s/search.json").read_text())["training_history"][0]["eval_reward"]
        self.assertAlmostEqual(evaluation["metrics"]["canonical_return"], value, places=5)
        self.assertRegex(order, r"^[0-3](,[0-3]){3}$")

    def test_corners_is_found_with_three_seeds(self):
        for seed in range(3):
            result = json.loads(self.call("corners", "search", "--seed", seed, "--out", f"s{seed}", "--json").stdout)
            self.assertEqual(result["best"]["order"], "0,1,2,3")
            self.assertGreater(result["best"]["eval_reward"], 9)  # of 9.40

    def test_the_process_beats_chance_on_closed_form_values(self):
        races = json.loads(self.call("bench", "search", "--seeds", "100", "--json").stdout)
        self.assertEqual([race["env"] for race in races], ["corners", "regions", "maze"])
        for race in races:
            self.assertLess(race["ucb"], 0.7 * race["random"])
            self.assertLess(race["p_value"], 1e-6)


class Resume(SearchTest):
    def contents(self, name):
        return {file: (self.folder / name / file).read_bytes() for file in FILES}

    def test_a_killed_search_ends_like_one_that_was_not(self):
        command = ["cage2", "search", *small()]
        start = time.monotonic()
        self.call(*command, "--out", "whole")
        seconds = time.monotonic() - start
        expected = self.contents("whole")
        chance = random.Random(5)
        out = self.folder / "killed"
        kills = 0
        arguments = [*command, "--out", str(out)]
        while True:
            process = subprocess.Popen([BINARY, *arguments], cwd=self.folder, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            try:
                status = process.wait(chance.uniform(0.1, 0.5) * seconds if kills < 8 else TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            if status == 0 and kills == 0 and seconds > 0.1:  # the first one was slow by accident
                shutil.rmtree(out)
                seconds /= 2
                continue
            if status == 0:
                break
            self.assertEqual(status, -signal.SIGKILL)
            kills += 1
            if (out / "config.yaml").exists():
                arguments = ["cage2", "search", "--resume", str(out)]
        self.assertGreater(kills, 0)
        for file, data in self.contents("killed").items():
            self.assertEqual(data, expected[file], file)

    def test_an_interrupt_says_how_to_go_on(self):
        process = subprocess.Popen([BINARY, "cage2", "search", "--out", "s"], cwd=self.folder,
                                   stderr=subprocess.PIPE, text=True)
        while not (self.folder / "s/search.yaml").exists():
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 130, errors)
        self.assertRegex(errors, r"interrupted after \d+ workflows?; resume with --resume s")

    def test_what_a_killed_write_left_is_removed(self):
        self.call("corners", "search", *small(1), "--out", "s")
        left = [self.folder / "s/policies/.flotilla-1-0.part", self.folder / "s/.flotilla-1-0.part"]
        for file in left:
            file.touch()
        self.call("corners", "search", "--resume", "s", "--n-workflows", "2")
        self.assertEqual([file for file in left if file.exists()], [])

    def test_settings_that_were_changed_are_refused(self):
        self.call("corners", "search", *small(1), "--out", "s")
        for file, old, new in (("search.yaml", "n_envs: 5", "n_envs: 10"), ("config.yaml", "gamma: ", "gamma: 0.5 #")):
            path = self.folder / "s" / file
            text = path.read_text()
            self.assertIn(old, text)
            path.write_text(text.replace(old, new, 1))
            self.assertEqual(self.refused("corners", "search", "--resume", "s", "--n-workflows", "2", status=4),
                             "s/search.yaml or config.yaml was changed: search.json is of other settings")
            path.write_text(text)
        self.call("corners", "search", "--resume", "s", "--n-workflows", "2")

    def test_a_smaller_budget_ends_a_search(self):
        process = subprocess.Popen([BINARY, "corners", "search", *small(10000), "--out", "s"], cwd=self.folder,
                                   stderr=subprocess.DEVNULL)
        while not (self.folder / "s/policies/2.safetensors").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(TIMEOUT_S), 130)
        self.assertFalse(json.loads((self.folder / "s/search.json").read_text())["finished"])
        self.call("corners", "search", "--resume", "s", "--n-workflows", "1")
        self.assertTrue(json.loads((self.folder / "s/search.json").read_text())["finished"])

    def test_a_finished_search_can_be_made_longer(self):
        self.call("corners", "search", *small(), "--out", "whole")
        self.call("corners", "search", *small(2), "--out", "part")
        self.call("corners", "search", "--resume", "part", "--n-workflows", "6")
        for file, data in self.contents("part").items():
            self.assertEqual(data, (self.folder / "whole" / file).read_bytes(), file)


class Settings(SearchTest):
    def test_what_is_on_can_be_switched_off(self):
        for number, (words, gate, fit) in enumerate([
                ([], "true", "true"), (["--no-gate", "--fit"], "false", "true"),
                (["--gate=false", "--no-fit"], "false", "false"), (["--gate", "--fit=false"], "true", "false")]):
            self.call("corners", "search", *small(1), *words, "--out", f"s{number}")
            settings = (self.folder / f"s{number}/search.yaml").read_text()
            self.assertIn(f"\ngate: {gate}\n", settings, words)
            self.assertIn(f"\nfit: {fit}\n", settings, words)

    def test_the_bonus_in_the_log_is_what_was_added(self):
        # The ninth and the tenth are of an order that was tried before.
        self.call("corners", "search", "--acquisition", "legacy", "--n-workflows", 12, "--out", "s")
        with (self.folder / "s/gp_sampling_log.csv").open() as file:
            for row in csv.DictReader(file):
                score, mean = float(row["UCB_Score"]), float(row["Exploitation_Value"])
                self.assertAlmostEqual(float(row["Exploration_Bonus"]), score - mean, delta=1.01e-4, msg=row)


class BadInput(SearchTest):
    def test_a_search_that_evaluates_nothing_is_refused(self):
        self.assertEqual(self.refused("corners", "search", "--out", "s", "eval.episodes=0"),
                         "eval.episodes: expected 1 or more, by which a search compares")
        self.assertFalse((self.folder / "s").exists())

    def test_refusals(self):
        for arguments, message in [
            (["--n-workflows", "0"], "a search over 0 workflows: set n_workflows, or a budget of episodes"),
            (["--compliance-threshold", "1.5"],
             "compliance_threshold: expected a number from 0 to 1, got '1.5'"),
            (["--acquisition", "bayes"], "acquisition: expected one of ucb, legacy, random, exhaustive, got 'bayes'"),
            (["workflow=01234"], "workflow is not a setting of a search: it is what is searched for"),
            (["num_envs=3"], "num_envs is not a setting of a search: use --n-envs"),
            (["red=blue"], "env.red: expected one of bline, meander, sleep, attackers, mix, got 'blue'; did you mean 'bline'?"),
            (["--resume", "nothing"], "there is no run 'nothing'"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertEqual(self.refused("cage2", "search", *arguments), message)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_an_unknown_workflow_is_answered_with_the_list(self):
        message = self.refused("train", "cage2-workflow", "workflow=critical")
        for name in ("critical_first (02134)", "enterprise_focus (10234)", "user_priority (40123)",
                     "operational_focus (23014)", "balanced (01243)", "reverse (43120)", "got 'critical'"):
            self.assertIn(name, message)

    def test_a_run_is_no_search(self):
        self.call("train", "corners", "--steps", "2048", "--num-envs", "8", "--out", "run", "eval.episodes=2")
        self.assertEqual(self.refused("corners", "search", "--resume", "run"),
                         "'run' is no search: it has no search.yaml")
        self.assertEqual(self.refused("corners", "search", "--out", "run").split(";")[0], "'run' holds a run already")

    def test_a_search_is_no_run_and_not_of_another_domain(self):
        self.call("corners", "search", *small(1), "--out", "s")
        self.assertIn("is no run but a search", self.refused("train", "--resume", "s"))
        self.assertEqual(self.refused("maze", "search", "--resume", "s", status=4),
                         "s/search.json: is of 'corners', not of 'maze'")
        (self.folder / "s/search.json").unlink()
        self.assertIn("s/search.json", self.refused("corners", "search", "--resume", "s", status=4))

    def test_a_damaged_state_is_named(self):
        self.call("corners", "search", *small(1), "--out", "s")
        path = self.folder / "s/search.json"
        path.write_text(path.read_text().replace('"eval_reward": ', '"eval_reward": "x" '))
        self.assertEqual(self.refused("corners", "search", "--resume", "s", status=4), "s/search.json: is not JSON")

    def test_an_altered_state_does_not_match_its_checksum(self):
        self.call("corners", "search", *small(1), "--out", "s")
        path = self.folder / "s/search.json"
        whole = path.read_text()
        path.write_text(whole.replace('"success": ', '"success":  ', 1))
        self.call("corners", "search", "--resume", "s")  # other spaces, the same contents
        path.write_text(whole.replace('"episodes_trained": ', '"episodes_trained": 1', 1))
        self.assertEqual(self.refused("corners", "search", "--resume", "s", status=4),
                         "s/search.json: does not match its checksum")

    def test_nothing_is_changed_before_everything_is_checked(self):
        self.call("corners", "search", *small(2), "--out", "s")
        for name in ("training_log.csv", "gp_sampling_log.csv", "policies/1.safetensors"):
            with self.subTest(name=name):
                path = self.folder / "s" / name
                whole = path.read_bytes()
                if path.suffix == ".csv":
                    path.write_bytes(whole[:-1])
                else:
                    path.unlink()
                before = {each.name: each.read_bytes() for each in (self.folder / "s").iterdir() if each.is_file()}
                self.assertIn(f"s/{name}", self.refused("corners", "search", "--resume", "s", "--n-workflows", "3",
                                                        status=4))
                after = {each.name: each.read_bytes() for each in (self.folder / "s").iterdir() if each.is_file()}
                self.assertEqual(after, before)
                path.write_bytes(whole)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--binary", required=True)
    options, rest = parser.parse_known_args()
    BINARY = os.path.abspath(options.binary)
    unittest.main(argv=[sys.argv[0], *rest])

#!/usr/bin/env python3
"""Black-box tests of runs that are stopped, gone on with, damaged and evaluated.

    test_runs.py --binary build/release/flotilla [unittest arguments]
"""

import argparse
import ctypes
import ctypes.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BINARY = None
TIMEOUT_S = 60
SMALL = ["--num-envs", "8", "n_steps=16", "--threads", "1", "eval.episodes=8", "net.hidden=16"]


def cpu_s(pid):
    """What a process has computed, its children not counted."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="flotilla-runs-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run = self.folder / "run"

    def call(self, *arguments, status=0, **environment):
        command = [BINARY, *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, env={**os.environ, **environment}, capture_output=True,
                              text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, status, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done

    def train(self, steps=2048, *more):
        self.call("train", "cartpole", "--out", self.run, "--steps", steps, "--checkpoint-every", 512, *SMALL, *more)
        return self.summary()

    def summary(self):
        return json.loads((self.run / "summary.json").read_text())

    def checkpoints(self):
        return sorted(int(path.name.removeprefix("step_")) for path in (self.run / "checkpoints").iterdir())

    def error(self, done):
        lines = [line for line in done.stderr.splitlines() if line.startswith("flotilla: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0].removeprefix("flotilla: ")

    def lines(self):
        return [json.loads(line) for line in (self.run / "metrics.jsonl").read_text().splitlines()]


class NothingIsMixed(RunTest):
    """A new run goes into a directory that holds nothing a run writes."""

    NAMES = ["config.yaml", "summary.json", "metrics.jsonl", "history.jsonl", "checkpoints", "crashes",
             "events.out.tfevents.1.host"]

    def test_a_new_run_refuses_what_it_would_write(self):
        for name in self.NAMES:
            with self.subTest(name=name):
                folder = self.folder / f"has-{name}"
                folder.mkdir()
                (folder / name).write_text("of the user")
                done = self.call("train", "cartpole", "--out", folder, "--steps", 128, *SMALL, status=2)
                text = self.error(done)
                self.assertIn(str(folder), text)
                self.assertIn("another --out", text)
                self.assertIn("--resume" if name == "config.yaml" else name, text)
                self.assertEqual([path.name for path in folder.iterdir()], [name])
                self.assertEqual((folder / name).read_text(), "of the user")

    def test_a_link_that_leads_nowhere_is_called_so(self):
        self.run.symlink_to(self.folder / "nowhere")
        done = self.call("train", "cartpole", "--out", self.run, "--steps", 128, *SMALL, status=2)
        self.assertIn("leads nowhere", self.error(done))

    def test_other_files_do_not_matter(self):
        self.run.mkdir()
        (self.run / "notes.txt").write_text("of the user")
        (self.run / "plots").mkdir()
        self.train()
        self.assertEqual((self.run / "notes.txt").read_text(), "of the user")

    def test_searches_and_oracles_as_well(self):
        for command, name in ((["corners", "search"], "training_log.csv"), (["corners", "search"], "policies"),
                              (["dvrp", "oracle", "train"], "oracle.safetensors"),
                              (["dvrp", "oracle", "train"], "curves.csv")):
            with self.subTest(command=command, name=name):
                folder = Path(tempfile.mkdtemp(dir=self.folder))
                (folder / name).write_text("of the user")
                text = self.error(self.call(*command, "--out", folder, status=2))
                self.assertIn(f"holds '{name}' already", text)
                self.assertEqual([path.name for path in folder.iterdir()], [name])

    def test_what_the_run_did_not_write_stays(self):
        self.train(1024, "checkpoint.keep=1")
        checkpoints = self.run / "checkpoints"
        (checkpoints / "step_7").mkdir()
        (checkpoints / "step_7" / "thesis.tex").write_text("of the user")
        (checkpoints / "draft.part").mkdir()
        self.call("train", "--resume", self.run, "--steps", 4096)
        self.assertEqual((checkpoints / "step_7" / "thesis.tex").read_text(), "of the user")
        self.assertTrue((checkpoints / "draft.part").is_dir())
        (checkpoints / "draft.part").rmdir()
        self.assertEqual(self.checkpoints(), [7, 4096])

    def test_a_later_checkpoint_of_another_run_does_not_shadow(self):
        self.train(1024)
        other = self.folder / "other"
        self.call("train", "cartpole", "--out", other, "--steps", 9216, *SMALL)
        shutil.copytree(other / "checkpoints/step_9216", self.run / "checkpoints/step_9216")
        self.assertIn("checkpoints of different runs", self.call("eval", self.run, "--episodes", 1).stderr)
        done = self.call("train", "--resume", self.run, "--from-step", 1024, "--steps", 2048)
        self.assertIn("checkpoints of different runs", done.stderr)
        self.assertIn("step_9216.aside", done.stderr)
        self.assertTrue((self.run / "checkpoints/step_9216.aside/model.safetensors").is_file())
        self.assertIn("step_2048", json.loads(self.call("eval", self.run, "--episodes", 1, "--json").stdout)["policy"])

    def test_lines_of_metrics_that_are_missing_doubled_or_swapped_are_noticed(self):
        self.train(1024)
        file = self.run / "metrics.jsonl"
        lines = file.read_text().splitlines(keepends=True)
        for what, changed in (("doubled", lines[:3] + lines[2:]), ("swapped", [lines[1], lines[0], *lines[2:]])):
            with self.subTest(what=what):
                file.write_text("".join(changed))
                done = self.call("train", "--resume", self.run, "--steps", 2048, status=4)
                self.assertIn("comes after step", self.error(done))
                self.assertIn("comes after step", self.error(self.call("plot", self.run, status=4)))
                self.assertEqual(file.read_text(), "".join(changed))
        file.write_text("".join(lines[:2] + lines[3:]))
        done = self.call("train", "--resume", self.run, "--steps", 2048)
        self.assertIn("lacks updates", done.stderr)


class OtherMachines(RunTest):
    """The portable kernels train the same parameters on every CPU.

    These were the same on x86 (g++ 13) and on ARM (g++ 12). A change of the arithmetic changes them:
    then take them anew, on both.
    """

    EXPECTED = {
        "cartpole": "03c21c2393a748d0c39b03665dcdfe6a0c5f95c3b3e81f8a6427c6cb6521e919",
        "pendulum": "b065add28b0f2cf60d50aa4573b399e7ae0117bca31d30d244d7d4c8ea5fd71c",
        "cage2": "ac4de8330fe4cbca245acc4bf14a296b5f2a5532933526e30aa520f6e1186d39",
    }

    # What recipes have changed since.
    SETTINGS = {"cartpole": ["normalize_reward=false", "ppo.gamma=0.98"],
                "pendulum": ["ppo.gamma=0.95", "ppo.learning_rate=0.001"]}

    def test_the_portable_kernels_train_the_same_parameters(self):
        for env, expected in self.EXPECTED.items():
            with self.subTest(env=env):
                done = self.call("train", env, "--steps", 4096, "--seed", 5, "--json", "--out", self.folder / env,
                                 *SMALL, *self.SETTINGS.get(env, []), FLOTILLA_KERNEL="portable")
                summary = json.loads(done.stdout)
                self.assertEqual(summary["kernel"], "fused portable")
                self.assertEqual(summary["params_sha256"], expected)


class Resume(RunTest):
    def test_a_longer_run_is_the_same_as_one_that_was_long_from_the_start(self):
        long = self.train(4096, "ppo.lr_schedule=constant")["params_sha256"]
        shutil.rmtree(self.run)
        self.train(2048, "ppo.lr_schedule=constant")
        done = self.call("train", "--resume", self.run, "--steps", 4096)
        self.assertIn("changed: total_timesteps: 2048 -> 4096", done.stderr)
        self.assertEqual(self.summary()["params_sha256"], long)
        self.assertEqual([line["step"] for line in self.lines()], list(range(128, 4097, 128)))

    def test_a_finished_run_is_left_as_it_is(self):
        before = self.train()
        files = {path: path.read_bytes() for path in self.run.rglob("*") if path.is_file()}
        done = self.call("train", "--resume", self.run, "--json")
        self.assertEqual(json.loads(done.stdout), before)
        self.assertEqual({path: path.read_bytes() for path in self.run.rglob("*") if path.is_file()}, files)

    def test_settings_for_a_finished_run_are_said_to_have_no_effect(self):
        self.train()
        done = self.call("train", "--resume", self.run, "ppo.lr=0.01")
        self.assertRegex(done.stderr, r"is finished: 2048 steps, total_timesteps is reached \(.* of training; limits "
                                      r"count from the run's beginning\)\nwithout effect: "
                                      r"ppo.learning_rate: \S+ -> 0.01\n")
        done = self.call("train", "--resume", self.run, "--duration", "0.001s")
        self.assertIn("is finished: 2048 steps, duration_s is reached", done.stderr)

    def test_changed_settings_are_recorded(self):
        self.train()
        self.call("train", "cartpole", "ppo.lr=0.01", "ppo.lr_schedule=constant", "--resume", self.run, "--steps", 3000, "--threads", 2)
        last = [json.loads(line) for line in (self.run / "history.jsonl").read_text().splitlines()][-2]
        self.assertEqual(last["event"], "resume")
        self.assertEqual(last["step"], 2048)
        self.assertEqual(sorted(change.split(":")[0] for change in last["changes"]), ["ppo.learning_rate", "ppo.learning_rate_schedule",
                                                                                       "threads", "total_timesteps"])
        self.assertIn("learning_rate: 0.01", (self.run / "config.yaml").read_text())
        self.assertEqual(self.lines()[-1]["charts/learning_rate"], 0.01)

    def test_what_the_state_depends_on_cannot_be_changed(self):
        self.train()
        for change in ("env.time_limit=100", "num_envs=4", "replicas=2", "net.hidden=8", "seed=3", "normalize_reward=false",
                       "explore.bonus=0.1", "explore.cells=1024", "curriculum=half_length=2"):
            key = change.split("=")[0]
            done = self.call("train", "--resume", self.run, change, "--steps", 9999, status=2)
            self.assertIn(f"cannot change {key} from", self.error(done))
        done = self.call("train", "pendulum", "--resume", self.run, status=2)
        self.assertIn(f"the run in '{self.run}' is of cartpole, 'pendulum' is of pendulum", self.error(done))

    def test_a_recipe_or_file_changes_no_run(self):
        mine = self.folder / "mine.yaml"
        text = "env: cartpole\nthreads: 0\nnum_envs: 8\ntotal_timesteps: 4096\nppo: {learning_rate: 0.001}\n"
        command = ["train", mine, "--out", self.run, "--auto-resume", "n_steps=16", "--steps"]
        mine.write_text(text)
        for steps in (1024, 2048):
            self.assertNotIn("warn", self.call(*command, steps).stderr)
        mine.write_text(text.replace("0.001", "0.5").replace("8", "16"))
        done = self.call(*command, 3072)
        self.assertIn(f"warn  the run in '{self.run}' keeps its own settings, where '{mine}' has others: num_envs, "
                      "ppo.learning_rate\n", done.stderr)
        self.assertEqual(self.lines()[-1]["charts/learning_rate"], 0.001)
        for what, said in ((["cartpole-impala"], f"the run in '{self.run}' is of ppo, 'cartpole-impala' is of impala"),
                           ([mine, "--algo", "impala"], "a resumed run cannot change algo from ppo to impala"),
                           ([mine, "algo=impala"], "a resumed run cannot change algo from ppo to impala")):
            done = self.call("train", *what, "--out", self.run, "--auto-resume", "--steps", 9999, status=2)
            self.assertIn(said, self.error(done))

    def test_the_same_command_line_is_repeated_without_a_warning(self):
        for name, more in (("cartpole", ["--num-envs", "auto"]), ("cartpole", ["--duration", "1s"]), ("cartpole-appo", []),
                           ("catch", ["--algo", "impala", "impala.learning_rate=0.01"])):
            with self.subTest(name=name, more=more):
                shutil.rmtree(self.run, ignore_errors=True)
                command = ["train", name, "--out", self.run, "--auto-resume", "--iterations", 3, *more]
                self.call(*command)
                said = self.call(*command[:-len(more) - 1], 6, *more).stderr
                self.assertIn("going on after", said)
                self.assertNotIn("keeps its own settings", said)

    def test_a_chosen_number_of_envs_is_kept(self):
        few = SMALL[2:]
        command = ["train", "cartpole", "--out", self.run, *few]
        done = self.call(*command, "--num-envs", "auto", "--steps", 20480, "--auto-resume")
        chosen = int(re.search(r"(?m)^num_envs: (\d+) .*tried in [\d.]+ s: ", done.stderr)[1])
        self.assertIn(f"\n{chosen} x cartpole, ", done.stderr)
        self.assertIn(f"\nnum_envs: {chosen}\n", (self.run / "config.yaml").read_text())
        for more in (["--num-envs", "auto"], ["n_envs=auto"]):
            done = self.call(*command, *more, "--steps", 40960, "--auto-resume")
            self.assertNotIn("tried in", done.stderr)
        self.assertEqual(self.summary()["num_envs"], chosen)
        self.call("train", "--resume", self.run, "num_envs=auto", "--steps", 41000)

    def test_what_cannot_be_chosen_is_refused(self):
        for more, text in ((["--num-envs", "auto", "num_envs=8"], "num_envs=8 and an option that makes it auto"),
                           (["num_envs=auto", "--num-envs", "8"], "num_envs=auto and an option that makes it 8"),
                           (["--num-envs", "many"], "num_envs: expected an integer from 1 to 1000000, got 'many'")):
            self.assertIn(text, self.error(self.call("train", "cartpole", *more, "--out", self.run, status=2)))
        self.assertIn("got 'auto'", self.error(self.call("bench", "ppo", "cartpole", "--num-envs", "auto", status=2)))

    def test_no_run_is_refused_by_name(self):
        done = self.call("train", "--resume", self.folder / "nowhere", status=2)
        self.assertEqual(self.error(done), f"there is no run '{self.folder}/nowhere'")
        done = self.call("train", "--resume", self.folder, status=2)
        self.assertEqual(self.error(done), f"'{self.folder}' is no run: it has no config.yaml")
        (self.folder / "circle").symlink_to("circle")  # nobody can say what is there
        for command in (["train", "--resume"], ["train"], ["eval"], ["plot"], ["export"]):
            said = self.error(self.call(*command, "circle", status=2))
            self.assertRegex(said, "^cannot look at 'circle.*': Too many levels of symbolic links$")
        done = self.call("train", status=2)
        self.assertIn("say what to train", self.error(done))
        done = self.call("train", "cartpole", "--from-step", 5, status=2)
        self.assertIn("--from-step needs --resume", self.error(done))

    def test_a_run_that_had_not_begun_starts_from_the_beginning(self):
        whole = self.train()["params_sha256"]
        shutil.rmtree(self.run / "checkpoints")
        (self.run / "summary.json").unlink()
        done = self.call("train", "--resume", self.run, status=4)
        self.assertEqual(self.error(done), f"'{self.run}' has metrics but no checkpoint to go on from: start a new run")
        (self.run / "metrics.jsonl").write_text("")
        self.call("train", "--resume", self.run)
        self.assertEqual(self.summary()["params_sha256"], whole)
        self.assertEqual([line["step"] for line in self.lines()], list(range(128, 2049, 128)))

    def test_a_directory_in_use_is_refused_by_name(self):
        command = [BINARY, "train", "cartpole", "--out", self.run, "--steps", "1000000000", *SMALL]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as other:
            self.addCleanup(other.kill)
            while not (self.run / "checkpoints" / "step_0").exists():
                time.sleep(0.01)
            done = self.call("train", "--resume", self.run, status=2)
            self.assertEqual(self.error(done), f"another run is using '{self.run}'")
            other.kill()
        self.call("train", "--resume", self.run, "--steps", 128 * 1024)


class FrameStack(RunTest):
    def test_a_resumed_run_has_the_frames_that_it_stopped_with(self):
        stacked = ("env.frame_stack=3", "ppo.lr_schedule=constant")
        long = self.train(2048, *stacked)
        self.assertIn("frame_stack: 3", (self.run / "config.yaml").read_text())
        played = json.loads(self.call("eval", self.run, "--episodes", 8, "--json").stdout)
        self.assertEqual({key: played[key] for key in long["eval"]}, long["eval"])
        for more in (("--backend", "serial"), ("--backend", "processes", "--workers", 2)):
            shutil.rmtree(self.run)
            self.train(1024, *stacked, *more)
            self.call("train", "--resume", self.run, "--steps", 2048)
            self.assertEqual(self.summary()["params_sha256"], long["params_sha256"], more)
        self.assertIn("env.frame_stack", self.error(
            self.call("train", "--resume", self.run, "frame_stack=2", "--steps", 4096, status=2)))
        self.assertIn("is for observations of 12 numbers",
                      self.error(self.call("eval", self.run, "frame_stack=2", status=4)))

    def test_a_run_from_before_there_was_such_a_key(self):
        self.train(1024)
        config = (self.run / "config.yaml").read_text()
        self.assertIn("  frame_stack: 1\n", config)
        (self.run / "config.yaml").write_text(config.replace("  frame_stack: 1\n", ""))
        self.call("train", "--resume", self.run, "--steps", 2048)
        resumed = self.summary()["params_sha256"]
        shutil.rmtree(self.run)
        self.train(1024)
        self.call("train", "--resume", self.run, "--steps", 2048)
        self.assertEqual(self.summary()["params_sha256"], resumed)


class Damage(RunTest):
    """Exit status 4, the file and the reason, and the checkpoint before it."""

    def setUp(self):
        super().setUp()
        self.parameters = self.train()["params_sha256"]
        (self.run / "summary.json").unlink()
        self.last = self.run / "checkpoints" / "step_2048"

    def refusal(self, *more):
        return self.error(self.call("train", "--resume", self.run, *more, status=4))

    def test_an_altered_file_is_refused_and_the_one_before_it_offered(self):
        for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
            path = self.last / name
            whole = path.read_bytes()
            path.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
            text = self.refusal()
            self.assertIn(str(path), text)
            self.assertIn("step_1536 before it is whole: add --from-step 1536", text)
            path.write_bytes(whole[:len(whole) // 2])
            self.assertIn(str(path), self.refusal())
            path.unlink()
            self.assertIn(str(path), self.refusal())
            path.write_bytes(whole)

    def test_what_is_offered_works(self):
        (self.last / "model.safetensors").write_bytes(b"")
        self.assertIn("--from-step 1536", self.refusal())
        self.call("train", "--resume", self.run, "--from-step", 1536)
        self.assertEqual(self.summary()["params_sha256"], self.parameters)
        self.assertEqual([line["step"] for line in self.lines()], list(range(128, 2049, 128)))

    def test_evaluation_offers_it_too(self):
        (self.last / "model.safetensors").write_bytes(b"")
        text = self.error(self.call("eval", self.run, status=4))
        self.assertIn("step_1536 before it is whole: add --checkpoint 1536", text)
        self.call("eval", self.run, "--checkpoint", 1536, "--episodes", 2)

    def test_a_policy_named_by_its_file_is_checked_as_well(self):
        path = self.last / "model.safetensors"
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 0x80]))  # still a file of numbers
        for named in (self.last, path):
            self.assertEqual(self.error(self.call("eval", named, status=4)),
                             f"{path}: does not match its checksum")
        alone = self.folder / "model.safetensors"
        alone.write_bytes(whole)
        self.call("eval", alone, "--episodes", 1)

    def test_damaged_ones_are_not_offered(self):
        for step in self.checkpoints():
            (self.run / "checkpoints" / f"step_{step}" / "optimizer.safetensors").write_bytes(b"x")
        self.assertIn("no whole checkpoint is before it", self.refusal())

    def test_another_format_is_refused(self):
        path = self.last / "state.json"
        path.write_text(path.read_text().replace('"format": 2', '"format": 99'))
        self.assertIn(f"{path}: has format 99, this program reads 2", self.refusal())

    def test_a_checkpoint_of_another_env_is_refused(self):
        other = self.folder / "other"
        self.call("train", "pendulum", "--out", other, "--steps", 128, *SMALL)
        shutil.rmtree(self.last)
        shutil.copytree(other / "checkpoints" / "step_128", self.last)
        self.assertIn(f"{self.last}: is of 'pendulum', this run is of 'cartpole'; step_1536 before it is whole",
                      self.refusal())
        self.assertEqual(self.call("eval", self.run, "--checkpoint", 1536).returncode, 0)

    def test_a_checkpoint_of_another_env_is_not_offered(self):
        other = self.folder / "other"
        self.call("train", "pendulum", "--out", other, "--steps", 1536, *SMALL)
        before = self.last.parent / "step_1536"
        shutil.rmtree(before)
        shutil.copytree(other / "checkpoints" / "step_1536", before)
        (self.last / "optimizer.safetensors").write_bytes(b"x")
        self.assertIn("step_1024 before it is whole", self.refusal())
        (self.last / "model.safetensors").write_bytes(b"x")
        said = self.error(self.call("eval", self.run, status=4))
        self.assertIn("step_1024 before it is whole: add --checkpoint 1024", said)
        said = self.error(self.call("eval", self.run, "--checkpoint", 1536, status=4))
        self.assertIn(f"{before}: is of 'pendulum', this run is of 'cartpole'; step_1024 before it is whole", said)

    def test_checkpoints_that_cannot_be_listed_are_not_called_missing(self):
        folder = self.last.parent
        shutil.rmtree(folder)
        folder.symlink_to("checkpoints")
        said = f"cannot read {folder}: it is a symbolic link"
        self.assertEqual(self.error(self.call("train", "--resume", self.run, "--steps", 4096, status=4)), said)
        self.assertEqual(self.error(self.call("eval", self.run, status=4)), said)

    @unittest.skipIf(os.geteuid() != 0, "needs another user")
    def test_checkpoints_that_cannot_be_written_are_noticed_before_anything_is_removed(self):
        (self.run / "summary.json").write_text("{}")
        for path in (self.folder, self.run, *self.run.iterdir()):
            path.chmod(0o777)
        self.last.parent.chmod(0o755)
        binary = self.folder / "flotilla"  # where everybody may go
        shutil.copy(BINARY, binary)
        done = subprocess.run([binary, "train", "--resume", self.run, "--steps", "4096"], user=65534,
                              capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"cannot write to '{self.last.parent}': Permission denied", done.stderr)
        self.assertTrue((self.run / "summary.json").exists())

    def test_a_checkpoint_under_another_name_is_refused(self):
        self.last.rename(self.run / "checkpoints" / "step_999999")
        said = "step_999999/state.json: is of step 2048, the directory is called step_999999; step_1536 before it"
        self.assertIn(said, self.refusal())
        self.assertIn(said, self.error(self.call("eval", self.run, status=4)))

    def test_a_lost_event_file_is_mentioned(self):
        for path in self.run.glob("events.out.tfevents.*"):
            path.unlink()
        done = self.call("train", "--resume", self.run, "--steps", 4096)
        self.assertRegex(done.stderr, "the event file lacks updates.*last_step=0 checkpoint=2048")
        self.assertEqual(len(list(self.run.glob("events.out.tfevents.*"))), 1)

    def test_a_damaged_event_file_is_mentioned(self):
        (path,) = self.run.glob("events.out.tfevents.*")
        damaged = bytearray(path.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        path.write_bytes(damaged)
        done = self.call("train", "--resume", self.run, "--steps", 4096)
        self.assertRegex(done.stderr, r"the event file lacks updates.*last_step=\d+ checkpoint=2048")
        self.assertNotIn("lacks", self.call("train", "--resume", self.run, "--steps", 8192).stderr)

    def test_damaged_metrics_are_not_cut(self):
        path = self.run / "metrics.jsonl"
        whole = path.read_text()
        lines = whole.splitlines(keepends=True)
        path.write_text("".join([*lines[:5], "z" + lines[5][1:], *lines[6:]]))
        damaged = path.read_text()
        self.assertIn(f"{path}:6: is damaged", self.refusal("--steps", 4096))
        self.assertEqual(path.read_text(), damaged)
        path.write_text("".join(lines[:5]))
        done = self.call("train", "--resume", self.run, "--steps", 4096)
        self.assertRegex(done.stderr, "metrics.jsonl lacks updates before the checkpoint.*last_step=640 checkpoint=2048")

    def test_an_empty_name_is_no_new_run(self):
        done = self.call("train", "cartpole", "--resume", "", status=2)
        self.assertIn("--resume: expected the directory of a run", self.error(done))

    def test_an_unknown_step_names_those_there_are(self):
        done = self.call("train", "--resume", self.run, "--from-step", 77, status=2)
        self.assertEqual(self.error(done), "there is no checkpoint of step 77; there are 1024, 1536, 2048")


class Interrupt(RunTest):
    def start(self, *more, updates=True, **options):
        command = [BINARY, "train", "cartpole", "--out", str(self.run), "--steps", "1000000000", *SMALL, *more]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, **options)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        while not (self.run / "checkpoints" / "step_0").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        # Whoever has written two has ended the first, from which on the program tells of signals.
        while updates and (self.run / "metrics.jsonl").read_text().count("\n") < 2:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        return process

    def test_a_signal_ends_the_update_and_writes_a_checkpoint(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start()
            process.send_signal(number)
            _, text = process.communicate(timeout=TIMEOUT_S)
            self.assertEqual(process.returncode, 130, text)
            self.assertIn("again: stop at once", text)
            self.assertIn(f"resume with --resume {self.run}", text)
            last = self.lines()[-1]["step"]
            self.assertEqual(self.checkpoints(), [0, last])
            self.assertIn('"interrupted"', (self.run / "history.jsonl").read_text())
            shutil.rmtree(self.run)

    def test_a_lost_terminal_ends_the_run_but_not_its_workers(self):
        process = self.start("--backend", "processes", start_new_session=True)
        os.killpg(process.pid, signal.SIGHUP)
        _, text = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 130, text)
        self.assertEqual(self.checkpoints(), [0, self.lines()[-1]["step"]])

    def test_under_nohup_a_lost_terminal_is_nothing(self):
        process = self.start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        self.assertIsNone(process.poll())

    def test_a_directory_that_is_moved_or_deleted_ends_the_run(self):
        elsewhere = self.folder / "elsewhere"
        for change, became in ((shutil.rmtree, "deleted"), (self.replace, "deleted"),
                               (self.move, f"moved to '{elsewhere}'")):
            process = self.start()
            change(self.run)
            process.send_signal(signal.SIGINT)
            _, text = process.communicate(timeout=TIMEOUT_S)
            self.assertEqual(process.returncode, 4, text)
            self.assertIn(f"the run directory '{self.run}' was {became}", text)
            self.assertFalse((self.run / "checkpoints").exists())
            shutil.rmtree(self.run, ignore_errors=True)
        self.assertIn(f"resume with --resume {elsewhere}", text)
        self.run = elsewhere  # which is whole
        self.call("train", "--resume", self.run, "--steps", 256)
        self.assertEqual(self.summary()["steps"], 256)

    def replace(self, run):
        shutil.rmtree(run)
        run.mkdir()

    def move(self, run):
        run.rename(self.folder / "elsewhere")

    def test_the_last_evaluation_can_be_interrupted_and_made_up_for(self):
        command = [BINARY, "train", "cartpole", "--out", str(self.run), "--steps", "128", *SMALL, "eval.episodes=1000000"]
        command.remove("eval.episodes=8")
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            while not (self.run / "checkpoints" / "step_128").exists():
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, text = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 130, text)
        self.assertIn(f"interrupted after 128 steps; resume with --resume {self.run}", text)
        self.call("train", "--resume", self.run, "eval.episodes=5")
        self.assertEqual(self.summary()["eval"]["episodes"], 5)

    def test_a_second_signal_ends_it_at_once(self):
        # An update of seconds: the first signal waits for it.
        process = self.start("ppo.n_epochs=1000", "n_steps=5000", updates=False)
        before = cpu_s(process.pid)
        while cpu_s(process.pid) < before + 0.2:  # then it is in the update
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=TIMEOUT_S)
        self.assertLess(time.monotonic() - start, 1)
        self.assertEqual(process.returncode, 130)
        self.assertNotIn("did not end in time", text)
        self.assertEqual(self.checkpoints(), [0])


class FullDisk(RunTest):
    def mount(self, size):
        """A small file system of our own; skipped where that is not allowed."""
        where = self.folder / "disk"
        where.mkdir()
        libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        if libc.mount(b"tmpfs", str(where).encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
            self.skipTest(f"mount: {os.strerror(ctypes.get_errno())}")
        self.addCleanup(libc.umount2, str(where).encode(), 2)
        return where

    def test_a_full_disk_is_said_and_the_last_checkpoint_stays(self):
        self.run = self.mount("10m") / "run"
        done = self.call("train", "cartpole", "--steps", 200_000_000, "--out", self.run, "--checkpoint-every", 1024,
                         "--num-envs", 8, "horizon=16", "--threads", 1, "net.hidden=64", status=4)
        text = self.error(done)
        self.assertIn("No space left on device", text)
        last = self.checkpoints()[-1]
        self.assertIn(f"the last checkpoint is step_{last}: resume with --resume {self.run}", text)
        self.call("eval", self.run, "--episodes", 5)
        # With room again, it goes on.
        elsewhere = self.folder / "moved"
        shutil.copytree(self.run, elsewhere)
        self.call("train", "--resume", elsewhere, "--steps", last + 4096)
        steps = [json.loads(line)["step"] for line in (elsewhere / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(steps, list(range(128, steps[-1] + 1, 128)))

    def test_a_directory_that_cannot_be_written_is_refused_by_name(self):
        where = self.mount("1m")
        libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        read_only, remount = 1, 32
        self.assertEqual(libc.mount(b"tmpfs", str(where).encode(), b"tmpfs", read_only | remount, b""), 0)
        done = self.call("train", "cartpole", "--out", where / "run", *SMALL, status=2)
        self.assertIn(f"'{where}/run'", self.error(done))


class Metrics(RunTest):
    def test_names_and_values(self):
        summary = self.train(4096, "eval.every=8")
        lines = self.lines()
        self.assertEqual([line["update"] for line in lines], list(range(1, 33)))
        always = {"charts/SPS", "charts/learning_rate", "losses/policy_loss", "losses/value_loss", "losses/entropy",
                  "losses/approx_kl", "losses/clipfrac", "losses/explained_variance", "memory/rss_mb"}
        for line in lines:
            self.assertLessEqual(always, line.keys())
        ended = [line for line in lines if "charts/episodic_return" in line]
        self.assertTrue(ended)
        for line in ended:  # one reward per step in this environment
            self.assertEqual(line["charts/episodic_return"], line["charts/episodic_length"])
        self.assertEqual(lines[-1]["charts/return_mean_100"], summary["return_mean_100"])
        self.assertEqual([line["update"] for line in lines if "eval/episodic_return" in line], [8, 16, 24, 32])
        self.assertEqual(lines[-1]["eval/episodic_return"], summary["eval"]["mean"])
        best = max((line for line in lines if "eval/episodic_return" in line),
                   key=lambda line: line["eval/episodic_return"])
        self.assertEqual(summary["best"], {"step": best["step"], "mean": best["eval/episodic_return"]})
        self.assertEqual(len(list(self.run.glob("events.out.tfevents.*"))), 1)

    def test_metrics_of_the_environment_have_its_names(self):
        self.call("train", "corners", "--out", self.run, "--steps", 4096, *SMALL)
        names = {name for line in self.lines() for name in line if name.startswith("env/")}
        self.assertGreater(len(names), 1)


class Names(RunTest):
    def test_a_path_does_not_drive_the_terminal(self):
        self.run = self.folder / "a\x1b[31m\nb"
        self.train()
        for command in (["eval", "--episodes", 2], ["plot"], ["export"], ["train", "--steps", 4096, "--resume"]):
            with self.subTest(command=command[0]):
                shown = self.call(*command, self.run)
                self.assertNotIn("\x1b", shown.stdout + shown.stderr)
                self.assertIn("a\\x1b[31m\\nb", shown.stdout)


class WarmStart(RunTest):
    def test_init(self):
        self.train()
        model = self.run / "checkpoints/step_2048/model.safetensors"
        small = ["--num-envs", 8, "n_steps=16", "--threads", 1, "eval.episodes=8"]
        for name, source in (("of_run", self.run), ("of_file", model)):
            self.call("train", "cartpole", "force=8", "--init", source, "--steps", 1024, "--out", name, *small)
            start = json.loads((self.folder / name / "history.jsonl").read_text().splitlines()[0])
            self.assertEqual(start["init"], str(source))
            self.assertEqual(start["init_params_sha256"], self.summary()["params_sha256"])
            self.assertIn('hidden: "16"', (self.folder / name / "config.yaml").read_text())
        summaries = [json.loads((self.folder / name / "summary.json").read_text()) for name in ("of_run", "of_file")]
        self.assertEqual(summaries[0]["params_sha256"], summaries[1]["params_sha256"])
        self.assertIn("has actions", self.error(self.call("train", "pendulum", "--init", self.run, status=4)))
        self.assertFalse((self.folder / "runs").exists())
        for setting, said in (("normalize_obs=true", "normalize_obs: expected false, as the policy of init has it"),
                              ("net.hidden=32", "net.hidden: expected 16, as the policy of init has it")):
            done = self.call("train", "cartpole", "--init", self.run, setting, "--out", "mistaken", status=2)
            self.assertIn(said, self.error(done))
            self.assertFalse((self.folder / "mistaken").exists())
        self.assertIn("cannot change init", self.error(self.call("train", "--resume", self.run, "--init", model, status=2)))


    def test_attention_as_well(self):
        groups = ("net.torso=attention", "net.groups=1x2:16,2x1:16", "net.fusion=64")
        self.train(1024, *groups)
        self.call("train", "cartpole", "--init", self.run, "force=8", "--steps", 512, "--out", "second", *SMALL)
        config = (self.folder / "second/config.yaml").read_text()
        self.assertIn('groups: "1x2:16,2x1:16"', config)
        self.assertIn("2 episodes of cartpole", self.call("eval", self.run, "force=8", "--episodes", 2).stdout)


class Impala(RunTest):
    SETTINGS = ("cartpole-impala", "--steps", "8192", "num_envs=12", "n_steps=16", "eval.episodes=5", "--json")

    def parameters(self, out, *arguments):
        done = self.call("train", *self.SETTINGS, "--out", out, *arguments)
        return json.loads(done.stdout)["params_sha256"]

    def test_parameters_do_not_depend_on_threads_or_back_ends(self):
        expected = self.parameters("serial", "--backend", "serial")
        self.assertEqual(self.parameters("threads", "--threads", "3"), expected)
        self.assertEqual(self.parameters("processes", "--backend", "processes", "--workers", "2"), expected)
        self.assertNotEqual(self.parameters("seed", "--seed", "9"), expected)

    def test_actors_with_a_fixed_schedule_are_repeatable_and_resume(self):
        settings = ("impala.learning_rate_schedule=constant", "--backend", "actors", "async.schedule=fixed", "async.lag=1")
        expected = self.parameters("one", *settings, "--threads", "1", "--actors", "1")
        self.assertEqual(self.parameters("more", *settings, "--threads", "3", "--actors", "5"), expected)
        self.assertEqual(self.parameters("none", *settings[1:4], "async.lag=0"), self.parameters("serial", "--backend", "serial"))
        phases = "curriculum=half_length=0.25 until_steps=3000; half_length=0.6"
        self.assertEqual(self.parameters("phases", *settings[1:4], "async.lag=0", phases),
                         self.parameters("in_turn", "--backend", "serial", phases))
        start = [part for part in self.SETTINGS if part not in ("--steps", "8192")]
        done = self.call("train", *start, *settings, "--steps", "4000", "--actors", "4", "--out", "half")
        self.assertIn("4 actors, lag 1", done.stderr)
        done = self.call("train", "--resume", "half", "--steps", "8192", "--threads", "1", "--actors", "3", "--json")
        self.assertEqual(json.loads(done.stdout)["params_sha256"], expected)
        for change, said in (("--backend=threads", "backend from actors to threads"), ("async.lag=2", "async.lag from 1 to 2"),
                             ("n_steps=8", "n_steps from 16 to 8")):
            error = self.error(self.call("train", "--resume", "half", change, "--steps", "9999", status=2))
            self.assertIn("cannot change " + said, error)

    def test_a_key_of_another_algorithm_is_named(self):
        error = self.error(self.call("train", *self.SETTINGS, "ppo.gamma=0.9", status=2))
        self.assertIn("ppo.gamma", error)


class Verify(RunTest):
    def verify(self, *arguments, status=0, **environment):
        return self.call("verify", "cartpole", "total_timesteps=2048", "n_steps=16", "num_envs=8", "eval.episodes=8",
                         "net.hidden=16", *arguments, status=status, **environment)

    def test_scores_are_those_of_train(self):
        self.train(2048, "--seed", 5)
        found = json.loads(self.verify("--seeds", 3, "--first-seed", 4, "--json").stdout)
        self.assertEqual([result["seed"] for result in found["results"]], [4, 5, 6])
        self.assertEqual(found["results"][1]["score"], self.summary()["eval"]["mean"])
        self.assertEqual((found["passed"], found["failures"], found["at_least"]), (3, [], None))
        self.assertTrue(15 < found["random"] < 35 and 8 < found["constant"] < 11, found)
        self.assertEqual(list(self.folder.iterdir()), [self.run])

    def test_what_is_missed_is_said(self):
        done = self.verify("--seeds", 2, "--at-least", 501, "--out", "kept", status=1)
        self.assertRegex(done.stdout, r"\Acartpole: 0 of 2 at 501 or more \(seeds 0 to 1\)\n")
        self.assertRegex(done.stdout, r"\n  seed 0: \d+\.\d\d\n  seed 1: \d+\.\d\d\n\Z")
        self.assertEqual(sorted(path.name for path in (self.folder / "kept").iterdir()), ["seed0", "seed1"])
        self.assertIn("eval.episodes: a score needs at least one", self.error(self.verify("eval.episodes=0", status=2)))

    def test_metrics_are_those_of_the_evaluation(self):
        done = self.call("verify", "corners", "total_timesteps=512", "n_steps=16", "num_envs=8", "eval.episodes=3", "net.hidden=8",
                         "--seeds", 1, "--out", "kept", "--json")
        (result,) = json.loads(done.stdout)["results"]
        self.assertIn("targets_visited", result["metrics"])
        self.assertEqual(result["metrics"], json.loads((self.folder / "kept/seed0/summary.json").read_text())["eval"]["metrics"])

    def test_a_missing_folder_for_temporary_files_is_named(self):
        error = self.error(self.verify("--seeds", 1, status=2, TMPDIR="/nowhere"))
        self.assertIn("there is no folder for temporary files: TMPDIR is '/nowhere'", error)

    def test_an_interrupted_one_names_no_run_that_is_gone(self):
        with subprocess.Popen([BINARY, "verify", "cartpole", "--seeds", "1000"], cwd=self.folder, stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True) as process:
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            _, text = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 130, text)
        self.assertIn("interrupted; the runs are kept only where --out names a directory", text)
        self.assertNotIn("--resume", text)


class Evaluate(RunTest):
    def test_the_policy_file_reproduces_the_summary(self):
        for what, more in (("cartpole", ()), ("pendulum", ("net.normalise_obs=true", "env.time_limit=50"))):
            self.call("train", what, "--out", self.run, "--steps", 2048, *SMALL, *more)
            summary = self.summary()
            (path,) = self.run.glob("checkpoints/step_2048/model.safetensors")
            alone = shutil.copy(path, self.folder / "alone.safetensors")
            for where in (self.run, alone):
                got = json.loads(self.call("eval", where, "--episodes", 8, "--json").stdout)
                self.assertEqual({key: got[key] for key in summary["eval"]}, summary["eval"])
            other = json.loads(self.call("eval", self.run, "--episodes", 8, "--seed", 5, "--json").stdout)
            self.assertNotEqual(other["mean"], summary["eval"]["mean"])
            sampled = json.loads(self.call("eval", self.run, "--episodes", 8, "--sampled", "--json").stdout)
            self.assertNotEqual(sampled["mean"], summary["eval"]["mean"])
            shutil.rmtree(self.run)

    def test_the_best_checkpoint_is_kept(self):
        summary = self.train(8192, "eval.every=4", "checkpoint.keep=1")
        best = summary["best"]
        self.assertEqual(self.checkpoints(), sorted({best["step"], 8192}))
        got = json.loads(self.call("eval", self.run, "--checkpoint", "best", "--episodes", 8, "--json").stdout)
        self.assertEqual(got["mean"], best["mean"])

    def test_a_score_ends_the_training(self):
        summary = self.train(1_000_000, "eval.every=2", "eval.stop_at=12")
        self.assertLess(summary["steps"], 500_000)
        self.assertGreaterEqual(summary["best"]["mean"], 12)
        self.assertRegex(summary["ended_by"], r"\Aeval.stop_at: the evaluation at step \d+ has \S+, 12 was asked for\Z")
        self.assertEqual(json.loads((self.run / "history.jsonl").read_text().splitlines()[-1])["ended_by"], summary["ended_by"])
        self.call("train", "--resume", self.run)  # and it stays ended
        self.assertEqual(self.summary()["steps"], summary["steps"])

    def test_eval_freq_counts_steps(self):
        self.train(2048, "--eval-freq", 500)  # updates are of 128 steps
        evaluated = [line["step"] for line in self.lines() if "eval/episodic_return" in line]
        self.assertEqual(evaluated, [512, 1024, 1536, 2048])

    def test_patience_ends_the_training(self):
        summary = self.train(10_000_000, "eval.every=1", "eval.patience=5", "ppo.lr=0", "eval.episodes=4")
        self.assertEqual(summary["steps"], 128 * 6)
        self.assertIn("eval.patience: 5 evaluations since the best", summary["ended_by"])

    def test_other_settings_of_the_environment(self):
        self.assertEqual(self.train()["ended_by"], "total_timesteps")
        def mean(*overrides):
            return json.loads(self.call("eval", self.run, "--episodes", 8, "--json", *overrides).stdout)["mean"]
        self.assertEqual(mean(), self.summary()["eval"]["mean"])
        self.assertEqual(mean("env.time_limit=5"), 5)
        self.assertEqual(mean("time_limit=3"), 3)
        self.assertIn("unknown key 'time_limt'; did you mean 'time_limit'?",
                      self.error(self.call("eval", self.run, "time_limt=3", status=2)))

    def test_errors(self):
        self.assertIn("there is no run or policy file", self.error(self.call("eval", "nothing", status=2)))
        self.train()
        shutil.copytree(self.run, self.folder / "bare", ignore=shutil.ignore_patterns("step_*"))
        self.assertIn("'bare' has no checkpoints", self.error(self.call("eval", "bare", status=4)))
        self.assertIn("none is best", self.error(self.call("eval", self.run, "--checkpoint", "best", status=2)))
        self.assertIn("expected last, best or a step of 1024, 1536, 2048; got '3'",
                      self.error(self.call("eval", self.run, "--checkpoint", "3", status=2)))
        shown = self.call("eval", self.run, "--episodes", 1).stdout
        self.assertRegex(shown, r"\n1 episode of cartpole: return \d+\.00, length \d+\.0\n")
        one = json.loads(self.call("eval", self.run, "--episodes", 1, "--json").stdout)
        self.assertEqual((one["std"], one["ci95"]), (None, None))
        self.assertIn("--seed: Value -1 not in range", self.error(self.call("eval", self.run, "--seed", -1, status=2)))
        self.assertIn("eval_freq and eval.episodes above 0",
                      self.error(self.call("train", "cartpole", "eval.stop_at=5", status=2)))
        self.assertIn("expected a number or 'never', got 'soon'",
                      self.error(self.call("train", "cartpole", "eval.stop_at=soon", status=2)))
        path = self.run / "checkpoints" / "step_2048" / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        self.assertIn(str(path), self.error(self.call("eval", self.run, status=4)))
        self.assertIn(str(path), self.error(self.call("eval", path, status=4)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--binary", required=True)
    options, rest = parser.parse_known_args()
    BINARY = os.path.abspath(options.binary)
    unittest.main(argv=[sys.argv[0], *rest])

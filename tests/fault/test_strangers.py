#!/usr/bin/env python3
"""Run directories of strangers: whatever lies in one, nothing outside of it is written or shown.

    test_strangers.py --binary build/release/flotilla [unittest arguments]

Every file of a run in turn becomes a link, a named pipe, a directory, a device or a file that
belongs elsewhere as well, and every command that takes a run is tried on it. The witness is a
snapshot of everything around the run before and after, and a word in the files outside that no
output may contain.
"""

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = None
TIMEOUT_S = 60
SMALL = ["--num-envs", "4", "horizon=16", "--threads", "1", "eval.episodes=2", "net.hidden=8"]
STATUSES = {0, 1, 2, 3, 4, 5, 70}
SECRET = "e7a9secretword"


def run(*arguments, cwd=None):
    return subprocess.run([BINARY, *map(str, arguments)], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=TIMEOUT_S, check=False)


def snapshot(folder):
    """Name, kind, size, time of change and bytes of all that is there."""
    seen = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        plain = stat.S_ISREG(facts.st_mode)
        seen[str(path)] = (facts.st_mode, facts.st_mtime_ns if not path.is_dir() else 0,
                           path.read_bytes() if plain else b"")
    return seen


def with_secret(path):
    """A copy that a program which follows a link could use, and whose use would show."""
    data = path.read_bytes()
    if path.suffix == ".yaml":
        return data + f"# {SECRET}\nseed: {SECRET}\n".encode()
    if path.suffix == ".jsonl":
        return data + json.dumps({SECRET: 1}).encode() + b"\n"
    if path.suffix == ".json":
        return data.replace(b"{", b'{"' + SECRET.encode() + b'": 1,', 1)
    return data + SECRET.encode()


class Place:
    """A run, a file of it that is about to be replaced, and a folder outside."""

    def __init__(self, model, name):
        self.root = Path(tempfile.mkdtemp(prefix="flotilla-strangers-"))
        self.run, self.outside = self.root / "run", self.root / "outside"
        shutil.copytree(model, self.run, symlinks=True)
        self.outside.mkdir()
        self.target = self.run / name
        self.other = self.outside / self.target.name
        self.target.parent.mkdir(exist_ok=True)
        if self.target.is_dir():  # whole and usable, so that a program that follows writes there
            shutil.copytree(self.target, self.other)
        elif self.target.is_file():
            self.other.write_bytes(with_secret(self.target))
        elif self.target.suffix in ("", ".part"):
            self.other.mkdir()
            (self.other / "file").write_text(SECRET)
        else:
            self.other.write_text(SECRET)

    def clear(self):
        if self.target.is_dir() and not self.target.is_symlink():
            shutil.rmtree(self.target)
        else:
            self.target.unlink(missing_ok=True)

    def remove(self):
        shutil.rmtree(self.root)


def make_link(place):
    place.target.symlink_to(place.other)


def make_dangling_link(place):
    place.target.symlink_to(place.outside / "made-by-a-link")


def make_relative_link(place):
    place.target.symlink_to(os.path.relpath(place.other, place.target.parent))


def make_pipe(place):
    os.mkfifo(place.target)


def make_directory(place):
    place.target.mkdir()
    (place.target / "file").write_text(SECRET)


def make_device(place):
    try:
        os.mknod(place.target, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        place.target.symlink_to("/dev/zero")


def make_hard_link(place):
    if place.other.is_dir():
        place.target.symlink_to(place.other)
    else:
        os.link(place.other, place.target)


def make_file_of_another_user(place):
    place.target.write_text("not yours\n")
    place.target.chmod(0)
    try:
        os.chown(place.target, 65534, 65534)
    except PermissionError:
        pass


KINDS = [make_link, make_dangling_link, make_relative_link, make_pipe, make_directory, make_device, make_hard_link,
         make_file_of_another_user]


class Strangers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = Path(tempfile.mkdtemp(prefix="flotilla-models-"))
        cls.addClassCleanup(shutil.rmtree, cls.models)

    def check(self, model, name, kind, commands):
        for command in commands:
            with self.subTest(name=name, kind=kind.__name__, command=" ".join(map(str, command))):
                place = Place(model, name)
                self.addCleanup(place.remove)
                place.clear()
                kind(place)
                before = snapshot(place.outside)
                done = run(*[place.run if part == "RUN" else part for part in command], cwd=place.root)
                output = (done.stdout + done.stderr).decode(errors="replace")
                self.assertIn(done.returncode, STATUSES, output)
                self.assertEqual(snapshot(place.outside), before, output)
                self.assertEqual(sorted(path.name for path in place.root.iterdir()), ["outside", "run"], output)
                if kind is not make_hard_link:  # which is a file like any other to whoever reads it
                    self.assertNotIn(SECRET, output)
                    for path in place.run.rglob("*"):
                        regular = stat.S_ISREG(path.lstat().st_mode)
                        planted = path.name == "file"
                        if regular and not planted:
                            self.assertNotIn(SECRET.encode(), path.read_bytes(), path)


class Runs(Strangers):
    COMMANDS = [("train", "--resume", "RUN", "--steps", "512"), ("eval", "RUN", "--episodes", "1"), ("plot", "RUN"),
                ("compare", "RUN", "RUN", "--out", "run/compare.svg"), ("export", "RUN")]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_model = cls.models / "run"
        done = run("train", "cartpole", "--out", cls.run_model, "--steps", 256, "--checkpoint-every", 128, *SMALL)
        assert done.returncode == 0, done.stderr
        cls.last = "checkpoints/" + sorted((cls.run_model / "checkpoints").iterdir())[-1].name

    def files(self):
        events = next(self.run_model.glob("events.out.tfevents.*")).name
        return ["config.yaml", "summary.json", "metrics.jsonl", "history.jsonl", events, "checkpoints", self.last,
                f"{self.last}/model.safetensors", f"{self.last}/optimizer.safetensors", f"{self.last}/state.json",
                "checkpoints/step_320.part", "crashes", "plots", "plots/learning.svg", "metrics.csv"]

    def test_every_file_of_every_kind(self):
        for name in self.files():
            for kind in KINDS:
                self.check(self.run_model, name, kind, self.COMMANDS)

    def test_a_crash_folder_outside_is_taken_from_the_command_line_only(self):
        place = Place(self.run_model, "config.yaml")
        self.addCleanup(place.remove)
        config = place.run / "config.yaml"
        text = config.read_text()
        self.assertIn("crash_dir: crashes", text)
        config.write_text(text.replace("crash_dir: crashes", f"crash_dir: {place.outside}/new"))
        done = run("train", "--resume", place.run, "--steps", 512)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"crash_dir", done.stderr)
        self.assertIn("crash_dir: crashes", config.read_text())
        done = run("train", "--resume", place.run, "--steps", 768, f"crash_dir={place.root}/mine")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"crash_dir: {place.root}/mine", config.read_text())

    def test_the_path_to_a_run_may_lead_through_links(self):
        place = Place(self.run_model, "config.yaml")
        self.addCleanup(place.remove)
        (place.root / "folder").symlink_to(place.root)
        (place.root / "link").symlink_to("folder/run")
        for command in self.COMMANDS:
            with self.subTest(command=command[0]):
                done = run(*["link" if part == "RUN" else part for part in command], cwd=place.root)
                self.assertEqual(done.returncode, 0, done.stderr)
        (place.root / "empty").mkdir()
        (place.root / "out").symlink_to("empty")
        for out in ("out", "folder/new"):
            done = run("train", "cartpole", "--out", out, "--steps", 64, *SMALL, cwd=place.root)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((place.root / "empty/summary.json").is_file())

    def test_a_moved_link_is_noticed(self):
        place = Place(self.run_model, "config.yaml")
        self.addCleanup(place.remove)
        (place.root / "link").symlink_to("run")
        lock = subprocess.Popen(["flock", "--exclusive", place.run, "sleep", "10"])
        self.addCleanup(lock.wait)
        self.addCleanup(lock.terminate)
        for _ in range(100):
            done = run("train", "--resume", "link", "--steps", 320, cwd=place.root)
            if done.returncode != 0:
                break
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"another run is using", done.stderr)


class Searches(Strangers):
    COMMANDS = [("corners", "search", "--resume", "RUN", "--n-workflows", "2")]
    FILES = ["config.yaml", "search.yaml", "search.json", "training_log.csv", "gp_sampling_log.csv", "policies",
             "policies/1.safetensors", "policies/2.safetensors", "posterior.svg", "crashes"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.models / "search"
        done = run("corners", "search", "--n-workflows", "1", "--n-envs", "2", "--episodes-per-env", "2",
                   "eval.episodes=2", "--threads", "1", "--inherit", "previous", "--out", cls.model)
        assert done.returncode == 0, done.stderr

    def test_every_file_of_every_kind(self):
        for name in self.FILES:
            for kind in KINDS:
                self.check(self.model, name, kind, self.COMMANDS)


class Pictures(Strangers):
    def test_no_policy_is_read_through_a_link(self):
        model = self.models / "cage2"
        done = run("train", "cage2", "--out", model, "--steps", 400, "--num-envs", 4, "horizon=50", "eval.episodes=1",
                   "--threads", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        last = "checkpoints/" + max((model / "checkpoints").iterdir(), key=lambda path: int(path.name[5:])).name
        for name in (f"{last}/model.safetensors", f"{last}/state.json", "checkpoints", "config.yaml"):
            for kind in KINDS:
                self.check(model, name, kind, [("cage2", "show", "RUN", "--out", "run/episode.svg")])


def main():
    global BINARY
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    options, rest = parser.parse_known_args()
    BINARY = str(Path(options.binary).resolve())
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

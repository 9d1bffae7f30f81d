#!/usr/bin/env python3
"""Black-box tests of `flotilla coinrun replay | show | verify` and of the environment's options.

    test_coinrun.py --binary build/release/flotilla [unittest arguments]
"""

import argparse
import base64
import gzip
import json
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

BINARY = None
TIMEOUT_S = 60
GOLDEN = Path(__file__).resolve().parents[1] / "golden/coinrun"


def pixels_of(png):
    """(width, height, bytes) of a PNG as the program writes it: 8-bit RGB, rows not filtered."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, kind = struct.unpack(">IIH", png[16:26])
    assert kind == 0x0802, kind
    packed, at = b"", 8
    while at < len(png):
        length, = struct.unpack(">I", png[at:at + 4])
        body = png[at + 4:at + 8 + length]
        assert zlib.crc32(body) == struct.unpack(">I", png[at + 8 + length:at + 12 + length])[0]
        if body.startswith(b"IDAT"):
            packed += body[4:]
        at += 12 + length
    rows = zlib.decompress(packed)
    step = 1 + 3 * width
    assert len(rows) == step * height and not any(rows[::step])
    return width, height, b"".join(rows[i + 1:i + step] for i in range(0, len(rows), step))


class CoinRun(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="flotilla-coinrun-")
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

    def actions(self, text, name="actions.txt"):
        (self.dir / name).write_text(text)
        return name

    def test_replay_gives_what_was_recorded(self):
        for mode in ("easy", "hard"):
            lines = gzip.open(GOLDEN / f"episodes_{mode}.jsonl.gz", "rt").read().splitlines()
            for line in lines[:3]:
                recorded = json.loads(line)
                file = self.actions(recorded["actions"] + "\n")
                arguments = ["coinrun", "replay", "--level-seed", recorded["level_seed"], "--mode", mode,
                             "--actions", file, "--json"]
                got = json.loads(self.call(*arguments).stdout)
                for name in ("length", "return", "end", "rewards", "crc_rd", "crc_xy"):
                    self.assertEqual(got[name], recorded[name], name)
                self.assertEqual(got["dones"], [recorded["length"]])
                states = json.loads(self.call(*arguments, "--state").stdout)["states"]
                self.assertEqual(len(states), recorded["length"])
                single = lambda value: struct.pack("<f", value)
                self.assertEqual([list(map(single, state[:2])) for state in states[::10]],
                                 [list(map(single, place)) for place in recorded["xy10"]])
                text = self.call(*arguments[:-1]).stdout
                self.assertIn(f"crc_xy {recorded['crc_xy']}\n", text)

    def test_replay_of_a_level(self):
        level = json.loads(gzip.open(GOLDEN / "levels_hard.jsonl.gz", "rt").readline())
        got = json.loads(self.call("coinrun", "replay", "--level-seed", level["level_seed"], "--mode", "hard",
                                   "--actions", self.actions("8888"), "--json").stdout)
        self.assertEqual((got["goal"], got["crc_grid"]), (level["goal"], level["crc_grid"]))
        self.assertEqual((got["length"], got["end"], got["dones"]), (4, "cut", []))

    def test_verify(self):
        got = json.loads(self.call("coinrun", "verify", GOLDEN, "--json").stdout)
        self.assertEqual((got["mismatches"], got["first_mismatch"], got["frames"]), (0, None, 103))
        self.assertIn(" 0 mismatches\n", self.call("coinrun", "verify", GOLDEN).stdout)
        line = gzip.open(GOLDEN / "episodes_easy.jsonl.gz", "rt").readline()
        (self.dir / "episodes.jsonl").write_text(line.replace('"crc_rd":"', '"crc_rd":"z'))
        text = self.call("coinrun", "verify", ".", status=1).stdout
        self.assertRegex(text, r"facts, 1 mismatches\nthe first: .*episodes.jsonl, line 1, crc_rd: expected z")
        (self.dir / "levels.jsonl").write_text("")
        self.assertIn("levels.jsonl: expected a JSON object on each line, is empty",
                      self.refused(4, "coinrun", "verify", "."))

    def test_show(self):
        self.assertEqual(self.call("coinrun", "show", "--level-seed", 4, "--mode", "hard", "--out", "a.png").stdout,
                         "a.png: level 4\n")
        width, height, large = pixels_of((self.dir / "a.png").read_bytes())
        self.assertEqual((width % 4, height % 4), (0, 0))
        self.call("coinrun", "show", "--level-seed", 4, "--mode", "hard")
        svg = (self.dir / "level.svg").read_text()
        self.assertIn(f'width="{width}" height="{height}"', svg)
        image = base64.b64decode(re.search(r"base64,([^\"]+)", svg)[1])
        self.assertEqual(pixels_of(image)[:2], (width // 4, height // 4))
        self.assertEqual(pixels_of(image)[2][:3], large[:3])

    def test_film_of_actions(self):
        got = json.loads(self.call("coinrun", "show", "--mode", "hard", "--actions", self.actions("8" * 100),
                                   "--frames", 3, "--scale", 1, "--out", "film.png", "--json").stdout)
        self.assertEqual(got, {"level_seed": 0, "file": "film.png", "length": 63, "return": 10})
        self.assertEqual(pixels_of((self.dir / "film.png").read_bytes())[:2], (3 * 66 - 2, 64))

    def train(self, out):
        if not Path(BINARY).with_name("libflotilla_torch.so").exists():
            self.skipTest("this build has no libtorch, which networks for pictures need")
        self.call("train", "coinrun", "--steps", 64, "--num-envs", 2, "horizon=32", "net.hidden=4",
                  "net.torso=none", "batch_size=32", "eval.episodes=0", "look=monochrome", "num_levels=3", "--out", out)

    def test_held_out_levels(self):
        self.train("run")
        evaluate = ["eval", "run", "--episodes", 20]
        both = json.loads(self.call(*evaluate, "--levels", "both", "--baselines", "--json").stdout)
        self.assertEqual((both["levels"], both["train"]["levels"]), ("test", "train"))
        self.assertAlmostEqual(both["gap"], both["train"]["mean"] - both["mean"])
        self.assertEqual(both["constant"]["action"], 8)  # runs and jumps
        self.assertGreaterEqual(both["constant"]["mean"], both["random"]["mean"])
        self.assertLessEqual(both["train"]["metrics"]["level_seed"], 2)
        self.assertGreater(both["metrics"]["level_seed"], 1e6)
        text = self.call(*evaluate, "--levels", "test", "--baselines").stdout
        self.assertRegex(text, r"20 episodes of coinrun, levels=test: return ")
        self.assertRegex(text, r"\n  random actions: return .*\n  always action 8, the best constant: return ")
        self.assertIn("--levels: 'cartpole' keeps no levels from training",
                      self.refused(2, "eval", self.cartpole(), "--levels", "test"))

    def test_film_of_a_run(self):
        self.train("run")
        line = self.call("coinrun", "show", "run", "--level-seed", 3, "--frames", 9, "--out", "film.png").stdout
        self.assertRegex(line, r"\Afilm.png: level 3, \d+ steps?: return (0|10)\n\Z")
        width, height, pixels = pixels_of((self.dir / "film.png").read_bytes())
        self.assertEqual((width, height), (4 * (8 * 66 - 2), 4 * (2 * 66 - 2)))
        # The agent in the look that it was trained with, at the start: 29 (12 + 1) mod 64 = 57.
        at = 3 * (4 * 32 + 4 * 32 * width)
        self.assertEqual(pixels[at:at + 3], bytes([255, 191, 127]))
        self.assertIn("is a policy of 'cartpole', not of coinrun", self.refused(2, "coinrun", "show", self.cartpole()))

    def cartpole(self):
        self.call("train", "cartpole", "--steps", 64, "--num-envs", 2, "horizon=32", "net.hidden=4", "eval.episodes=0",
                  "--out", "pole")
        return "pole"

    def test_bad_input(self):
        good = self.actions("88")
        replay = ["coinrun", "replay", "--actions"]
        self.assertEqual(self.refused(4, *replay, self.actions("88\n8f\n", "bad")),
                         "bad: line 2: expected actions as hexadecimal digits from 0 to e, got 'f'")
        self.assertIn("none", self.refused(4, *replay, "none"))
        for seed in (2**31, 2**31 - 1, -1, -2**31 - 1, "x"):
            self.assertIn("--level-seed", self.refused(2, *replay, good, "--level-seed", seed))
            self.assertIn("--level-seed", self.refused(2, "coinrun", "show", "--level-seed", seed))
        self.call(*replay, good, "--level-seed", 2**31 - 2)
        self.assertIn("--mode: medium not in {easy,hard}", self.refused(2, *replay, good, "--mode", "medium"))
        self.assertEqual(self.refused(2, "coinrun", "show", "--out", "level.bmp"),
                         "--out: expected a name that ends with .svg or .png, got 'level.bmp'")
        self.assertIn("no such place", self.refused(2, "coinrun", "verify", "no such place"))
        (self.dir / "empty").mkdir()
        self.assertIn("empty: holds no recordings", self.refused(4, "coinrun", "verify", "empty"))
        bench = ["bench", "env", "coinrun", "--seconds", "0.01"]
        self.assertIn("num_levels", self.refused(2, *bench, "num_levels=-1"))
        self.assertIn("mode: expected one of easy, hard, got 'extreme'", self.refused(2, *bench, "mode=extreme"))
        self.assertIn("start_level", self.refused(2, *bench, "num_levels=1", "start_level=2147483648"))
        self.assertIn("num_levels: level seeds end at 2147483646",
                      self.refused(2, *bench, "num_levels=2", "start_level=2147483646"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    options, rest = parser.parse_known_args()
    BINARY = str(Path(options.binary).resolve())
    unittest.main(argv=[sys.argv[0], *rest])

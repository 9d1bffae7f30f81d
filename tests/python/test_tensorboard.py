#!/usr/bin/env python3
"""Reads our event files with TensorBoard's own reader: what was written, what is left after a run
was killed and went on, and that TensorBoard's classes write the same bytes.

Exit status: 0 equal, 1 different, 77 skipped (the package cannot be had).

FLOTILLA_TEST_PYTHON names the interpreter to use. Where that has no tensorboard, or not what it
needs, pip puts them below --packages.
"""

import argparse
import math
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from packages import require, skip, use_test_python

# Of tensorboard's dependencies those that its reader imports; the module, and the package it is in.
NEEDED = {"numpy": "numpy", "absl": "absl-py", "google.protobuf": "protobuf",
          "tensorboard": "tensorboard"}

use_test_python()
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--tool", required=True, help="the program event_file_tool")
parser.add_argument("--packages", required=True, help="directory for packages that are missing")
ARGUMENTS = parser.parse_args()

require(NEEDED, ARGUMENTS.packages)
try:
    import tensorboard
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto import (event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2,
                                          types_pb2)
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
except ImportError as error:  # there, but not for this interpreter
    skip(str(error))


def to_hex(data):
    return "x" + (data.encode() if isinstance(data, str) else data).hex()


def scalars(wall_time, step, values):
    words = [f"{to_hex(tag)} {float(value).hex()}" for tag, value in values]
    return " ".join(["scalars", float(wall_time).hex(), str(step), *words])


def text(wall_time, step, tag, value):
    return f"text {float(wall_time).hex()} {step} {to_hex(tag)} {to_hex(value)}"


def as_float(value):
    """The number as a float holds it."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def record(event):
    data = event.SerializeToString()
    length = struct.pack("<Q", len(data))
    return (length + struct.pack("<I", masked_crc32c(length)) + data +
            struct.pack("<I", masked_crc32c(data)))


class TensorBoard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="flotilla-tensorboard-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    def tool(self, *words, lines):
        done = subprocess.run([ARGUMENTS.tool, *map(str, words)], input="\n".join(lines).encode(),
                              capture_output=True, timeout=100, check=True)
        return Path(done.stdout.decode().strip())

    def read(self):
        """The curves of the directory, {tag: [(wall time, step, value)]}, and the texts."""
        everything = EventAccumulator(str(self.dir), size_guidance={"scalars": 0, "tensors": 0})
        everything.Reload()
        tags = everything.Tags()
        curves = {tag: [(event.wall_time, event.step, event.value)
                        for event in everything.Scalars(tag)] for tag in tags["scalars"]}
        texts = {}
        for tag in tags["tensors"]:
            plugin = everything.SummaryMetadata(tag).plugin_data.plugin_name
            texts[tag] = [(plugin, event.wall_time, event.step, event.tensor_proto.string_val[0])
                          for event in everything.Tensors(tag)]
        return curves, texts

    def test_it_reads_what_we_write(self):
        path = self.tool("new", self.dir, lines=[
            text(5, 0, "config", "seed: 1\nppo:\n  lr: 1e-3 # é\n"),
            scalars(10.25, 100, [("charts/SPS", 12345.678), ("losses/kl", 0.0)]),
            scalars(11.5, 2**40, [("charts/SPS", 1e300), ("losses/kl", math.nan)]),
            scalars(12, 2**40 + 1, []),
            scalars(13, 2**40 + 2, [("env/été \"x\"", -1.5)])])
        self.assertIn("tfevents", path.name)
        curves, texts = self.read()
        nan = curves["losses/kl"].pop()
        self.assertEqual(nan[:2], (11.5, 2**40))
        self.assertTrue(math.isnan(nan[2]))
        self.assertEqual(curves, {
            "charts/SPS": [(10.25, 100, as_float(12345.678)), (11.5, 2**40, math.inf)],
            "losses/kl": [(10.25, 100, 0.0)],
            "env/été \"x\"": [(13.0, 2**40 + 2, -1.5)]})
        self.assertEqual(texts, {
            "config": [("text", 5.0, 0, "seed: 1\nppo:\n  lr: 1e-3 # é\n".encode())]})

    def test_its_classes_write_the_same_bytes(self):
        rng = random.Random(1)
        lines, expected = [], b""
        summary, value = summary_pb2.Summary, summary_pb2.Summary.Value
        for _ in range(200):
            wall, step = rng.choice([0, 1.7e9 + rng.random()]), rng.choice([0, rng.randrange(2**62)])
            if rng.random() < 0.2:
                body = "x" * rng.randrange(400)
                lines.append(text(wall, step, "config", body))
                tensor = tensor_pb2.TensorProto(
                    dtype=types_pb2.DT_STRING, string_val=[body.encode()],
                    tensor_shape=tensor_shape_pb2.TensorShapeProto())
                metadata = summary_pb2.SummaryMetadata(data_class=summary_pb2.DATA_CLASS_TENSOR)
                metadata.plugin_data.plugin_name = "text"
                values = [value(tag="config", tensor=tensor, metadata=metadata)]
            else:
                pairs = [("t" * rng.randrange(1, 200), as_float(rng.uniform(-1e3, 1e3)))
                         for _ in range(rng.randrange(5))]
                lines.append(scalars(wall, step, pairs))
                values = [value(tag=tag, simple_value=number) for tag, number in pairs]
            event = event_pb2.Event(wall_time=wall, step=step)
            event.summary.CopyFrom(summary(value=values))
            expected += record(event)
        path = self.tool("new", self.dir, lines=lines)
        version = event_pb2.Event.FromString(next(iter(RawEventFileLoader(str(path)).Load())))
        self.assertEqual(version.file_version, "brain.Event:2")
        self.assertEqual(path.read_bytes(), record(version) + expected)

    def test_a_run_that_was_killed_goes_on(self):
        """Cut in the middle of any record, then gone on with from a checkpoint before it."""
        whole = [text(1, 0, "config", "seed: 1")]
        whole += [scalars(step, step, [("a", step), ("b", -step)]) for step in range(10, 100, 10)]
        path = self.tool("new", self.dir, lines=whole)
        bytes_ = path.read_bytes()
        rng = random.Random(2)
        for case in range(40):
            size, last = rng.randrange(len(bytes_) + 1), rng.choice([0, 10, 40, 45, 90])
            path.write_bytes(bytes_[:size])
            curves_before, texts_before = self.read()  # it stops at the torn record by itself
            added = list(range(last + 5, 120, 10))
            again = self.tool("resume", self.dir, last,
                              lines=[scalars(1000 + step, step, [("a", step), ("b", -step)])
                                     for step in added])
            self.assertEqual(again, path)
            kept = [step for _, step, _ in curves_before.get("a", []) if step <= last]
            curves, texts = self.read()
            with self.subTest(case=case, size=size, last=last):
                expected = [(step, step) for step in kept] + [(1000 + step, step) for step in added]
                for tag, sign in ("a", 1), ("b", -1):
                    self.assertEqual(curves[tag], [(wall, step, sign * step)
                                                   for wall, step in expected])
                self.assertEqual(texts, texts_before)


if __name__ == "__main__":
    print(f"tensorboard {tensorboard.__version__}, {sys.executable}")
    unittest.main(argv=[sys.argv[0], "-v"])

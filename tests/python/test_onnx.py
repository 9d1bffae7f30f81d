#!/usr/bin/env python3
"""Holds the ONNX models that `flotilla export` writes against the policies they are of: onnx checks them, and
onnxruntime does what the policy does.

Exit status: 0 equal, 1 different, 77 skipped (the packages cannot be had).

FLOTILLA_TEST_PYTHON names the interpreter to use. What that does not have pip puts below --packages.
"""

import argparse
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from packages import require, skip, use_test_python

NEEDED = {"numpy": "numpy", "google.protobuf": "protobuf", "typing_extensions": "typing-extensions",
          "ml_dtypes": "ml_dtypes", "onnx": "onnx", "flatbuffers": "flatbuffers",
          "packaging": "packaging", "onnxruntime": "onnxruntime"}

use_test_python()
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--binary", required=True, help="the program flotilla")
parser.add_argument("--tool", required=True, help="the program onnx_tool")
parser.add_argument("--packages", required=True, help="directory for packages that are missing")
ARGUMENTS = parser.parse_args()

require(NEEDED, ARGUMENTS.packages)
try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as error:  # there, but not for this interpreter
    skip(str(error))

# Both sum in single precision, each in its own order.
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
# Rounded factors: sums that differ by a bit may round to neighbours, 2^-9 apart.
ROUNDED = {"atol": 0.02, "rtol": 0.02}
# Such neighbours are rare. Where a factor is rounded on one side alone all rows differ: by more than this part of the
# range that values have, on average.
ROUNDED_MEAN = 2e-3
IMAGES = ("nature", "impala", "floats_of_images", "rounded_nature", "rounded_impala")
NEVER = -1e30


def run(*command, status=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, timeout=200)
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class Case:
    """A policy of the tool: what it saw and did, and its model."""

    def __init__(self, folder, line):
        self.name, rows, self.obs_type, shape, self.kind, numbers = line.split()
        self.stem = folder / self.name
        self.rows = int(rows)
        self.obs_shape = [int(extent) for extent in shape.split(",")]
        self.numbers = [int(number) for number in numbers.split(",")]
        self.choices = [] if self.kind == "box" else self.numbers
        self.obs = self.read("obs", self.obs_type).reshape(self.rows, *self.obs_shape)
        self.mask = self.read("mask", np.uint8).reshape(self.rows, -1) != 0
        self.rounded = self.name.startswith("rounded")
        self.close = ROUNDED if self.rounded else CLOSE
        self.model = folder / f"{self.name}.onnx"
        run(ARGUMENTS.binary, "export", f"{self.stem}.safetensors", "--format", "onnx")

    def read(self, ending, dtype):
        return np.fromfile(f"{self.stem}.{ending}", dtype)

    def feed(self, rows=slice(None)):
        feed = {"obs": self.obs[rows]}
        if self.mask.size:
            feed["mask"] = self.mask[rows]
        return feed

    def outputs(self, rows=slice(None)):
        session = onnxruntime.InferenceSession(str(self.model), providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, self.feed(rows))))

    def parts(self, logits):
        return np.split(logits, np.cumsum(self.choices)[:-1], axis=1)


class Onnx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="flotilla-onnx-")
        cls.addClassCleanup(folder.cleanup)
        done = run(ARGUMENTS.tool, folder.name)
        cls.cases = [Case(Path(folder.name), line) for line in done.stdout.splitlines()]
        missing = set(IMAGES) - {case.name for case in cls.cases}
        if missing:
            print(f"without {', '.join(sorted(missing))}: {done.stderr.strip()}")

    def each(self, check, kinds=("discrete", "multi_discrete", "box")):
        for case in self.cases:
            if case.kind in kinds:
                with self.subTest(policy=case.name):
                    check(case)

    def test_there_are_all_kinds(self):
        self.assertGreaterEqual(len(self.cases), 10)
        self.assertEqual({case.kind for case in self.cases}, {"discrete", "multi_discrete", "box"})

    def test_the_checker_takes_them(self):
        self.each(self.check_the_checker_takes_them)

    def check_the_checker_takes_them(self, case):
        onnx.checker.check_model(str(case.model), full_check=True)
        model = onnx.load(case.model)
        metadata = {entry.key: entry.value for entry in model.metadata_props}
        self.assertEqual(metadata["env"], case.name)

        def shape(value):
            return [each.dim_param or each.dim_value for each in value.type.tensor_type.shape.dim]

        obs = case.obs_shape
        self.assertEqual(shape(model.graph.input[0]), ["batch", *obs])
        outputs = {value.name: shape(value) for value in model.graph.output}
        expected = {"action": ["batch", len(case.numbers)], "value": ["batch"]}
        if case.kind == "discrete":
            expected["action"] = ["batch"]
        if case.kind == "box":
            dims = case.numbers[0]
            expected.update(action=["batch", dims], mean=["batch", dims], std=[dims])
        else:
            expected["logits"] = ["batch", sum(case.choices)]
        self.assertEqual(outputs, expected)

    def test_values(self):
        self.each(self.check_values)

    def check_values(self, case):
        value = case.outputs()["value"]
        self.assertGreater(np.ptp(value), 0.01)
        expected = case.read("value", np.float32)
        np.testing.assert_allclose(value, expected, **case.close)
        self.assertLess(np.abs(value - expected).mean(), ROUNDED_MEAN * np.ptp(expected))

    def test_choices(self):
        self.each(self.check_choices, ("discrete", "multi_discrete"))

    def check_choices(self, case):
        outputs = case.outputs()
        logits, action = outputs["logits"], outputs["action"]
        self.assertEqual(action.dtype, np.int64)
        expected = case.read("action", np.int32).reshape(case.rows, -1)
        action = action.reshape(case.rows, -1)
        entropy, logprob = np.zeros(case.rows), np.zeros(case.rows)
        sure = np.ones(case.rows, bool)
        for d, part in enumerate(case.parts(logits.astype(np.float64))):
            log_p = part - part.max(1, keepdims=True)
            log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
            entropy -= (np.exp(log_p) * np.maximum(log_p, NEVER)).sum(1)
            logprob += log_p[np.arange(case.rows), expected[:, d]]
            top = np.sort(part, 1)[:, -2:]
            # Where two are as good as each other, either is right.
            sure &= top[:, 1] - top[:, 0] > case.close["atol"]
        np.testing.assert_allclose(logprob, case.read("logprob", np.float32), **case.close)
        np.testing.assert_allclose(entropy, case.read("entropy", np.float32), **case.close)
        np.testing.assert_array_equal(action[sure], expected[sure])
        clear = 0.98  # of the rows
        if case.rounded:  # what an untrained network makes of noise is close together
            clear = 0.1 if case.name in IMAGES else 0.8
        self.assertGreater(sure.mean(), clear)
        if case.kind == "discrete" and case.name not in IMAGES:  # noise looks the same to them
            self.assertGreater(len(np.unique(action)), 1)

    def test_masks(self):
        masked = [case for case in self.cases if case.mask.size]
        self.assertGreaterEqual(len(masked), 2)
        for case in masked:
            logits = case.outputs()["logits"]
            self.assertTrue((logits[~case.mask] == np.float32(NEVER)).all())
            self.assertTrue((logits[case.mask] > -1000).all())

    def test_boxes(self):
        self.each(self.check_boxes, ("box",))

    def check_boxes(self, case):
        outputs = case.outputs()
        for name, ending in (("action", "action"), ("mean", "latent")):
            expected = case.read(ending, np.float32).reshape(case.rows, -1)
            np.testing.assert_allclose(outputs[name], expected, **case.close)
        low, high = outputs["action"].min(0), outputs["action"].max(0)
        self.assertTrue((low >= np.float32([-0.2, -1])).all() and (high <= np.float32([0.3, 3])).all())
        self.assertGreater(np.ptp(outputs["action"]), 0.05 if case.name in IMAGES else 0.3)
        if case.name not in IMAGES:  # a mean lies outside of the box and is clipped, or squashed
            self.assertFalse(np.array_equal(outputs["action"], outputs["mean"]))
        np.testing.assert_allclose(outputs["std"], np.exp(-0.5) if case.name == "box" else 1, 1e-6)

    def test_any_number_of_rows(self):
        self.each(self.check_any_number_of_rows)

    def check_any_number_of_rows(self, case):
        whole = case.outputs()
        for rows in (slice(0, 1), slice(3, 10)):
            for name, values in case.outputs(rows).items():
                expected = values if name == "std" else whole[name][rows]
                np.testing.assert_allclose(values, expected, **case.close)

    def test_a_damaged_policy(self):
        case = self.cases[0]
        damaged = case.stem.with_name("damaged.safetensors")
        bytes_ = bytearray(Path(f"{case.stem}.safetensors").read_bytes())
        bytes_[-1] ^= 1
        damaged.write_bytes(bytes_)
        done = run(ARGUMENTS.binary, "export", damaged, "--format", "onnx", status=4)
        self.assertIn("the parameters do not match their checksum", done.stderr)
        self.assertFalse(damaged.with_suffix(".onnx").exists())


if __name__ == "__main__":
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}, {sys.executable}")
    unittest.main(argv=[sys.argv[0], "-v"])

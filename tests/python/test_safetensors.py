#!/usr/bin/env python3
"""Holds our safetensors files against the safetensors package for Python: each reads what the other
writes, both write the same bytes, and what we accept it accepts too.

Exit status: 0 equal, 1 different, 77 skipped (the package cannot be had).

FLOTILLA_TEST_PYTHON names the interpreter to use. Where that has no safetensors or numpy, pip puts
them below --packages.
"""

import argparse
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from packages import require, skip, use_test_python

NEEDED = {"numpy": "numpy", "safetensors": "safetensors"}

use_test_python()
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--tool", required=True, help="the program safetensors_tool")
parser.add_argument("--packages", required=True, help="directory for packages that are missing")
ARGUMENTS = parser.parse_args()

require(NEEDED, ARGUMENTS.packages)
try:
    import numpy as np
    import safetensors
    from safetensors.numpy import load, load_file, save, save_file
except ImportError as error:  # there, but not for this interpreter
    skip(str(error))

DTYPES = {"U8": np.uint8, "F32": np.float32, "F64": np.float64, "I64": np.int64}
NAME_OF = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


def to_hex(data):
    return "x" + (data.encode() if isinstance(data, str) else data).hex()


def lines_of(tensors, metadata):
    """The tool's description of a file; tensors and metadata in the order of their names."""
    by_name = lambda item: item[0].encode()
    lines = [f"metadata {to_hex(key)} {to_hex(value)}"
             for key, value in sorted(metadata.items(), key=by_name)]
    for name, array in sorted(tensors.items(), key=by_name):
        shape = ",".join(map(str, array.shape))
        lines.append(f"tensor {to_hex(name)} {NAME_OF[array.dtype]} [{shape}] "
                     f"{to_hex(array.tobytes())}")
    return lines


def random_tensors(rng):
    tensors = {}
    for _ in range(rng.randrange(8)):
        name = "".join(rng.choice("ab._é\"\\\n\u2028\x7f\U0001f600") for _ in range(rng.randrange(9)))
        shape = [rng.choice([0, 1, 1, 2, 3, 5]) for _ in range(rng.randrange(5))]
        dtype = np.dtype(rng.choice(list(DTYPES.values())))
        count = int(np.prod(shape, dtype=np.int64))
        # Any bits: NaNs and denormals too.
        tensors[name] = np.frombuffer(rng.randbytes(count * dtype.itemsize), dtype).reshape(shape)
    return tensors


class Safetensors(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="flotilla-safetensors-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    def show(self, *paths):
        """Of each file the lines, or the refusal as one line."""
        done = subprocess.run([ARGUMENTS.tool, "show", *map(str, paths)], capture_output=True,
                              timeout=100, check=True)
        files = []
        for line in done.stdout.decode().splitlines():
            if line == "file":
                files.append([])
            elif line != "ok":
                files[-1].append(line)
        self.assertEqual(len(files), len(paths))
        return files

    def write(self, path, tensors, metadata):
        lines = lines_of(tensors, metadata)
        random.Random(1).shuffle(lines)
        subprocess.run([ARGUMENTS.tool, "write", path], input="\n".join(lines).encode(),
                       timeout=100, check=True)

    def expect_equal(self, found, expected):
        self.assertEqual(found.keys(), expected.keys())
        for name, array in expected.items():
            self.assertEqual((found[name].dtype, found[name].shape, found[name].tobytes()),
                             (array.dtype, array.shape, array.tobytes()), name)

    def test_it_reads_what_we_write(self):
        rng = random.Random(1)
        for case in range(60):
            tensors = random_tensors(rng)
            metadata = {f"k{i}\n\"é": "v" * i for i in range(case % 4)}
            path = self.dir / "ours.safetensors"
            self.write(path, tensors, metadata)
            self.expect_equal(load_file(path), tensors)
            with safetensors.safe_open(path, "numpy") as file:
                self.assertEqual(file.metadata() or {}, metadata)

    def test_we_read_what_it_writes(self):
        rng = random.Random(2)
        cases, paths = [], []
        for case in range(60):
            tensors = random_tensors(rng)
            metadata = {f"k{i}\n\"é": "v" * i for i in range(case % 4)}
            paths.append(self.dir / f"{case}.safetensors")
            save_file(tensors, paths[-1], metadata or None)
            cases.append(lines_of(tensors, metadata))
        self.assertEqual(self.show(*paths), cases)

    def test_both_write_the_same_bytes(self):
        rng = random.Random(3)
        for case in range(60):
            tensors = random_tensors(rng)
            metadata = {"made \x01": "by \"é\\"} if case % 2 else None
            path = self.dir / "ours.safetensors"
            self.write(path, tensors, metadata or {})
            self.assertEqual(path.read_bytes(), save(tensors, metadata))

    def test_what_we_accept_it_accepts(self):
        """On files that are damaged; it may accept what we do not read, other types for one."""
        rng = random.Random(4)
        pieces = [b"{", b"}", b"[", b"]", b",", b"0", b"9", b"-1", b"1e1", b"null", b" ", b"\"",
                  b"[0,0]", b"\"a\":", b"F64", b"18446744073709551615", b"\\u0000", b"\xff", b"\0"]
        paths = []
        for case in range(1500):
            good = save(random_tensors(rng), {"k": "v"} if case % 2 else None)
            length = struct.unpack("<Q", good[:8])[0]
            header, data = bytearray(good[8:8 + length]), good[8 + length:]
            at = rng.randrange(length + 1)
            kind = rng.randrange(6)
            if kind == 0:
                header[at:at + rng.randrange(3)] = rng.choice(pieces)
            elif kind == 1:
                header[at:at] = header[rng.randrange(length):][:rng.randrange(60)]
            elif kind == 2:
                data = data[:rng.randrange(len(data) + 1)] + rng.randbytes(rng.randrange(3))
            elif kind == 3:
                del header[at:at + rng.randrange(1, 9)]
            elif kind == 4 and at < length:
                header[at] ^= 1 << rng.randrange(8)
            else:  # a digit
                places = [i for i, byte in enumerate(header) if 48 <= byte < 58]
                if places:
                    header[rng.choice(places)] = rng.randrange(48, 58)
            paths.append(self.dir / f"{case}")
            paths[-1].write_bytes(struct.pack("<Q", len(header)) + header + data)
        accepted = 0
        for path, lines in zip(paths, self.show(*paths)):
            if lines and lines[0].startswith("refused "):
                self.assertIn(f"refused {path}: ", lines[0])
                continue
            accepted += 1
            with self.subTest(file=path.read_bytes()):
                tensors = load(path.read_bytes())
                self.assertEqual([line for line in lines if line.startswith("tensor ")],
                                 lines_of(tensors, {}))
        self.assertGreater(accepted, 20)
        self.assertLess(accepted, 1000)


if __name__ == "__main__":
    print(f"safetensors {safetensors.__version__}, numpy {np.__version__}, {sys.executable}")
    unittest.main(argv=[sys.argv[0], "-v"])

#!/usr/bin/env python3
"""The examples of README.md and docs/ are real files that compile and pass the conformance kit.

    test_new_env.py --root PROJECT --binary new_env
"""

import argparse
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPTIONS = None

# Page, and the files of this folder that it must show whole, each in a block of its own.
SHOWN = [("README.md", "echo.h"),
         ("docs/environments.md", "hike.h"),
         ("docs/environments.md", "hike_main.cpp"),
         ("docs/autoreset.md", "climb.h")]


def cpp_blocks(page):
    text = (OPTIONS.root / page).read_text(encoding="utf-8")
    return re.findall(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Pages(unittest.TestCase):
    def test_blocks_are_the_files(self):
        for page, name in SHOWN:
            with self.subTest(page=page, file=name):
                self.assertIn((HERE / name).read_text(encoding="utf-8"), cpp_blocks(page))

    def test_no_block_is_made_up(self):
        for page in {page for page, _ in SHOWN}:
            shown = {(HERE / name).read_text(encoding="utf-8") for p, name in SHOWN if p == page}
            for block in cpp_blocks(page):
                with self.subTest(page=page, block=block.splitlines()[0]):
                    self.assertIn(block, shown)


class Program(unittest.TestCase):
    def run_program(self, *arguments):
        return subprocess.run([OPTIONS.binary, *arguments], capture_output=True, text=True,
                              timeout=120)

    def test_examples_conform(self):
        result = self.run_program()
        lines = result.stdout.splitlines()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for env in ("echo", "hike"):
            self.assertEqual(sum(line.startswith(f"ok   {env}: ") for line in lines), 12, lines)

    def test_the_table_of_autoreset(self):
        table = self.run_program("--table").stdout
        page = (OPTIONS.root / "docs/autoreset.md").read_text(encoding="utf-8")
        self.assertEqual(len(table.splitlines()), 13)
        self.assertIn(table, page, "docs/autoreset.md shows another table than the program prints")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--binary", type=Path, required=True)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.binary = OPTIONS.binary.resolve()
    unittest.main(argv=[sys.argv[0], *rest])

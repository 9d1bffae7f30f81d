#!/usr/bin/env python3
"""The house rules that no compiler checks: a general layer names no domain, not even in a comment,
and libraries that take long to compile are included in one file each.

    test_layers.py --root PROJECT
"""

import argparse
import re
import sys
import unittest
from pathlib import Path

OPTIONS = None

GENERAL = ("inference", "core", "env", "nn", "algo", "train", "report", "command", "cli")
DOMAIN = re.compile(r"dvrp|cage2|coinrun|funding|workflow|dial-a-ride|oracle", re.IGNORECASE)
# Who includes a library, as regular expressions.
ALONE = {r"#include <CLI/": r"src/command/command\.cpp",
         r"#include <nlohmann/": r"src/core/json\w*\.cpp"}


def lines_with(pattern, *folders):
    """(path in the project, line with its number) of every line that has the pattern."""
    for folder in folders:
        for path in sorted((OPTIONS.root / folder).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if re.search(pattern, line):
                    yield str(path.relative_to(OPTIONS.root)), f"{number}: {line.strip()}"


class Layers(unittest.TestCase):
    def test_general_layers_name_no_domain(self):
        folders = [f"src/{layer}" for layer in GENERAL]
        for folder in folders:
            self.assertTrue((OPTIONS.root / folder).is_dir(), folder)
        self.assertEqual(list(lines_with(DOMAIN, *folders)), [])

    def test_slow_headers_are_included_in_one_place(self):
        for include, place in ALONE.items():
            with self.subTest(include=include):
                found = {path for path, _ in lines_with(include, "src", "include")}
                self.assertTrue(found)
                self.assertEqual({path for path in found if not re.fullmatch(place, path)}, set())

    def test_only_the_list_of_domains_includes_them_all(self):
        domains = [path.name for path in (OPTIONS.root / "src/domains").iterdir() if path.is_dir()]
        self.assertGreaterEqual(len(domains), 4)
        for domain in domains:
            others = {path for path, _ in lines_with(rf'#include "flotilla/domains/{domain}/', "src")
                      if not path.startswith(f"src/domains/{domain}/")}
            if domain == "workflow":  # what others offer is searched by it
                continue
            self.assertEqual(others - {"src/domains/domains.cpp"}, set())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, required=True)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.root = OPTIONS.root.resolve()
    unittest.main(argv=[sys.argv[0], *rest])

#!/usr/bin/env python3
"""Parquet price histories become the tables they were made from.

    test_funding_parquet.py --root PROJECT --binary build/release/flotilla

Exit status 77: pyarrow is missing. FLOTILLA_TEST_PYTHON names an interpreter that has it.
"""

import argparse
import csv
import datetime
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from packages import skip, use_test_python

use_test_python()
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--root", type=Path, required=True)
parser.add_argument("--binary", type=Path, required=True)
ARGUMENTS, REST = parser.parse_known_args()

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    skip(str(error))

# By its path: the package around it needs the extension module, this does not.
spec = importlib.util.spec_from_file_location("funding", ARGUMENTS.root / "src/python/flotilla/funding.py")
funding = importlib.util.module_from_spec(spec)
spec.loader.exec_module(funding)


def parquet_of(source, target, unit="ns", tz="UTC", drop=None):
    with open(source, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    times = [datetime.datetime.fromisoformat(row["timestamp"].replace("Z", "+00:00")) for row in rows]
    columns = {"timestamp": pa.array(times, pa.timestamp("us", tz="UTC")).cast(pa.timestamp(unit, tz=tz))}
    for name in funding.PRICE_COLUMNS[1:]:
        columns[name] = [float(row[name]) for row in rows]
    columns.pop(drop, None)
    pq.write_table(pa.table(columns), target)


class Parquet(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="flotilla-parquet-")
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)
        self.flotilla("funding", "data", "--days", 2, "--symbols", 2, "--out", "market")
        (self.dir / "parquet").mkdir()
        for i, path in enumerate(sorted((self.dir / "market/prices").iterdir())):
            parquet_of(path, self.dir / f"parquet/{path.stem}.parquet", unit="s" if i else "ns",
                       tz="Asia/Tokyo" if i else None)

    def flotilla(self, *arguments):
        done = subprocess.run([ARGUMENTS.binary.resolve(), *map(str, arguments)], cwd=self.dir,
                              capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    def convert(self, opportunities, out):
        return funding.convert(self.dir / "parquet", self.dir / opportunities, self.dir / out)

    def test_gives_the_tables_that_it_was_made_from(self):
        self.assertEqual(self.convert("market/opportunities.csv", "again"), 2)
        self.assertEqual(self.flotilla("funding", "inspect", "again", "--json"),
                         self.flotilla("funding", "inspect", "market", "--json"))

    def test_names_what_is_missing(self):
        with self.assertRaisesRegex(SystemExit, "nowhere: no such file"):
            self.convert("nowhere", "again")
        with self.assertRaisesRegex(SystemExit, "is there already"):
            self.convert("market/opportunities.csv", "market")
        parquet_of(self.dir / "market/prices/COIN000USDT.csv", self.dir / "parquet/COIN000USDT.parquet",
                   drop="bybit_price")
        with self.assertRaisesRegex(SystemExit, "COIN000USDT.parquet: no column 'bybit_price'"):
            self.convert("market/opportunities.csv", "again")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])

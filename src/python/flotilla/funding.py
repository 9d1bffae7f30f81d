"""Price histories of the funding market in Parquet, as the tables that the environment reads.

    python -m flotilla.funding PRICES --opportunities FILE --out DIRECTORY

PRICES holds a file SYMBOL.parquet for each symbol, with the columns of a price table
(docs/funding.md): timestamp, binance_price, bybit_price, binance_funding_rate and
bybit_funding_rate. FILE is the scanner's table, .csv, .csv.gz or .parquet. Nothing is filled in or
left out: what is wrong with a table is said by `flotilla funding inspect DIRECTORY`. Needs pyarrow.
"""

import argparse
import csv
import datetime
import shutil
import sys
from pathlib import Path

PRICE_COLUMNS = ("timestamp", "binance_price", "bybit_price", "binance_funding_rate",
                 "bybit_funding_rate")


def _table(path):
    try:
        import pyarrow.parquet
    except ImportError:
        raise SystemExit("flotilla.funding needs pyarrow: pip install pyarrow") from None
    try:
        return pyarrow.parquet.read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are these, too
        raise SystemExit(f"{path}: {error}") from None


def _cells(column):
    """The cells as a CSV table has them: times in UTC, which those without a zone are taken for."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type):  # finer parts of a second are left out
        column = column.cast(pyarrow.timestamp("us", tz=column.type.tz), safe=False)
    for value in column.to_pylist():
        if isinstance(value, datetime.datetime):
            if value.tzinfo is not None:
                value = value.astimezone(datetime.timezone.utc)
            yield value.strftime("%Y-%m-%dT%H:%M:%SZ")
        else:
            yield "nan" if value is None else value


def _write_csv(table, columns, path):
    with open(path, "x", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(_cells(table.column(name)) for name in columns)))


def _write_prices(source, out):
    table = _table(source)
    missing = [name for name in PRICE_COLUMNS if name not in table.column_names]
    if missing:
        raise SystemExit(f"{source}: no column '{missing[0]}'")
    _write_csv(table, PRICE_COLUMNS, out / "prices" / f"{source.stem}.csv")


def convert(prices, opportunities, out):
    """Makes the directory `out`, which must not be there, and returns how many symbols it has."""
    prices, opportunities, out = Path(prices), Path(opportunities), Path(out)
    sources = sorted(prices.glob("*.parquet"))
    if not sources:
        raise SystemExit(f"{prices}: has no .parquet files")
    if not opportunities.is_file():
        raise SystemExit(f"{opportunities}: no such file")
    if out.exists():
        raise SystemExit(f"{out}: is there already")
    (out / "prices").mkdir(parents=True)
    for source in sources:
        _write_prices(source, out)
    if opportunities.suffix == ".parquet":
        table = _table(opportunities)
        _write_csv(table, table.column_names, out / "opportunities.csv")
    else:
        ending = ".csv.gz" if opportunities.suffix == ".gz" else ".csv"
        shutil.copyfile(opportunities, out / f"opportunities{ending}")
    return len(sources)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m flotilla.funding",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("prices", help="folder with a SYMBOL.parquet for each symbol")
    parser.add_argument("--opportunities", required=True,
                        help="the scanner's table: .csv, .csv.gz or .parquet")
    parser.add_argument("--out", required=True, help="directory to make")
    options = parser.parse_args(arguments)
    count = convert(options.prices, options.opportunities, options.out)
    print(f"{options.out}: {count} symbols; look at it with: flotilla funding inspect {options.out}")


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The table of recipes in docs/training.md, from recorded sweeps over seeds.

    ./flotilla verify cartpole --seeds 1000 --first-seed 10000 --at-least 475 --json > sweep.json
    bench/recipes.py --add sweep.json     # keeps what the table needs, in bench/results/recipes/
    bench/recipes.py                      # writes the table
    bench/recipes.py --check              # fails where the page, or a recipe's first line, says something else
"""

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/training.md"
RESULTS = ROOT / "bench/results/recipes"
BEGIN, END = "<!-- recipes: bench/recipes.py -->\n", "<!-- end of recipes -->\n"
KEPT = ("recipe", "first_seed", "seeds", "at_least", "passed", "failures", "mean", "lowest", "random", "constant",
        "kernel", "cpu", "version")


def add(path):
    sweep = json.loads(Path(path).read_text())
    kept = {key: sweep[key] for key in KEPT}
    kept["scores"] = [round(result["score"], 2) if result["score"] is not None else None for result in sweep["results"]]
    kernel = re.sub(r"[^a-z0-9]+", "_", sweep["kernel"].split(";")[0].lower()).strip("_")
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"{sweep['recipe']}_{kernel}.json"
    file.write_text(json.dumps(kept) + "\n")
    print(file.relative_to(ROOT))


def sweeps():
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]


def table():
    rows = ["| recipe | kernel | seeds | reached | mean | lowest | random actions | best constant action |",
            "|---|---|---|---|---|---|---|---|"]
    for sweep in sweeps():
        last = sweep["first_seed"] + sweep["seeds"] - 1
        rows.append(f"| `{sweep['recipe']}` | {sweep['kernel']} | {sweep['first_seed']} to {last} | "
                    f"{sweep['passed']} of {sweep['seeds']} at {sweep['at_least']:g} | {sweep['mean']:.1f} | "
                    f"{sweep['lowest']:.1f} | {sweep['random']:.1f} | "
                    f"{'-' if sweep['constant'] is None else format(sweep['constant'], '.1f')} |")
    return "\n".join(rows) + "\n"


def claims():
    """(recipe, its first line, the lines it may be)"""
    by_recipe = {}
    for sweep in sweeps():
        by_recipe.setdefault(sweep["recipe"], []).append(sweep)
    for recipe, found in by_recipe.items():
        line = (ROOT / f"configs/{recipe}.yaml").read_text().splitlines()[0]
        passed, seeds = sum(s["passed"] for s in found), sum(s["seeds"] for s in found)
        yield recipe, line, f"{passed} of {seeds} trainings at {found[0]['at_least']:g} or more"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--add", nargs="+", default=[])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for path in options.add:
        add(path)
    page = PAGE.read_text()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    wanted = page[:begin] + "\n" + table() + "\n" + page[end:]
    wrong = [f"configs/{recipe}.yaml: the first line should say '{claim}': {line}"
             for recipe, line, claim in claims() if claim not in line]
    if not options.check:
        PAGE.write_text(wanted)
    elif page != wanted:
        wrong.append("docs/training.md: the table is not that of bench/results/recipes")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

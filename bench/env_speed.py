#!/usr/bin/env python3
"""Speed of environment stepping: CartPole under random actions in every back end.

Prints medians and ratios. --check exits 1 where a bar is missed, --json FILE keeps the result.
"""

import turns

SETTINGS = {
    "serial 64": ["--num-envs", "64", "--backend", "serial"],
    "serial 1024": ["--num-envs", "1024", "--backend", "serial"],
    "threads 1024 x 2": ["--num-envs", "1024", "--backend", "threads", "--threads", "2"],
    "processes 64 x 2": ["--num-envs", "64", "--backend", "processes", "--workers", "2"],
    "processes 64 x 1": ["--num-envs", "64", "--backend", "processes", "--workers", "1"],
}


def main():
    args = turns.arguments(__doc__.splitlines()[0], repeats=9, seconds=0.5)
    results = turns.measure(args, ["env", "cartpole"], SETTINGS)
    rates = turns.rates(results)
    speed_up = turns.median_ratio(rates, "threads 1024 x 2", "serial 1024")
    any_run = results["serial 64"][0]
    turns.report(
        args, f"{any_run['cores']} x {any_run['cpu']}", rates, "M",
        {"threads over serial, 1024 envs": speed_up},
        lambda median: {
            "serial 64 of at least 15 M": median["serial 64"] >= 15e6,
            "threads of at least 1.6x serial": speed_up >= 1.6,
            "processes 64 x 2 of at least 2 M": median["processes 64 x 2"] >= 2e6,
        })


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Speed of training: PPO on 64 CartPoles, two 64x64 tanh networks, 128 steps, 4 minibatches,
4 epochs; fused and torch policies, one and two threads.

Prints medians and ratios. --check exits 1 where a bar is missed, --json FILE keeps the result.
"""

import turns

SETTINGS = {
    "fused, 1 thread": ["--threads", "1", "--policy", "fused"],
    "fused, 2 threads": ["--threads", "2", "--policy", "fused"],
    "torch, 1 thread": ["--threads", "1", "--policy", "torch"],
}


def main():
    args = turns.arguments(__doc__.splitlines()[0], repeats=7, seconds=1)
    results = turns.measure(args, ["ppo", "cartpole", "--num-envs", "64"], SETTINGS)
    rates = turns.rates(results)
    over_torch = turns.median_ratio(rates, "fused, 1 thread", "torch, 1 thread")
    speed_up = turns.median_ratio(rates, "fused, 2 threads", "fused, 1 thread")
    machine = results["fused, 1 thread"][0]["machine"]
    turns.report(
        args, f"{machine['cores']} x {machine['cpu']}", rates, "k",
        {"fused over torch, 1 thread": over_torch, "two threads over one, fused": speed_up},
        lambda median: {
            "fused, 1 thread, of at least 280 k": median["fused, 1 thread"] >= 280e3,
            "torch, 1 thread, of at least 60 k": median["torch, 1 thread"] >= 60e3,
            "fused of at least 3.5x torch": over_torch >= 3.5,
            "two threads of at least 1.7x one": speed_up >= 1.7,
        })


if __name__ == "__main__":
    main()

"""How far data-parallel training goes: a model of an update, beside what was measured.

    python3 bench/cluster_model.py [--latency-ms 0.19] [--gigabytes-per-s 2.7]

A minibatch takes as long as its rows on one rank, times what slower ranks cost, and then the exchange of its gradient:

    ring (all-reduce): latency (R - 1) + 2 (R - 1) / R * bytes / bandwidth
    gathered:          0.63 latency (R - 1) + (R - 1) * bytes / (0.45 bandwidth)

R: ranks. Latency and bandwidth are those of Gloo on the loopback of a machine with 16 cores, fitted to TIMES; a network's own can be
given. cluster.sum=exact gathers, fast takes what is less.
"""

import argparse

# Ranks, floats: milliseconds of Gloo's all-reduce and all-gather, medians (torch 2.11, loopback, 16 cores of a Xeon).
TIMES = {(2, 1000): (0.212, 0.176), (2, 27600): (0.255, 0.262), (2, 460000): (1.033, 1.721), (2, 1700000): (3.282, 8.504),
         (4, 1000): (0.589, 0.391), (4, 27600): (0.610, 0.653), (4, 460000): (1.732, 4.576), (4, 1700000): (4.217, 18.775),
         (8, 1000): (1.368, 0.858), (8, 27600): (1.311, 1.091), (8, 460000): (2.442, 11.350), (8, 1700000): (5.573, 89.05)}

PARAMETERS = {"cage2": 27600, "dvrp": 460000}
# Ranks of two threads on 16 cores, envs of each; efficiency of all beside one rank alone (exact; two machines of the kind, the second
# with ranks bound to their cores); milliseconds of a minibatch on one rank alone; and how much slower cores are when so many of
# them work, from one process with as many threads, which exchanges nothing.
MEASURED = [(4, 256, (0.68, 0.86), 13.4, 1.25), (8, 1024, (0.63, 0.72), 46.4, 1.41)]


def ring_ms(ranks, floats, latency, bandwidth):
    return latency * (ranks - 1) + 2 * (ranks - 1) / ranks * 4 * floats / bandwidth * 1e-6


def gathered_ms(ranks, floats, latency, bandwidth):
    return 0.63 * latency * (ranks - 1) + (ranks - 1) * 4 * floats / (0.45 * bandwidth) * 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=0.19)
    parser.add_argument("--gigabytes-per-s", type=float, default=2.7)
    options = parser.parse_args()
    network = (options.latency_ms, options.gigabytes_per_s)
    print("exchange, ms: measured (model)\nranks    floats        ring              gathered")
    for (ranks, floats), (reduced, gathered) in TIMES.items():
        print(f"{ranks:5} {floats:9} {reduced:8.2f} ({ring_ms(ranks, floats, *network):6.2f}) "
              f"{gathered:9.2f} ({gathered_ms(ranks, floats, *network):6.2f})")
    print("\nan update of cage2, exact")
    for ranks, envs, efficiency, alone, slower in MEASURED:
        model = alone * slower + gathered_ms(ranks, PARAMETERS["cage2"], *network)
        print(f"{ranks} ranks x {envs} envs: efficiency {efficiency[0]} and {efficiency[1]}, by the model {alone / model:.2f}")
    print("\nranks on hosts of their own, the slowest a tenth slower: efficiency by the model\n"
          "       rows of a minibatch on a rank:   8,192 (13 ms)   32,768 (46 ms)   131,072 (185 ms)")
    for ranks in (16, 32, 64, 128, 256, 512, 1024):
        least = min(ring_ms(ranks, PARAMETERS["cage2"], *network), gathered_ms(ranks, PARAMETERS["cage2"], *network))
        print(f"{ranks:5} ranks" + " " * 24 + "".join(f"{ms / (1.1 * ms + least):17.2f}" for ms in (13.4, 46.4, 185)))


if __name__ == "__main__":
    main()

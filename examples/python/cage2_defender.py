#!/usr/bin/env python3
"""A trained CAGE 2 defender in NumPy, which plays in the original simulator (CybORG 2.1):

    python3 examples/python/cage2_defender.py assets/cage2-head/model.safetensors
"""
import inspect
import json
import sys

import numpy as np

# Hosts by number, as in the challenge's table: Defender, Enterprise0-2, Op_Host0-2, Op_Server0, User0-4. Of the 145
# actions of the challenge those that are taken, and by host the decoys in the order in which they are placed.
RAW = [133, 134, 135, 139, 3, 4, 5, 9, 16, 17, 18, 22, 11, 12, 13, 14, 141, 142, 143, 144, 132, 2, 15, 24, 25, 26, 27]
LISTS = {1: [55, 107, 120, 29], 2: [43], 3: [44], 9: [37, 115, 76, 102], 10: [51, 116, 38, 90], 11: [130, 91], 12: [131],
         0: [54, 106, 28, 119], 7: [61, 35, 113, 126]}
FOLLOWED = [0, 1, 2, 3, 7, 8, 9, 10, 11, 12]  # hosts whose scans are put in order
# Where each of the eight decoys can run, and all pairs as actions.
RUNS_ON = [[0, 1, 4, 5, 6, 7, 8, 9, 10], [2, 3, 10], [0, 1, 4, 5, 6, 7], [8, 9], [10, 11], [8, 9],
           [0, 1, 4, 5, 6, 7, 8, 9, 10], [0, 1, 4, 5, 6, 7, 11, 12]]
PAIRS = [28 + 13 * decoy + host for decoy, hosts in enumerate(RUNS_ON) for host in hosts]


class Defender:  # of actions=reduced36 with obs=full or obs=memory
    def __init__(self, path):
        with open(path, "rb") as file:  # safetensors: the length of the header, the header, the numbers
            header, data = json.loads(file.read(int.from_bytes(file.read(8), "little"))), file.read()
        tensor = lambda name: np.frombuffer(data[slice(*header[name]["data_offsets"])], "<f4").reshape(header[name]["shape"])
        self.layers = [(tensor(f"actor.{i}.weight"), tensor(f"actor.{i}.bias")) for i in range(3)]
        self.reset()

    def reset(self):
        self.steps, self.action, self.server_restored, self.decoys = 0, 0, 0, set()
        self.placed, self.order, self.ever = dict.fromkeys(LISTS, 0), np.zeros(10, "f4"), np.zeros((2, 13), "f4")
        self.traces, self.seen = np.zeros((9, 3), "f4"), np.zeros((9, 2), "f4")

    def note(self, table):  # what the last step showed: activity and belief of each host, two bits each; at first nothing
        scanned, exploited = ((table.reshape(13, 4)[:, :2] == bits).all(1) for bits in ([1, 0], [1, 1]))
        self.ever = np.maximum(self.ever, [scanned, exploited])
        if scanned[FOLLOWED].any():
            self.order[self.order == 2] = 1
            self.order[scanned[FOLLOWED].argmax()] = 2
        for i, host in enumerate(LISTS):
            if scanned[host]:
                self.seen[i, 1] = sum((decoy - 2) % 13 == host for decoy in self.decoys) / 4
                self.seen[i, 0] = self.seen[i, 0] if self.traces[i, 0] else self.seen[i, 1]
            fixed = (self.action - 2) // 13 in (1, 10) and (self.action - 2) % 13 == host
            self.traces[i] = np.where([scanned[host], exploited[host], fixed], 1, self.traces[i] * np.float32(0.8))

    def act(self, table):  # the action, of the 145, for the 52 bits of the challenge's table
        self.note(table := np.asarray(table, "f4"))
        x = np.concatenate([table, self.order, self.ever.ravel(), [pair in self.decoys for pair in PAIRS],
                            [self.steps / 100, self.server_restored], np.hstack([self.traces, self.seen]).ravel()]).astype("f4")
        for i, (weight, bias) in enumerate(self.layers):  # obs=full ends before the traces
            x = weight @ (np.maximum(x, 0) if i > 0 else x[: weight.shape[1]]) + bias
        x[27:][[self.placed[host] == len(actions) for host, actions in LISTS.items()]] = -np.inf
        choice, self.steps = int(x.argmax()), self.steps + 1
        host = list(LISTS)[choice - 27] if choice >= 27 else (RAW[choice] - 2) % 13
        self.action = LISTS[host][self.placed[host]] if choice >= 27 else RAW[choice]
        if choice >= 27:  # Apache on Enterprise0 fails: Vsftpd, which comes before it, has opened port 80
            self.placed[host], self.decoys = self.placed[host] + 1, self.decoys | {self.action} - {29}
        elif self.action >= 132:  # a Restore takes the decoys with it
            self.placed[host], self.server_restored = 0, int(self.server_restored or host == 7)
            self.decoys = {decoy for decoy in self.decoys if (decoy - 2) % 13 != host}
        return self.action


if __name__ == "__main__":
    from CybORG import CybORG
    from CybORG.Agents import B_lineAgent, RedMeanderAgent
    from CybORG.Agents.Wrappers import ChallengeWrapper
    scenario, defender = inspect.getfile(CybORG)[:-10] + "/Shared/Scenarios/Scenario2.yaml", Defender(sys.argv[1])
    for red in (B_lineAgent, RedMeanderAgent):
        env, total = ChallengeWrapper(env=CybORG(scenario, "sim", agents={"Red": red}), agent_name="Blue"), 0
        for step in range(20 * 100):
            obs = (env.reset(), defender.reset())[0] if step % 100 == 0 else obs
            obs, reward, *_ = env.step(defender.act(obs))
            total += reward
        print(f"{red.__name__}: {total / 20:.2f} in 100 steps, mean of 20 episodes")

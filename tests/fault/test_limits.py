"""Commands under random limits on memory, processes, open files and the size of files, as an ordinary user.

    python3 tests/fault/test_limits.py --binary build/release/flotilla               # a short pass
    python3 tests/fault/test_limits.py --binary build/release/flotilla --runs 500

Every limit lies above what `--version` needs. Whatever is refused, the program ends by itself: with a documented status
and a message that names the resource, never by a signal. A run that was stopped goes on without the limits. A run that
fails is shown as a command line that repeats it.
"""

import argparse
import math
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

DOCUMENTED = (0, 1, 2, 3, 4, 5, 70, 130)
SKIPPED = 77
# An ordinary user with no other processes, whose number would count.
USER = os.geteuid() or 60_000 + os.getpid() % 5_000
BECOME_USER = [] if os.geteuid() else ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
RESOURCE = re.compile(r"memory|thread|process|open files|File too large", re.IGNORECASE)
# A diagnosis that blames the program for what the system refused, and names that only programmers know.
MISLEADING = re.compile(r"run_if_worker|std::\w+|terminate called|does not serve")
KIB = 1024
PATIENCE_S = 120


def train(*more):
    return ["train", "cartpole", "--threads", "3", "--steps", "3000", "--checkpoint-every", "500", "--out", "out", *more]


def bench(*more):
    return ["bench", "env", "cartpole", "--num-envs", "16", "--seconds", "0.05", *more]


# What is run, in a folder that holds the finished run "done" and "begun", which can go on.
COMMANDS = [
    train("--backend", "serial"),
    train("--backend", "threads"),
    train("--backend", "processes", "--workers", "4"),
    train("--backend", "processes", "--workers", "2", "--start-method", "fork"),
    ["train", "--resume", "begun", "--steps", "4000", "--checkpoint-every", "500"],
    ["eval", "done", "--episodes", "10"],
    ["check", "cartpole"],
    bench("--backend", "threads", "--threads", "3"),
    bench("--backend", "processes", "--workers", "3"),
    ["plot", "done"],
    ["compare", "done", "begun"],
]


class Limits:
    """Those of one command; None: as they are."""

    def __init__(self, memory=None, processes=None, files=None, file_size=None):
        self.of = {"as": memory, "nproc": processes, "nofile": files, "fsize": file_size}

    def prefix(self):
        return [*BECOME_USER, "prlimit", *(f"--{name}={value}" for name, value in self.of.items() if value is not None)]


class Needs:
    """The least that `--version` needs of each resource."""

    def __init__(self, binary, folder):
        def enough(**limits):
            return run([binary, "--version"], Limits(**limits), folder).returncode == 0

        low, self.memory = 1 * KIB, 1024 * KIB  # KiB
        assert enough(memory=self.memory * KIB), "--version needs more than 1 GiB"
        while self.memory - low > 64:
            middle = (low + self.memory) // 2
            if enough(memory=middle * KIB):
                self.memory = middle
            else:
                low = middle
        self.files = next(count for count in range(3, 100) if enough(files=count))
        self.processes = tasks_of_user()

    def draw(self, chance):
        """One to four limits, near enough to what commands need that many of them are met."""
        while True:
            asked = [chance.random() < 0.45 for _ in range(4)]
            if any(asked):
                break
        drawn = Limits(memory=(self.memory + chance.randint(64, 64 * KIB)) * KIB,
                       processes=self.processes + chance.randint(1, 8),
                       files=self.files + chance.randint(0, 16),
                       file_size=int(math.exp(chance.uniform(0, math.log(400 * KIB)))))
        drawn.of = {name: value if ask else None for ask, (name, value) in zip(asked, drawn.of.items())}
        return drawn


def tasks_of_user():
    """How many threads the user has whose limit it is, for RLIMIT_NPROC counts all of them."""
    count = 0
    for task in pathlib.Path("/proc").glob("[0-9]*/task/*"):
        try:
            count += task.stat().st_uid == USER
        except OSError:  # it has ended
            pass
    return count


def run(command, limits, folder):
    return subprocess.run([*limits.prefix(), *command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace", timeout=PATIENCE_S, check=False)


def give(path):
    """Makes a tree the ordinary user's own."""
    if BECOME_USER:
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(path)], check=True)


def reachable(binary, root):
    """The program at a place where the ordinary user can run it."""
    if run([binary, "--version"], Limits(), root).returncode == 0:
        return binary
    copy = root / "bin" / pathlib.Path(binary).name  # it calls itself so in messages
    copy.parent.mkdir()
    shutil.copy(binary, copy)
    copy.chmod(0o755)
    return str(copy)


def prepare(binary, folder):
    for name, steps in (("done", 2000), ("begun", 2000)):
        subprocess.run([binary, "train", "cartpole", "--steps", str(steps), "--checkpoint-every", "500", "--out", name],
                       cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    (folder / "begun" / "summary.json").unlink()


def fault_of(result):
    """What is wrong with how a command ended, or nothing."""
    said = "".join(line for line in result.stderr.splitlines() if line.startswith("flotilla"))
    if result.returncode < 0:
        return f"ended by signal {-result.returncode}"
    if result.returncode not in DOCUMENTED:
        return f"status {result.returncode} is not documented"
    if result.returncode != 0 and not RESOURCE.search(said):
        return "the message names no resource"
    if MISLEADING.search(result.stderr):
        return "the message misleads"
    return None


def fault_of_directory(command, binary, folder):
    """What is wrong with the run directory that a command left: it can be gone on with."""
    if command[0] != "train":
        return None
    out = folder / (command[2] if command[1] == "--resume" else "out")
    if not (out / "config.yaml").exists():
        return None
    result = run([binary, "train", "--resume", out.name], Limits(), folder)
    if result.returncode != 0:
        return f"then it cannot be resumed: {result.stderr}"
    return None if (out / "summary.json").exists() else "no summary.json after its end"


class Trial:
    """Runs commands, each in a fresh copy of the prepared folder, and counts what is wrong."""

    def __init__(self, binary, root):
        self.binary, self.prepared, self.work = binary, root / "prepared", root / "work"
        self.statuses, self.faults = {}, 0
        self.prepared.mkdir()
        prepare(binary, self.prepared)
        give(self.prepared)

    def run(self, command, limits):
        """The result, or nothing for a command that did not end."""
        shutil.rmtree(self.work, ignore_errors=True)
        subprocess.run(["cp", "-a", str(self.prepared), str(self.work)], check=True)
        try:
            result = run([self.binary, *command], limits, self.work)
        except subprocess.TimeoutExpired:
            self.blame(command, limits, f"not ended after {PATIENCE_S} s")
            return None
        self.statuses[result.returncode] = self.statuses.get(result.returncode, 0) + 1
        fault = fault_of(result) or fault_of_directory(command, self.binary, self.work)
        if fault:
            self.blame(command, limits, f"{fault}\n{result.stdout[-500:]}{result.stderr[-1500:]}")
        return result

    def blame(self, command, limits, fault):
        self.faults += 1
        print(f"FAULT: rm -rf {self.work}; cp -a {self.prepared} {self.work}; cd {self.work} && "
              f"{shlex.join([*limits.prefix(), self.binary, *command])}\n  {fault}", flush=True)

    def summary(self):
        ended = ", ".join(f"{count} with status {status}" for status, count in sorted(self.statuses.items()))
        return f"{sum(self.statuses.values())} commands: {ended}; {self.faults} faults"


def too_few_processes_for_workers(trial, needs):
    """Each worker is a process and has a thread of its own: the last of four can have no more of them."""
    command = train("--backend", "processes", "--workers", "4")
    for count in range(4, 9):
        limits = Limits(processes=needs.processes + count)
        result = trial.run(command, limits)
        said = result.stderr.splitlines()[-1]
        if result.returncode != 70 or not re.search(rf"limit: {limits.of['nproc']} processes", said):
            trial.blame(command, limits, f"expected status 70 and the limit, got {result.returncode}: {said}")


def hardly_enough_memory(trial, needs, runs):
    """Allocations fail one after the other, in all threads, where a little less is there than a run needs."""
    command = train("--backend", "threads")
    low, enough = needs.memory, needs.memory + 128 * KIB
    while enough - low > 16:
        middle = (low + enough) // 2
        if trial.run(command, Limits(memory=middle * KIB)).returncode == 0:
            enough = middle
        else:
            low = middle
    for number in range(runs):
        trial.run(command, Limits(memory=(enough - number * 1024 // runs) * KIB))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    if shutil.which("setpriv") is None or shutil.which("prlimit") is None:
        print("SKIPPED: no setpriv or prlimit here")
        return SKIPPED
    if subprocess.run([*BECOME_USER, "true"], check=False).returncode != 0:
        print(f"SKIPPED: cannot become user {USER} here")
        return SKIPPED
    print(f"seed {options.seed}", flush=True)
    chance = random.Random(options.seed)
    root = pathlib.Path(tempfile.mkdtemp(prefix="flotilla-limits-"))
    root.chmod(0o755)
    give(root)
    binary = reachable(str(pathlib.Path(options.binary).resolve()), root)
    needs = Needs(binary, root)
    print(f"--version needs {needs.memory} KiB of memory and {needs.files} open files; the user has "
          f"{needs.processes} threads", flush=True)
    trial = Trial(binary, root)
    if BECOME_USER:  # one who has other processes may end some of them
        too_few_processes_for_workers(trial, needs)
    hardly_enough_memory(trial, needs, max(options.runs // 4, 1))
    print(f"at the edge: {trial.summary()}", flush=True)
    trial.statuses = {}
    for number in range(options.runs):
        trial.run(COMMANDS[number % len(COMMANDS)], needs.draw(chance))
    print(f"at random: {trial.summary()}", flush=True)
    if trial.faults:
        return 1  # what was prepared stays, to repeat them
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())

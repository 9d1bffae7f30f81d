"""What the program computed at one commit, kept so that no later change of the house changes it by a bit.

    python3 tests/golden/witness/witness.py --binary build/release/flotilla            # check
    python3 tests/golden/witness/witness.py --binary OLD --record                      # add rows of this machine

table.json holds, for every architecture and kernel: the hash of a random trajectory of every environment, the hash of the
parameters after short runs of the recipes in recipes/, of runs that go on from the directories in runs/, and what commands
that judge a policy print. Policies on libtorch have rows by its version and matrix library. A kernel this machine cannot
run, and a libtorch without a row, are passed over and named.
"""

import argparse
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "table.json"
MODEL = HERE.parents[2] / "assets" / "cage2" / "model.safetensors"
# Rows of the table by the machines that can compute them; x86 with FMA computes to the bits of NEON as well.
ROWS = {"aarch64": ["aarch64 neon", "aarch64 portable"],
        "x86_64": ["x86_64 amx", "x86_64 avx512", "x86_64 avx2", "x86_64 portable", "aarch64 neon"]}

# Environments with their default settings, and with some that take other ways through the code.
ENVS = ["cartpole", "pendulum", "corners", "regions", "maze", "catch", "faulty", "cage2", "dvrp", "cage2 version=legacy red=mix",
        "cage2 obs=full actions=reduced36", "dvrp customers=12 observation=detours", "dvrp customers=8 advice.types=true reward=counterfactual"]

# Few steps, and small batches where a step is much work.
SMALL_DVRP = ["--num-envs=8", "--customers=8", "horizon=16", "--steps=256", "ppo.minibatch_size=64", "advice.every=1",
              "net.hidden=32,32"]
RUNS = {
    "cartpole": ["--steps=4096"],
    "pendulum": ["--steps=4096", "--num-envs=16", "horizon=64"],
    "corners": ["--steps=4096", "--num-envs=16"],
    "corners-workflow": ["--steps=12100"],
    "regions": ["--steps=4096", "--num-envs=16", "horizon=64"],
    "regions-workflow": ["--steps=4096", "--num-envs=8", "horizon=128"],
    "maze": ["--steps=4096", "--num-envs=16", "horizon=64"],
    "maze-workflow": ["--steps=4096", "--num-envs=8", "horizon=128"],
    "cage2": ["--steps=6400", "--num-envs=32"],
    "cage2-bline": ["--steps=6400", "--num-envs=32"],
    "cage2-meander": ["--steps=6400", "--num-envs=32"],
    "cage2-workflow": ["--steps=5000"],
    "dvrp": SMALL_DVRP,
    "dvrp-64": SMALL_DVRP,
    "dvrp-256": SMALL_DVRP,
}
TORCH_RUNS = {"cartpole": ["--steps=2048", "--policy=torch"],
              "pendulum": ["--steps=2048", "--num-envs=16", "horizon=64", "--policy=torch"]}
# How the directories in runs/ were made, and how far they go on.
KEPT = {
    "cartpole": (["cartpole", "--steps=2048", "--num-envs=8", "net.hidden=16"], "--steps=8192"),
    "cage2": (["cage2", "--steps=800", "--num-envs=4", "net.hidden=8"], "--steps=3200"),
    "dvrp": (["dvrp", "--steps=128", "--num-envs=4", "--customers=8", "horizon=16", "ppo.minibatch_size=32",
              "advice.every=1", "net.hidden=8"], "--steps=384"),
}
OUTPUTS = {
    "cage2 leaderboard": ["cage2", "leaderboard", str(MODEL), "--episodes=20", "--json"],
    "cage2 leaderboard head": ["cage2", "leaderboard", str(MODEL), "--episodes=9", "--seed=7", "--version=head", "--json"],
    "dvrp eval": ["dvrp", "eval", "RUNS/dvrp", "--instances=130", "--iterations=5", "--no-ceiling", "--json"],
    "dvrp eval ceiling": ["dvrp", "eval", "RUNS/dvrp", "--instances=3", "--iterations=20", "--seed=5", "--json"],
}
# Fields that commands print since: what the table knows of them was printed without.
LATER = {"above_least_detour_pct", "above_least_detour_ci95", "by_negotiator", "ci95", "moved", "trim"}


def without_later(found):
    """An object without fields that came later, also in the objects in it."""
    if not isinstance(found, dict):
        return found
    return {key: without_later(value) for key, value in found.items() if key not in LATER}


class Program:
    def __init__(self, binary, kernel, scratch):
        self.binary, self.kernel, self.scratch, self.count = binary, kernel, scratch, 0

    def run(self, arguments):
        environment = dict(os.environ, FLOTILLA_LOG_LEVEL="error", **({"FLOTILLA_KERNEL": self.kernel} if self.kernel else {}))
        return subprocess.run([self.binary, *arguments], capture_output=True, text=True, env=environment, timeout=600, check=False)

    def json(self, arguments):
        done = self.run(arguments)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: status {done.returncode}: {done.stderr[-400:]}")
        return json.loads(done.stdout)

    def fresh(self):
        self.count += 1
        return self.scratch / f"run{self.count}"

    def unpacked(self):
        folder = self.fresh()
        for name in KEPT:
            with tarfile.open(HERE / "runs" / f"{name}.tar.gz") as archive:
                archive.extractall(folder)
        return folder

    def trajectory(self, env):
        return self.json(["bench", "env", *env.split(), "--num-envs", "7", "--seconds", "0.01", "--json"])["trajectory_sha256"]

    def train(self, name, arguments):
        return self.json(["train", str(HERE / "recipes" / f"{name}.yaml"), *arguments, "eval.episodes=0", "--json", "--out",
                          str(self.fresh())])

    def resume(self, name, limit):
        return self.json(["train", "--resume", str(self.unpacked() / name), limit, "--json"])["params_sha256"]

    def output(self, arguments):
        runs = str(self.unpacked())
        done = self.json([word.replace("RUNS", runs) for word in arguments])
        for timed in [key for key in done if key.endswith("_s") or key in ("policy", "run", "path", "file", "machine", "cpu")]:
            del done[timed]
        return hashlib.sha256(json.dumps(without_later(done)).encode()).hexdigest()


def fused_rows(program):
    """(name, function that computes it) of everything that a kernel of ours carries out."""
    for env in ENVS:
        yield f"env {env}", lambda env=env: program.trajectory(env)
    for name, arguments in RUNS.items():
        yield f"run {name}", lambda n=name, a=arguments: program.train(n, a)["params_sha256"]
    for name, (_, limit) in KEPT.items():
        yield f"resume {name}", lambda n=name, l=limit: program.resume(n, l)
    for name, arguments in OUTPUTS.items():
        yield f"output {name}", lambda a=arguments: program.output(a)


def torch_rows(program):
    """By the name of the library behind them."""
    rows = {}
    for name, arguments in TORCH_RUNS.items():
        summary = program.train(name, arguments)
        rows.setdefault(f"{platform.machine()} {summary['kernel']}", {})[f"run {name}"] = summary["params_sha256"]
    return rows


def program_of(binary, key, scratch):
    """With the kernel that a key of the table names."""
    kernel = key.split()[1]
    program = Program(binary, kernel, pathlib.Path(scratch) / kernel)
    program.scratch.mkdir()
    return program


def can_run(program):
    done = program.run(["bench", "ppo", "cartpole", "--num-envs", "1", "--seconds", "0.01", "--json"])
    if done.returncode != 0 and "cannot run" not in done.stderr:
        raise RuntimeError(done.stderr)
    return done.returncode == 0


def make_runs(binary):
    """The directories that later versions go on with."""
    (HERE / "runs").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, (arguments, _) in KEPT.items():
            out = pathlib.Path(scratch) / name
            subprocess.run([binary, "train", *arguments, "checkpoint.keep=1", "eval.episodes=0", "--out", str(out)], check=True,
                           stdout=subprocess.DEVNULL, env=dict(os.environ, FLOTILLA_KERNEL="portable"))
            (out / "summary.json").unlink()
            with tarfile.open(HERE / "runs" / f"{name}.tar.gz", "w:gz") as archive:
                archive.add(out, name)


def record(binary):
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    if not (HERE / "runs").exists():
        make_runs(binary)
    with tempfile.TemporaryDirectory() as scratch:
        for key in ROWS[platform.machine()]:
            if not key.startswith(platform.machine()):
                continue
            program = program_of(binary, key, scratch)
            if not can_run(program):
                print(f"{program.kernel}: this machine cannot run it")
                continue
            table[key] = {name: compute() for name, compute in fused_rows(program)}
        try:
            table.update(torch_rows(Program(binary, "", pathlib.Path(scratch))))
        except RuntimeError as error:
            print(f"no libtorch: {error}")
    TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


def check(binary, table):
    differing, passed, skipped = [], 0, []

    def compare(key, name, found):
        nonlocal passed
        expected = table[key][name]
        if found == expected:
            passed += 1
        else:
            differing.append(f"{key}: {name}: expected {expected}, got {found}")

    with tempfile.TemporaryDirectory() as scratch:
        for key in ROWS.get(platform.machine(), []):
            program = program_of(binary, key, scratch)
            if key not in table or not can_run(program):
                skipped.append(key)
                continue
            for name, compute in fused_rows(program):
                compare(key, name, compute())
        try:
            for key, rows in torch_rows(Program(binary, "", pathlib.Path(scratch))).items():
                if key not in table:
                    skipped.append(key)
                    continue
                for name, found in rows.items():
                    compare(key, name, found)
        except RuntimeError as error:
            skipped.append(f"libtorch ({error})")
    for line in differing:
        print(line)
    for key in skipped:
        print(f"passed over: {key}")
    print(f"{passed} passed, {len(differing)} failed")
    return 1 if differing or passed == 0 else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--record", action="store_true", help="write the rows of this machine into table.json")
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.binary)
        return 0
    return check(arguments.binary, json.loads(TABLE.read_text()))


if __name__ == "__main__":
    sys.exit(main())

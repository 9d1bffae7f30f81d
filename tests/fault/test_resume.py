"""Runs that are killed or interrupted at random moments and gone on with must end as if they had not been.

    python3 tests/fault/test_resume.py --binary build/release/flotilla             # a short pass
    python3 tests/fault/test_resume.py --binary build/release/flotilla --kills 30 --interrupts 10 --steps 5000000

For each setting: one run is left alone; others are ended after checkpoints/step_0 exists, by SIGKILL
or SIGINT, at a moment drawn from the time the first one took, then resumed until they are finished.
Compared are the hash of the parameters, and metrics.jsonl and the event file, which must have every
update exactly once.
"""

import argparse
import json
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

# Everything that may differ between two runs of the same settings.
TIMED = ("wall_s", "charts/SPS", "time/", "memory/")
ENDED = 0
INTERRUPTED = 130


class Setting:
    def __init__(self, name, what, steps, overrides):
        self.name, self.what, self.steps, self.overrides = name, what, steps, overrides

    def command(self, binary, out):
        return [binary, "train", self.what, "--steps", str(self.steps), "--out", str(out), *self.overrides]


def settings(steps):
    """Cartpole with as many steps as asked for; with fewer, pendulum with its normalisers in every back end, actors that
    run ahead, cage2, dvrp with what it learns about its travellers, and funding on a small market."""
    yield Setting("cartpole", "cartpole", steps, [f"--checkpoint-every={max(steps // 25, 1)}"])
    fewer = max(steps // 8, 4096)
    for backend in ("serial", "threads", "processes"):
        yield Setting(f"pendulum {backend}", "pendulum", fewer,
                      [f"--checkpoint-every={max(fewer // 25, 1)}", f"--backend={backend}", "eval.every=20",
                       "eval.episodes=4"])
    yield Setting("cartpole actors", "cartpole-appo", fewer,
                  [f"--checkpoint-every={max(fewer // 25, 1)}", "--threads=2", "async.schedule=fixed", "async.lag=2"])
    yield Setting("cage2", "cage2", fewer,
                  [f"--checkpoint-every={max(fewer // 25, 1)}", "--num-envs=32", "horizon=50", "eval.episodes=32"])
    few = max(steps // 100, 2048)
    yield Setting("dvrp", "dvrp", few,
                  [f"--checkpoint-every={max(few // 25, 1)}", "--customers=8", "--num-envs=16", "horizon=12",
                   "ppo.minibatch_size=96", "advice.every=3", "eval.every=5", "eval.episodes=8"])
    yield Setting("funding", "funding", few,
                  [f"--checkpoint-every={max(few // 25, 1)}", "--num-envs=8", "horizon=12", "market.days=8",
                   "market.symbols=12", "episode_days=0.2", "split.embargo_days=0", "net.hidden=32",
                   "ppo.minibatch_size=48", "eval.every=5", "eval.episodes=4"])


def run(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900, check=False)


def wait_for_checkpoint(out, process):
    while not list(out.glob("checkpoints/step_*[0-9]")):
        assert process.poll() is None, f"ended before it had a checkpoint: {process.communicate()}"
        time.sleep(0.001)


def end_at_random(command, out, number, delay):
    """Starts a run and sends it a signal `delay` seconds after it has its first checkpoint."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        wait_for_checkpoint(out, process)
        time.sleep(delay)
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
        return process.returncode, errors


def stable(line):
    return {key: value for key, value in json.loads(line).items() if not key.startswith(TIMED)}


def metrics(out):
    return [stable(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def event_steps(out):
    """The steps of the event file's records that hold scalars, by the framing alone."""
    files = sorted(out.glob("events.out.tfevents.*"))
    assert len(files) == 1, f"{len(files)} event files"
    data, at, steps = files[0].read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        record = data[at + 12:at + 12 + length]
        assert len(record) == length, "a torn record"
        step = 0
        if record[9:10] == b"\x10":  # field 2, behind the nine bytes of the wall time
            for shift, byte in enumerate(record[10:20]):
                step |= (byte & 0x7F) << (7 * shift)
                if byte < 0x80:
                    break
        if step:
            steps.append(step)
        at += 16 + length
    return steps


class Expected:
    """What the run that nobody touched left."""

    def __init__(self, setting, binary, out):
        start = time.monotonic()
        result = run(setting.command(binary, out))
        assert result.returncode == ENDED, result.stderr
        self.seconds = time.monotonic() - start
        self.parameters = json.loads((out / "summary.json").read_text())["params_sha256"]
        self.metrics = metrics(out)
        updates = [line["update"] for line in self.metrics]
        assert updates == list(range(1, len(updates) + 1)), "an update is missing or twice in metrics.jsonl"

    def check(self, out):
        summary = json.loads((out / "summary.json").read_text())
        assert summary["params_sha256"] == self.parameters, "the parameters differ"
        got = metrics(out)
        assert len(got) == len(self.metrics), f"{len(got)} lines of metrics, expected {len(self.metrics)}"
        for mine, theirs in zip(got, self.metrics):
            assert mine == theirs, f"metrics differ: {mine} {theirs}"
        seconds = [json.loads(line)["wall_s"] for line in (out / "metrics.jsonl").read_text().splitlines()]
        assert seconds == sorted(seconds), "the wall time goes back"
        assert event_steps(out) == [line["step"] for line in got], "the event file has other steps"
        assert not list(out.glob("checkpoints/*.part")), "something is left of a checkpoint"


def disturb(setting, binary, out, number, expected, chance):
    """One run, ended once or twice, then resumed to its end. Returns at which part of it it was ended."""
    delay = chance.uniform(0, 0.9 * expected.seconds)
    status, errors = end_at_random(setting.command(binary, out), out, number, delay)
    if status == ENDED:
        return None  # it was faster than the signal
    if number == signal.SIGINT:
        assert status == INTERRUPTED, f"exit status {status}: {errors}"
        assert "resume with --resume" in errors, errors
    else:
        assert status == -number, f"exit status {status}: {errors}"
    resume = [binary, "train", "--resume", str(out)]
    if chance.random() < 0.3:  # a second time, while it goes on
        status, _ = end_at_random(resume, out, signal.SIGKILL, chance.uniform(0, 0.5 * expected.seconds))
    result = run(resume)
    assert result.returncode == ENDED, result.stderr
    expected.check(out)
    return delay / expected.seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--interrupts", type=int, default=1)
    parser.add_argument("--steps", type=int, default=250_000)
    parser.add_argument("--only", default="", help="settings whose name begins with this")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    signals = [signal.SIGKILL] * options.kills + [signal.SIGINT] * options.interrupts
    print(f"seed {options.seed}", flush=True)
    for setting in settings(options.steps):
        if not setting.name.startswith(options.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            expected = Expected(setting, options.binary, root / "whole")
            moments = []
            while len(moments) < len(signals):
                out = root / "disturbed"
                moment = disturb(setting, options.binary, out, signals[len(moments)], expected, chance)
                if moment is not None:
                    moments.append(moment)
                shutil.rmtree(out)
            print(f"{setting.name}: {options.kills} killed, {options.interrupts} interrupted, at "
                  f"{', '.join(f'{100 * moment:.0f} %' for moment in moments)} of {expected.seconds:.1f} s: all equal",
                  flush=True)


if __name__ == "__main__":
    sys.exit(main())

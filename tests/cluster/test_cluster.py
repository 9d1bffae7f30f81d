"""Several processes that train one run, on one host and between hosts that are network namespaces.

    python3 tests/cluster/test_cluster.py --binary build/release/flotilla
    python3 tests/cluster/test_cluster.py --binary build/release/flotilla --kills 20

The same bits for any number of processes; a process that dies, hangs or is cut off ends the others in time with an error
that names it; what is started again goes on to the bits of an undisturbed run; what cannot work is refused by all. Where the
program was built without c10d, or the machine allows no namespaces, the tests that need them are skipped.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import pwd
import random
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

OPTIONS = argparse.Namespace(binary="", kills=2, torchrun="", ray="")
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMIX_", "SLURM_", "TORCHELASTIC_")
# A machine that is busy with other tests may let a process wait for seconds: only who must be given up has little time.
HASTY = "cluster.deadline_s=6"
ENDLESS = "--steps=1000000000"  # however fast the machine is, it does not end by itself
SMALL = ["train", "cartpole", "--num-envs=24", "ppo.blocks=12", "net.hidden=32", "eval.episodes=4"]


def clean_environment():
    return {name: text for name, text in os.environ.items() if not name.startswith(LAUNCHERS)}


def by_torchrun(rank, size, address="127.0.0.1", local=None, port=29512):
    """The variables that torchrun sets."""
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size if local is None else local),
            "MASTER_ADDR": address, "MASTER_PORT": str(port)}


def by_hosts():
    """As if each were on a host of its own: they exchange by Gloo, not through memory."""
    port = free_ports(1)[0] - 1  # its store has the next one

    def by_host(rank, size):
        return by_torchrun(rank, size, own_address(), local=1, port=port)
    return by_host


class Team:
    """Processes that were started together."""

    def __init__(self, size, arguments, variables=by_torchrun, prefix=lambda rank: []):
        self.processes = []
        for rank in range(size):
            own = arguments(rank) if callable(arguments) else arguments
            self.processes.append(subprocess.Popen(
                [*prefix(rank), OPTIONS.binary, *own], env={**clean_environment(), **variables(rank, size)},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def end(self, timeout=90):
        """(status, stdout, stderr) of each."""
        ended = []
        for process in self.processes:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            ended.append((process.returncode, out, err))
        return ended

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def wait_for(self, run, steps, timeout=60):
        """Until it has a checkpoint of so many: then training goes on."""
        start = time.monotonic()
        while steps_kept(run) < steps:
            if time.monotonic() - start > timeout or self.processes[0].poll() is not None:
                self.kill()
                raise AssertionError(f"no checkpoint of {steps} steps: {self.processes[0].stderr.read()[-400:]}")
            time.sleep(0.02)


def steps_kept(run):
    """Of a run's last checkpoint."""
    kept = [int(each.name[5:]) for each in run.glob("checkpoints/step_*") if each.name[5:].isdigit()]
    return max(kept, default=0)


def alone(arguments):
    done = subprocess.run([OPTIONS.binary, *arguments, "--json"], env=clean_environment(), capture_output=True, text=True,
                          timeout=120, check=True)
    return json.loads(done.stdout)


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


class Scratch(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="flotilla-cluster-"))
        self.addCleanup(shutil.rmtree, self.root, True)

    def out(self, name):
        return f"--out={self.root / name}"

    def trained(self, team, way="shared memory"):
        ended = team.end()
        self.assertEqual([status for status, _, _ in ended], [0] * len(ended), [err[-300:] for _, _, err in ended])
        self.assertTrue(all(out == "" for _, out, _ in ended[1:]))
        self.assertIn(f"one of {len(ended)} processes by {way}", ended[0][2])
        return json.loads(ended[0][1])["params_sha256"]

    def assert_all_end(self, team, status, text, within, besides=()):
        start = time.monotonic()
        ended = team.end()
        self.assertLess(time.monotonic() - start, within)
        for rank, (found, _, err) in enumerate(ended):
            if rank in besides:
                continue
            self.assertEqual((found, last_line(err)), (status, "flotilla: " + text), rank)

    def last_metrics(self, name):
        """Of the last whole line of metrics.jsonl."""
        path = self.root / name / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return json.loads(lines[-2]) if len(lines) > 1 else {}

    def wait_for_actors(self, name, count, timeout=60):
        """Until so many are those that the last update had."""
        start = time.monotonic()
        while self.last_metrics(name).get("async/actors") != count:
            self.assertLess(time.monotonic() - start, timeout)
            time.sleep(0.05)


class Bits(Scratch):
    def check(self, name, arguments, sizes, of_hosts=()):
        """`of_hosts`: how many processes, each as if on a host of its own."""
        expected = alone([*arguments, self.out(name + "1")])["params_sha256"]
        for size in sizes:
            found = self.trained(Team(size, [*arguments, self.out(name + str(size)), "--json"]))
            self.assertEqual(found, expected, size)
        for size in of_hosts:
            team = Team(size, [*arguments, self.out(f"{name}-hosts{size}"), "--json"], by_hosts())
            self.assertEqual(self.trained(team, "Gloo"), expected, size)

    def test_cartpole(self):
        self.check("cartpole", [*SMALL, "--steps=12288", "normalize_obs=true", "normalize_reward=true"], (2, 3, 4), (3,))

    def test_each_started_by_hand(self):
        arguments = [*SMALL, "--steps=6144"]
        expected = alone([*arguments, self.out("one")])["params_sha256"]
        by_a_shell = ["sh", "-c", '"$@"; exit $?', "sh"]  # of its own, which waits
        team = Team(2, [*arguments, self.out("two"), "--json"], prefix=lambda rank: by_a_shell)
        self.assertEqual(self.trained(team), expected)

    def test_each_with_workers_of_its_own(self):
        self.check("workers", ["train", "cartpole", "--steps=192", "--num-envs=2", "ppo.blocks=2", "n_steps=32",
                               "ppo.batch_size=32", "net.hidden=32", "eval.episodes=4", "--backend=processes"], (2,))
        config = (self.root / "workers2" / "config.yaml").read_text()
        cores = max(1, len(os.sched_getaffinity(0)) // 2)
        self.assertRegex(config, rf"(?m)^workers: {min(cores, 2)}$")

    def test_cage2(self):
        self.check("cage2", ["train", "cage2", "--steps=4800", "--num-envs=24", "n_steps=50", "ppo.blocks=12",
                             "eval.episodes=2"], (2, 4), (2,))

    def test_coinrun(self):
        self.check("coinrun", ["train", "coinrun", "--steps=128", "--num-envs=4", "n_steps=16", "ppo.blocks=2",
                               "ppo.batch_size=0", "ppo.minibatches=2", "eval.episodes=0"], (2,))

    def test_dvrp_with_what_its_environments_learn_together(self):
        self.check("dvrp", ["train", "dvrp", "--steps=768", "--num-envs=8", "--customers=8", "replicas=2", "n_steps=16",
                            "ppo.blocks=4", "ppo.minibatch_size=32", "advice.every=1", "env.advice.records=200",
                            "net.hidden=16", "eval.episodes=0"], (2, 3))

    def test_fast_sums_learn_too(self):
        arguments = [*SMALL, "--steps=12288", "cluster.sum=fast"]
        hashes = {self.trained(Team(size, [*arguments, self.out(f"fast{size}"), "--json"])) for size in (2, 3)}
        hosts = Team(2, [*arguments, self.out("hosts"), "--json"], by_hosts())
        hashes.add(self.trained(hosts, "Gloo"))  # as on one host: few numbers are added in the order of ranks
        self.assertEqual(len(hashes), 2)

    def test_policies_on_libtorch(self):
        self.check("torch", [*SMALL, "--steps=3072", "--policy=torch"], (2,))
        self.check("phases", [*SMALL, "--steps=1536", "--policy=torch", "ppo.phases=separate", "net.shared=false"], (2,))

    @unittest.skipUnless(shutil.which("nvidia-smi"), "no GPU")
    def test_several_on_one_gpu(self):
        team = Team(2, [*SMALL, "--steps=3072", "--policy=torch", "--device=cuda", self.out("cuda"), "--json"])
        self.assertEqual(len(self.trained(team)), 64)

    def test_bench_ppo(self):
        ended = Team(2, ["bench", "ppo", "cartpole", "--num-envs=24", "--seconds=0.2", "ppo.blocks=2", "--json"]).end()
        self.assertEqual([status for status, _, _ in ended], [0, 0], ended)
        self.assertEqual(json.loads(ended[0][1])["processes"], 2)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_mpirun(self):
        arguments = [*SMALL, "--steps=6144"]
        expected = alone([*arguments, self.out("one")])["params_sha256"]
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3", OPTIONS.binary, *arguments,
                               self.out("three"), "--json"], env=clean_environment(), capture_output=True, text=True,
                              timeout=120, check=True)
        self.assertEqual(json.loads(done.stdout)["params_sha256"], expected)

    def test_torchrun(self):
        if not OPTIONS.torchrun:
            self.skipTest("no torchrun")
        arguments = [*SMALL, "--steps=6144"]
        expected = alone([*arguments, self.out("one")])["params_sha256"]
        done = subprocess.run([OPTIONS.torchrun, "--no-python", "--nproc-per-node=3", "--master-port=29540", OPTIONS.binary,
                               *arguments, self.out("three"), "--json"], env=clean_environment(), capture_output=True,
                              text=True, timeout=180, check=True)
        self.assertEqual(json.loads(done.stdout)["params_sha256"], expected)


class Faults(Scratch):
    COMMAND = [*SMALL, ENDLESS, "save_freq=768"]

    def disturbed(self, name, signum, victim, status, text, within, start=by_torchrun):
        team = Team(3, [*self.COMMAND, self.out(name), HASTY], start)
        self.addCleanup(team.kill)
        team.wait_for(self.root / name, 3072)
        team.processes[victim].send_signal(signum)
        if signum == signal.SIGSTOP:  # the others end by themselves
            deadline = time.monotonic() + within
            for rank in {0, 1, 2} - {victim}:
                team.processes[rank].wait(timeout=max(0.1, deadline - time.monotonic()))
            team.processes[victim].kill()
        self.assert_all_end(team, status, text, within, besides=(victim,))

    def test_a_process_that_dies_is_named(self):
        for victim in (0, 2):
            self.disturbed(f"kill{victim}", signal.SIGKILL, victim, 3, f"rank {victim} is lost: its process ended", 6)
        self.disturbed("host", signal.SIGKILL, 1, 3, "rank 1 is lost: its process ended", 6, by_hosts())

    def test_a_process_that_hangs_is_named(self):
        self.disturbed("stop", signal.SIGSTOP, 1, 3, "rank 1 is lost: no sign of life within 6 s", 10)

    def test_a_run_that_goes_on_has_its_own_deadline(self):
        """Which a process that does not see its directory is told by rank 0."""
        run = self.root / "own"
        team = Team(2, [*self.COMMAND, self.out("own"), HASTY])
        self.addCleanup(team.kill)
        team.wait_for(run, 3072)
        team.processes[0].send_signal(signal.SIGINT)
        self.assertEqual([status for status, _, _ in team.end()], [130, 130])
        for known_to in (2, 1):
            steps = steps_kept(run)
            team = Team(2, lambda rank, known_to=known_to: ["train", "--resume", str(run if rank < known_to else self.root)])
            self.addCleanup(team.kill)
            team.wait_for(run, steps + 1)
            stopped = known_to - 1  # last the one that knows, by which the other one's own time shows
            team.processes[stopped].send_signal(signal.SIGSTOP)
            team.processes[1 - stopped].wait(timeout=10)
            team.processes[stopped].kill()
            self.assert_all_end(team, 3, f"rank {stopped} is lost: no sign of life within 6 s", 5, besides=(stopped,))

    def test_an_interrupt_of_any_ends_all_in_order(self):
        team = Team(3, [*self.COMMAND, self.out("int")])
        self.addCleanup(team.kill)
        team.wait_for(self.root / "int", 3072)
        team.processes[1].send_signal(signal.SIGINT)
        ended = team.end()
        self.assertEqual([status for status, _, _ in ended], [130] * 3)
        for _, _, err in ended:
            self.assertIn("interrupted after", last_line(err))

    def test_what_is_started_again_ends_with_the_same_bits(self):
        limit = ["--steps=196608"]
        expected = alone([*SMALL, *limit, self.out("one")])["params_sha256"]
        rng = random.Random(7)
        stopped = 0
        for number in range(OPTIONS.kills):
            run = self.root / f"killed{number}"
            command = [*SMALL, *limit, "save_freq=768", "--auto-resume", f"--out={run}", "--json"]
            team = Team(3, command)
            team.wait_for(run, 768)
            time.sleep(rng.uniform(0, 1))
            team.processes[rng.randrange(3)].kill()
            team.end()
            size = rng.choice((2, 3, 4))
            if (run / "summary.json").exists():  # it had come to its end before
                self.assertEqual(json.loads((run / "summary.json").read_text())["params_sha256"], expected)
                continue
            stopped += 1
            self.assertEqual(self.trained(Team(size, command)), expected, (number, size))
        self.assertGreater(stopped, 0)


def parent_of(pid):
    return int(re.search(r"^PPid:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1])


def ignores(pid, signum):
    mask = re.search(r"^SigIgn:\s+(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]
    return bool(int(mask, 16) >> (signum - 1) & 1)


def children_of(pid):
    return [int(each) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text().split()]


def programs_of(folder, verb="train"):
    """The processes of this program that train in a folder, by the words of their commands."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[:2] == [OPTIONS.binary, verb] and any(str(folder) in word for word in words):
            found.append(int(entry.name))
    return found


RAY_MODULE = pathlib.Path(__file__).resolve().parents[2] / "src" / "python" / "flotilla" / "ray.py"


class RayArguments(unittest.TestCase):
    """Without Ray: how the module reads its command line."""

    def parse(self, line):
        return runpy.run_path(str(RAY_MODULE))["parse"](line.split())

    def test_what_stands_behind_train_is_of_the_command(self):
        options, command = self.parse("--num-workers 4 train cage2 --out x --num-workers 2")
        self.assertEqual(options.num_workers, 4)
        self.assertEqual(command, "train cage2 --out x --num-workers 2".split())

    def test_what_is_wrong_with_it_is_named(self):
        for line, expected in (("--num-workers 4 cage2 --out x", "expected a command of flotilla behind the options"),
                               ("--num-workers 4 --cpus 2 train cage2 --out x", "unknown before train: --cpus 2"),
                               ("train cage2 --out x --num-workers 2", "expected either --num-workers or --num-actors")):
            said = io.StringIO()
            with self.subTest(line=line), contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
                self.parse(line)
            self.assertIn(expected, said.getvalue())


class ByRay(Scratch):
    """With a Python that has Ray; the module is run from its file, lest the whole package be needed there."""

    def setUp(self):
        super().setUp()
        if not OPTIONS.ray:
            self.skipTest("no Python with Ray")

    def start(self, *words):
        code = f"import runpy, sys; sys.argv[0] = 'ray'; runpy.run_path({str(RAY_MODULE)!r}, run_name='__main__')"
        return subprocess.Popen([OPTIONS.ray, "-c", code, *words], env=clean_environment(), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def test_what_it_starts_again_ends_with_the_same_bits(self):
        arguments = [*SMALL, "--steps=196608", "save_freq=768"]
        expected = alone([*arguments, self.out("one")])["params_sha256"]
        run = self.root / "two"
        driver = self.start("--num-workers=2", f"--program={OPTIONS.binary}", *arguments, f"--out={run}")
        self.addCleanup(driver.kill)
        deadline = time.monotonic() + 90
        while steps_kept(run) < 3072:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        os.kill(programs_of(run)[-1], signal.SIGKILL)
        said, _ = driver.communicate(timeout=180)
        self.assertEqual(driver.returncode, 0, said[-2000:])
        self.assertIn("flotilla.ray: a process was lost", said)
        self.assertEqual(json.loads((run / "summary.json").read_text())["params_sha256"], expected)
        self.assertEqual(programs_of(run), [])

    def test_actors_play_for_a_learner_and_each_that_is_lost_comes_again(self):
        run = self.root / "played"
        driver = self.start("--num-actors=2", "--cpus-per-worker=0.5", f"--program={OPTIONS.binary}", "train", "cartpole-impala",
                            "--steps=400000", "save_freq=4096", "eval.episodes=20", f"--out={run}")
        self.addCleanup(driver.kill)

        def wait_for(what):
            deadline = time.monotonic() + 90
            while not what():
                self.assertIsNone(driver.poll())
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)

        wait_for(lambda: steps_kept(run) >= 8192 and len(programs_of("--wait=120", "actor")) == 2)
        first = programs_of("--wait=120", "actor")
        os.kill(first[0], signal.SIGKILL)
        wait_for(lambda: len(set(programs_of("--wait=120", "actor")) - set(first)) == 1)
        # The Ray actor of the learner, with which Ray ends the program: the next one goes on.
        learner = programs_of(run)[0]
        os.kill(parent_of(learner), signal.SIGKILL)
        said, _ = driver.communicate(timeout=240)
        self.assertEqual(driver.returncode, 0, said[-3000:])
        self.assertRegex(said, "flotilla.ray: actor [12] was lost; start 2 of 11")
        self.assertIn("flotilla.ray: a process was lost; start 2 of 11", said)
        self.assertIn("an actor has joined", said)
        summary = json.loads((run / "summary.json").read_text())
        self.assertGreaterEqual(summary["steps"], 400000)
        self.assertGreaterEqual(summary["eval"]["mean"], 400)
        self.assertEqual(programs_of(run) + programs_of("--wait=120", "actor"), [])

    def test_refuses_what_it_cannot_start(self):
        for words, text in ((["--num-workers=2"], "expected a command of flotilla"),
                            (["--num-workers=2", "train", "cartpole"], "train needs --out"),
                            (["--num-workers=0", "train", "cartpole", "--out=x"], "expected 1 or more"),
                            (["--num-actors=0", "train", "cartpole", "--out=x"], "expected 1 or more"),
                            (["train", "cartpole", "--out=x"], "expected either --num-workers or --num-actors"),
                            (["--num-actors=2", "train", "cartpole-impala", "--out=x", "cluster.listen=5555"],
                             "cluster.listen is chosen here")):
            driver = self.start(*words)
            said, _ = driver.communicate(timeout=60)
            self.assertEqual(driver.returncode, 2)
            self.assertIn(text, said)


class Refusals(Scratch):
    def refused(self, status, text, arguments=(), variables=by_torchrun, within=12):
        team = Team(2, lambda rank: [*SMALL, "--steps=6144", self.out("refused"),
                                     *(arguments(rank) if callable(arguments) else arguments)], variables)
        self.addCleanup(team.kill)
        self.assert_all_end(team, status, text, within)
        self.assertFalse((self.root / "refused").exists())

    def test_settings(self):
        self.refused(2, "unknown key 'ppo.blokcs'; did you mean 'ppo.blocks'?", ["ppo.blokcs=3"])
        self.refused(2, "rank 1 has another config than rank 0", lambda rank: [f"--seed={rank}"])
        self.refused(2, "--out and --resume exclude each other", ["--auto-resume", "--resume=x"])

    def test_a_number_of_envs_that_is_to_be_chosen(self):
        given = [each for each in SMALL if not each.startswith("--num-envs")]
        team = Team(2, [*given, "--num-envs=auto", "--steps=6144", self.out("refused")])
        self.addCleanup(team.kill)
        self.assert_all_end(team, 2, "num_envs: expected a number for 2 processes, not auto", 12)

    def test_variables(self):
        self.refused(2, "MASTER_ADDR is not set, though WORLD_SIZE is",
                     variables=lambda rank, size: {"RANK": str(rank), "WORLD_SIZE": str(size)})
        self.refused(2, "RANK: expected a number from 0 to 1, not 'x'",
                     variables=lambda rank, size: {**by_torchrun(rank, size), "RANK": "x"})
        self.refused(2, "MASTER_ADDR: 'no.such.host.invalid' is no address: Name or service not known",
                     variables=lambda rank, size: by_torchrun(rank, size, "no.such.host.invalid", local=1))

    def test_one_that_does_not_come(self):
        team = Team(1, [*SMALL, HASTY, "--steps=6144", self.out("refused")], lambda rank, _: by_torchrun(rank, 2))
        self.assert_all_end(team, 3, "rank 1 of 2 has not come within 6 s", 12)

    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("", 0))
            taken.listen()
            port = taken.getsockname()[1]
            host = own_address()
            team = Team(1, [*SMALL, "--steps=6144", self.out("refused"), f"cluster.port={port}"],
                        lambda rank, _: by_torchrun(rank, 2, host, local=1))
            self.assert_all_end(team, 2, f"cluster.port: {port} of {host} cannot be opened: another program has it", 12)

    def test_another_kernel(self):
        text = "this process computes by 'fused portable'"
        team = Team(2, [*SMALL, "--steps=6144", self.out("refused")],
                    lambda rank, size: {**by_torchrun(rank, size), "FLOTILLA_KERNEL": "portable" if rank else ""})
        for status, _, err in team.end():
            self.assertEqual(status, 2)
            self.assertIn(text, last_line(err))


class RemoteActors(Scratch):
    """A learner and actors that are started alone, on loopback."""

    PORTS = iter(range(29600, 29700))

    def setUp(self):
        super().setUp()
        self.port = next(self.PORTS)

    def start(self, *words, **variables):
        process = subprocess.Popen([OPTIONS.binary, *words], env={**clean_environment(), **variables},
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def learner(self, name, *more, recipe="cartpole-impala"):
        return self.start("train", recipe, "--backend=actors", f"cluster.listen={self.port}", "--threads=1",
                          "eval.episodes=20", "--json", self.out(name), *more)

    def actor(self, *more):
        return self.start("actor", f"127.0.0.1:{self.port}", "--threads=1", *more)

    def summary(self, learner):
        out, err = learner.communicate(timeout=240)
        self.assertEqual(learner.returncode, 0, err[-1000:])
        return json.loads(out), err

    def assert_ended(self, process, status, text, within=20):
        _, err = process.communicate(timeout=within)
        self.assertEqual((process.returncode, last_line(err)), (status, text), err[-600:])

    def steps_of(self, name):
        return self.last_metrics(name).get("step", 0)

    def wait_for_steps(self, name, steps, timeout=60):
        start = time.monotonic()
        while time.monotonic() - start < timeout:
            if self.steps_of(name) >= steps:
                return
            time.sleep(0.05)
        self.fail(f"{steps} steps were not reached")

    def wait_for_more(self, name):
        """Until so many were learnt that actors which are no longer there cannot have played them."""
        self.wait_for_steps(name, self.steps_of(name) + 50000)

    def interrupted(self, learner):
        learner.send_signal(signal.SIGINT)
        _, err = learner.communicate(timeout=60)
        self.assertEqual(learner.returncode, 130, err[-1000:])
        return err

    def test_learn(self):
        for recipe, steps in (("cartpole-impala", 300000), ("cartpole-appo", 200000)):
            actors = [self.actor(), self.actor()]  # before there is a learner
            summary, _ = self.summary(self.learner(recipe, f"--steps={steps}", recipe=recipe))
            self.assertGreaterEqual(summary["eval"]["mean"], 400, recipe)
            self.assertGreaterEqual(summary["steps"], steps)
            for actor in actors:
                self.assert_ended(actor, 0, "the run has ended")

    def test_one_that_is_killed_costs_no_other_and_another_one_joins(self):
        learner = self.learner("killed", ENDLESS)
        first, second = self.actor(), self.actor()
        self.wait_for_steps("killed", 20000)
        self.wait_for_actors("killed", 2)
        first.kill()
        self.wait_for_actors("killed", 1)
        third = self.actor()
        self.wait_for_actors("killed", 2)
        second.kill()
        self.wait_for_actors("killed", 1)
        err = self.interrupted(learner)
        self.assertEqual(err.count("an actor has joined"), 3, err)
        self.assertEqual(err.count("an actor is lost"), 2, err)
        self.assertIn("its process ended", err)
        self.assert_ended(third, 0, "the run has ended")

    def test_one_that_hangs_is_given_up(self):
        learner = self.learner("hung", ENDLESS, HASTY)
        first, _ = self.actor(), self.actor()
        self.wait_for_actors("hung", 2)
        first.send_signal(signal.SIGSTOP)
        self.wait_for_actors("hung", 1, 12)
        err = self.interrupted(learner)
        self.assertIn("no sign of life within 6 s", err)

    def test_the_end_of_the_learner(self):
        for signum, status, text in ((signal.SIGKILL, 3, "flotilla: the learner is lost: its process ended"),
                                     (signal.SIGINT, 0, "the run has ended")):
            learner = self.learner(f"end{signum}", ENDLESS)
            actor = self.actor()
            self.wait_for_steps(f"end{signum}", 5000)
            self.assertTrue(ignores(actor.pid, signal.SIGPIPE))  # of sending to one that dies just then
            learner.send_signal(signum)
            self.assert_ended(actor, status, text, 10)
            learner.communicate(timeout=20)

    def wait_for_meeting(self, *words):
        """Until the file by which processes of this host meet, in the test's folder, has these words."""
        start = time.monotonic()
        while time.monotonic() - start < 30:
            for path in self.root.glob("flotilla-*/meeting-*"):
                if all(word in path.read_bytes() for word in words):
                    return path
            time.sleep(0.02)
        return self.fail(f"no file with {words}")

    def test_a_learner_that_ends_while_an_actor_joins(self):
        own = {"TMPDIR": str(self.root)}
        learner = self.start("train", "cartpole-impala", "--backend=actors", f"cluster.listen={self.port}", HASTY, ENDLESS,
                             "--threads=1", self.out("ends"), **own)
        self.wait_for_meeting(b"deadline_s")
        learner.send_signal(signal.SIGSTOP)
        actor = self.start("actor", f"127.0.0.1:{self.port}", "--threads=1", **own)
        self.wait_for_meeting(b"arrived", b"here/1").unlink()
        learner.kill()
        self.assert_ended(actor, 3, f"flotilla: the learner at 127.0.0.1:{self.port} has ended, or cannot be reached any more")

    def test_a_run_goes_on_with_new_actors(self):
        learner = self.learner("resumed", ENDLESS)
        actor = self.actor()
        self.wait_for_steps("resumed", 10000)
        learner.send_signal(signal.SIGINT)
        learner.communicate(timeout=20)
        self.assert_ended(actor, 0, "the run has ended")
        steps = self.steps_of("resumed") + 50000
        actor = self.actor()
        resumed = self.start("train", f"--resume={self.root / 'resumed'}", f"--steps={steps}", "--json")
        summary, _ = self.summary(resumed)
        self.assertGreaterEqual(summary["steps"], steps)
        self.assert_ended(actor, 0, "the run has ended")

    def test_a_learner_without_actors_says_how_to_start_one_and_can_be_stopped(self):
        learner = self.learner("alone", "--steps=60000")
        guard = threading.Timer(60, learner.kill)  # ends the lines of one that does not say it
        guard.start()
        self.addCleanup(guard.cancel)
        said = any(f"actor 127.0.0.1:{self.port}" in line for line in learner.stderr)
        learner.send_signal(signal.SIGINT)
        _, err = learner.communicate(timeout=20)
        self.assertTrue(said)
        self.assertEqual(learner.returncode, 130, err)

    def test_an_actor_that_is_interrupted_says_goodbye(self):
        learner = self.learner("left", ENDLESS)
        actor = self.actor()
        self.wait_for_steps("left", 5000)
        actor.send_signal(signal.SIGINT)
        actor.communicate(timeout=10)
        self.assertEqual(actor.returncode, 130)
        self.actor()
        self.wait_for_more("left")
        err = self.interrupted(learner)
        self.assertIn("an actor has left", err)
        self.assertNotIn("is lost", err)

    def test_refusals(self):
        for words, status, text in (
                ([f"127.0.0.1:{self.port}", "--wait=1"], 3,
                 f"no learner has been found at 127.0.0.1:{self.port} within 1 s"),
                ([f"{own_address()}:{self.port}", "--wait=1"], 3,
                 f"no learner has been found at {own_address()}:{self.port} within 1 s"),
                (["no.such.host.invalid:5555"], 2,
                 "no.such.host.invalid:5555: 'no.such.host.invalid' is no address: Name or service not known"),
                (["127.0.0.1:x"], 2, "actor: expected HOST:PORT with a port from 1 to 65535, not '127.0.0.1:x'")):
            start = time.monotonic()
            self.assert_ended(self.start("actor", *words), status, "flotilla: " + text, 15)
            self.assertLess(time.monotonic() - start, 12)

    def test_over_tcp(self):
        address = f"{own_address()}:{self.port}"
        actor = self.start("actor", address, "--threads=1")
        summary, _ = self.summary(self.start(
            "train", "cartpole-impala", "--backend=actors", f"cluster.listen={address}", "--steps=20000",
            "eval.episodes=0", "--json", self.out("tcp")))
        self.assertGreaterEqual(summary["steps"], 20000)
        self.assert_ended(actor, 0, "the run has ended")

    def test_a_visitor_who_says_half_of_something_keeps_nobody_out_for_ever(self):
        host = own_address()
        if host == "127.0.0.1":
            self.skipTest("no address that is not loopback, on which there is a port")
        learner = self.learner("visited", ENDLESS, HASTY, f"cluster.listen={host}:{self.port}")
        first = self.start("actor", f"{host}:{self.port}", "--threads=1")
        self.wait_for_actors("visited", 1)
        with socket.create_connection((host, self.port)) as visitor:
            visitor.sendall(b"\0")
            time.sleep(8)
            self.assertIsNone(first.poll())
            first.kill()
        self.start("actor", f"{host}:{self.port}", "--threads=1")
        self.wait_for_more("visited")
        err = self.interrupted(learner)
        self.assertEqual(err.count("an actor has joined"), 2, err)
        self.assertIn("actors can join again", err)
        self.assertNotIn("backtrace", err)

    def test_an_address_of_another_host_is_refused(self):
        learner = self.learner("elsewhere", ENDLESS, f"cluster.listen=198.51.100.1:{self.port}")
        self.assert_ended(learner, 2, "flotilla: cluster.listen: 198.51.100.1 is no address of this host")

    def test_a_worker_that_is_killed_costs_no_actor(self):
        learner = self.learner("workers", ENDLESS, "on_env_failure=restart")
        actor = self.actor("--workers=2")
        self.wait_for_steps("workers", 20000)
        workers = children_of(actor.pid)
        self.assertEqual(len(workers), 2)
        os.kill(workers[0], signal.SIGKILL)
        self.wait_for_more("workers")
        err = self.interrupted(learner)
        self.assertEqual((err.count("an actor has joined"), err.count("is lost")), (1, 0), err)
        _, said = actor.communicate(timeout=20)
        self.assertEqual((actor.returncode, last_line(said)), (0, "the run has ended"), said)
        self.assertIn("1 thread, 2 workers", said)
        self.assertEqual([pid for pid in workers if pathlib.Path(f"/proc/{pid}").exists()], [])


class Pauses(Scratch):
    def test_short_ones_break_nothing(self):
        """A process that waits looks up ten times a second: what comes in just then is no failure."""
        for start, pauses in ((by_torchrun, 20), (by_hosts(), 40)):
            name = start.__name__
            team = Team(2, [*SMALL, ENDLESS, "save_freq=768", self.out(name)], start)
            self.addCleanup(team.kill)
            team.wait_for(self.root / name, 3072)
            for number in range(pauses):
                team.processes[1].send_signal(signal.SIGSTOP)
                time.sleep(0.095 + number % 20 * 0.001)
                team.processes[1].send_signal(signal.SIGCONT)
                time.sleep(0.02)
            self.assertEqual([process.poll() for process in team.processes], [None, None])
            team.processes[0].send_signal(signal.SIGINT)
            self.assertEqual([status for status, _, _ in team.end()], [130, 130])


    def test_longer_ones_than_a_sign_of_life_takes_break_nothing(self):
        """They last until the others have called the roll, and end before the deadline."""
        for start, victim in ((by_torchrun, 1), (by_torchrun, 0), (by_hosts(), 1)):
            name = f"{start.__name__}{victim}"
            team = Team(3, [*SMALL, ENDLESS, "save_freq=768", self.out(name), "cluster.deadline_s=12"], start)
            self.addCleanup(team.kill)
            team.wait_for(self.root / name, 3072)
            for _ in range(2):
                team.processes[victim].send_signal(signal.SIGSTOP)
                time.sleep(9)
                self.assertEqual([process.poll() for process in team.processes], [None] * 3)
                team.processes[victim].send_signal(signal.SIGCONT)
                team.wait_for(self.root / name, steps_kept(self.root / name) + 3072)
            team.processes[0].send_signal(signal.SIGINT)
            self.assertEqual([status for status, _, _ in team.end()], [130] * 3)

    def test_a_visitor_who_says_half_of_something_ends_no_run(self):
        """Where processes of several hosts meet, all answers wait for him."""
        by_host = by_hosts()
        team = Team(3, [*SMALL, ENDLESS, "save_freq=768", self.out("visited"), HASTY], by_host)
        self.addCleanup(team.kill)
        run, port = self.root / "visited", int(by_host(0, 3)["MASTER_PORT"]) + 1
        team.wait_for(run, 3072)
        with socket.create_connection((own_address(), port)) as visitor:
            visitor.sendall(b"\0")
            time.sleep(12)
            team.wait_for(run, steps_kept(run) + 3072)
        time.sleep(4)
        team.processes[1].kill()
        self.assert_all_end(team, 3, "rank 1 is lost: its process ended", 6, besides=(1,))


class TakenPort(Scratch):
    """Processes of several hosts whose port another program has: all say what rank 0 says."""

    def assert_refused(self, port, size=3):
        host = own_address()
        team = Team(size, [*SMALL, "--steps=6144", self.out("refused"), f"cluster.port={port}"],
                    lambda rank, size: by_torchrun(rank, size, host, local=1))
        self.addCleanup(team.kill)
        self.assert_all_end(team, 2, f"cluster.port: {port} of {host} cannot be opened: another program has it", 15)
        self.assertFalse((self.root / "refused").exists())

    def stranger(self, answer=None):
        """The port of a program that is no store. `answer`: what it says to whoever comes, before it closes."""
        listening = socket.create_server(("", 0))
        self.addCleanup(listening.close)

        def serve():
            while True:
                try:
                    with listening.accept()[0] as visitor:
                        visitor.sendall(answer)
                except OSError:
                    return

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        return listening.getsockname()[1]

    def test_by_one_that_is_silent(self):
        self.assert_refused(self.stranger())

    def test_by_one_that_says_something_else(self):
        self.assert_refused(self.stranger(b"220 welcome to another protocol\r\n" * 40))
        self.assert_refused(self.stranger(b""))

    def test_actors_do_not_take_who_speaks_unasked_for_a_learner(self):
        at = f"{own_address()}:{self.stranger(b'220 welcome' * 40)}"
        done = subprocess.run([OPTIONS.binary, "actor", at, "--wait=5"], capture_output=True, text=True, timeout=30)
        self.assertEqual((done.returncode, last_line(done.stderr)),
                         (3, f"flotilla: what is at {at} is no learner: it speaks unasked"))

    def test_by_another_run_which_goes_on(self):
        port, host = 29531, own_address()
        run = Team(2, [*SMALL, ENDLESS, "save_freq=768", self.out("first"), f"cluster.port={port}"],
                   lambda rank, size: by_torchrun(rank, size, host, local=1))
        self.addCleanup(run.kill)
        run.wait_for(self.root / "first", 3072)
        for size in (2, 3):
            self.assert_refused(port, size)
        self.assertEqual([process.poll() for process in run.processes], [None, None])
        run.processes[0].send_signal(signal.SIGINT)
        self.assertEqual([status for status, _, _ in run.end()], [130, 130])

    def test_rank_0_that_does_not_come(self):
        host = own_address()
        team = Team(1, [*SMALL, HASTY, "--steps=6144", self.out("refused"), "cluster.port=29532"],
                    lambda rank, _: by_torchrun(1, 2, host, local=1))
        self.assert_all_end(team, 3, f"rank 0 of 2 has not come within 6 s to port 29532 of {host}", 12)


def own_address():
    """One that is not loopback, or loopback where there is no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


class Hosts:
    """Network namespaces with a bridge between them."""

    def __init__(self, count):
        self.tag = f"fl{os.getpid() % 10000}"
        self.names = [f"{self.tag}h{i}" for i in range(count)]
        self.bridge = f"{self.tag}br"
        self.ip("link", "add", self.bridge, "type", "bridge")
        self.ip("link", "set", self.bridge, "up")
        for i, name in enumerate(self.names):
            self.ip("netns", "add", name)
            self.ip("link", "add", f"{name}o", "type", "veth", "peer", "name", "eth0", "netns", name)
            self.ip("link", "set", f"{name}o", "master", self.bridge, "up")
            self.ip("-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            self.ip("-n", name, "link", "set", "eth0", "up")
            self.ip("-n", name, "link", "set", "lo", "up")

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    @staticmethod
    def address(host):
        return f"10.77.31.{host + 1}"

    def prefix(self, rank):
        return ["ip", "netns", "exec", self.names[rank]]

    def cut_off(self, host):
        self.ip("link", "set", f"{self.names[host]}o", "down")

    def cut_between(self, one, other):
        for host, far in ((one, other), (other, one)):
            self.ip("-n", self.names[host], "route", "add", "blackhole", f"{self.address(far)}/32")

    def join(self, host):
        self.ip("link", "set", f"{self.names[host]}o", "up")

    def close(self):
        # A namespace lives on while a connection of it waits for one that was cut off: its link goes before it.
        for link in [f"{name}o" for name in self.names] + [self.bridge]:
            subprocess.run(["ip", "link", "del", link], check=False, capture_output=True)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


class BetweenHosts(Scratch):
    def setUp(self):
        super().setUp()
        try:
            self.hosts = Hosts(3)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no network namespaces here: {error}")
        self.addCleanup(self.hosts.close)

    def team(self, arguments, size=2):
        team = Team(size, arguments, lambda rank, size: by_torchrun(rank, size, self.hosts.address(0), local=1),
                    self.hosts.prefix)
        self.addCleanup(team.kill)
        return team

    def test_the_bits_are_those_of_one_process(self):
        arguments = [*SMALL, "--steps=6144"]
        expected = alone([*arguments, self.out("one")])["params_sha256"]
        self.assertEqual(self.trained(self.team([*arguments, self.out("two"), "--json"]), "Gloo"), expected)

    def test_torchrun_on_both(self):
        if not OPTIONS.torchrun:
            self.skipTest("no torchrun")
        arguments = [*SMALL, "--steps=6144"]
        expected = alone([*arguments, self.out("one")])["params_sha256"]
        agents = [subprocess.Popen(
            [*self.hosts.prefix(host), OPTIONS.torchrun, "--no-python", "--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d",
             f"--rdzv-endpoint={self.hosts.address(0)}:29500", f"--local-addr={self.hosts.address(host)}",
             f"--rdzv-conf=is_host={int(host == 0)}",  # both namespaces have one host's name
             OPTIONS.binary, *arguments, self.out("four"), "--json"], env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True) for host in range(2)]
        said = [agent.communicate(timeout=180) for agent in agents]
        self.assertEqual([agent.returncode for agent in agents], [0, 0], [err[-500:] for _, err in said])
        found = [json.loads(out)["params_sha256"] for out, _ in said if out]
        self.assertEqual(found, [expected])

    def test_a_remote_actor_that_is_cut_off_costs_no_other(self):
        address = f"{self.hosts.address(0)}:29512"
        commands = [(0, "train", "cartpole-impala", "--backend=actors", f"cluster.listen={address}", HASTY,
                     ENDLESS, "--threads=1", self.out("cut"), "save_freq=4096", "eval.episodes=0"),
                    (0, "actor", address, "--threads=1"), (1, "actor", address, "--threads=1")]
        team = Team(3, lambda rank: commands[rank][1:], lambda rank, size: {},
                    lambda rank: self.hosts.prefix(commands[rank][0]))
        self.addCleanup(team.kill)
        team.wait_for(self.root / "cut", 8192)
        self.wait_for_actors("cut", 2)
        self.hosts.cut_off(1)
        self.wait_for_actors("cut", 1)
        team.processes[0].send_signal(signal.SIGINT)
        learner, near, far = team.end()
        self.assertEqual((learner[0], near[0], far[0]), (130, 0, 3), (learner, near, far))
        self.assertEqual(learner[2].count("an actor has joined"), 2)
        self.assertEqual(learner[2].count("an actor is lost"), 1)
        self.assertIn("the learner is lost: ", last_line(far[2]))

    def test_two_that_are_cut_off_from_each_other_end_all(self):
        """All reach rank 0 and sign the roll, for which they go on once, and no sign of life comes."""
        team = self.team([*SMALL, HASTY, ENDLESS, "save_freq=768", self.out("between")], 3)
        team.wait_for(self.root / "between", 1536)
        self.hosts.cut_between(1, 2)
        self.assert_all_end(team, 3, "the connections between the processes broke", 13)

    def test_one_that_is_cut_off_ends_both_and_the_next_start_goes_on(self):
        limit = [*SMALL, HASTY, "--steps=98304", "save_freq=768"]
        expected = alone([*limit, self.out("one")])["params_sha256"]
        command = [*limit, self.out("cut"), "--auto-resume", "--json"]
        team = self.team(command)
        team.wait_for(self.root / "cut", 1536)
        self.hosts.cut_off(1)
        start = time.monotonic()
        ended = team.end()
        self.assertLess(time.monotonic() - start, 10)
        for rank, (status, _, err) in enumerate(ended):
            self.assertEqual(status, 3, err)
            self.assertIn(f"rank {1 - rank} is lost", last_line(err))
        self.hosts.join(1)
        self.assertEqual(self.trained(self.team(command), "Gloo"), expected)


class SlurmCluster:
    """A controller and two nodes of Slurm on this host, of this user and in one folder."""

    PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
    PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        folder.chmod(0o755)  # munged demands a way to its socket
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)
        self.configuration = folder / "slurm.conf"
        self.configuration.write_text(self.settings())
        self.environment = {**clean_environment(), "SLURM_CONF": str(self.configuration), "PATH": self.PATH}

    @classmethod
    def missing(cls):
        return [name for name in cls.PROGRAMS if not shutil.which(name, path=cls.PATH)]

    def settings(self):
        user, host = pwd.getpwuid(os.getuid()).pw_name, socket.gethostname()
        controller, *nodes = free_ports(3)
        lines = ["ClusterName=scratch", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={controller}",
                 f"SlurmUser={user}", f"SlurmdUser={user}", "AuthType=auth/munge", f"AuthInfo=socket={self.folder}/munge",
                 f"StateSaveLocation={self.folder}/state", f"SlurmdSpoolDir={self.folder}/spool.%n",
                 f"SlurmctldPidFile={self.folder}/controller.pid", f"SlurmdPidFile={self.folder}/%n.pid",
                 "ProctrackType=proctrack/pgid", "TaskPlugin=task/none", "MpiDefault=none", "ReturnToService=2",
                 "SlurmdParameters=config_overrides", "PartitionName=all Nodes=ALL Default=YES State=UP"]
        lines += [f"NodeName=node{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4"
                  for number, port in enumerate(nodes)]
        return "\n".join(lines) + "\n"

    def start(self, name, *words):
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen(words, env=self.environment, stdout=log, stderr=log))

    def come_up(self, timeout=30):
        """Whether it did; some machines do not allow what it needs."""
        at = self.folder
        self.start("munged", "munged", "--foreground", f"--socket={at}/munge", f"--key-file={at}/munge.key",
                   f"--log-file={at}/munge.log", f"--pid-file={at}/munge.pid", f"--seed-file={at}/munge.seed")
        self.start("controller", "slurmctld", "-D", "-c")
        for number in range(2):
            self.start(f"node{number}", "slurmd", "-D", "-N", f"node{number}")
        return self.both_idle(timeout)

    def both_idle(self, timeout):
        """Whether its nodes have nothing to do, now or soon."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and all(process.poll() is None for process in self.processes):
            idle = subprocess.run(["sinfo", "--noheader", "--states=idle", "--format=%D"], env=self.environment,
                                  capture_output=True, text=True, check=False, timeout=timeout).stdout.strip()
            if idle == "2":
                return True
            time.sleep(0.2)
        return False

    def reason(self):
        return "; ".join(f"{log.stem}: {last_line(log.read_text())}" for log in sorted(self.folder.glob("*.log")))

    def close(self):
        self.both_idle(10)  # else what attends to a step would try for ever to tell of its end
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_ports(count):
    probes = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class BySlurm(Scratch):
    def setUp(self):
        super().setUp()
        if missing := SlurmCluster.missing():
            self.skipTest(f"no {', '.join(missing)}")
        (self.root / "slurm").mkdir()
        self.root.chmod(0o755)
        self.slurm = SlurmCluster(self.root / "slurm")
        self.addCleanup(self.slurm.close)
        if not self.slurm.come_up():
            self.skipTest(f"Slurm does not come up here: {self.slurm.reason()}")

    def srun(self, nodes, tasks, *arguments):
        variables = {"MASTER_ADDR": own_address(), "MASTER_PORT": str(free_ports(1)[0] - 1)}
        process = subprocess.Popen(["srun", f"--nodes={nodes}", f"--ntasks={tasks}", OPTIONS.binary, *arguments, "--json"],
                                   env={**self.slurm.environment, **variables}, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def parameters(self, process):
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err[-1000:])
        return json.loads(out)["params_sha256"]

    def test_the_bits_are_those_of_one_process(self):
        arguments = ["train", "cage2", "--steps=4800", "--num-envs=24", "n_steps=50", "ppo.blocks=12", "eval.episodes=2"]
        expected = alone([*arguments, self.out("one")])["params_sha256"]
        for nodes, tasks in ((1, 2), (2, 2), (2, 3)):
            found = self.parameters(self.srun(nodes, tasks, *arguments, self.out(f"on{nodes}of{tasks}")))
            self.assertEqual(found, expected, (nodes, tasks))

    def test_what_is_started_again_ends_with_the_same_bits(self):
        arguments = [*SMALL, "--steps=49152", "save_freq=768"]
        expected = alone([*arguments, self.out("one")])["params_sha256"]
        run = self.root / "killed"
        first = self.srun(2, 2, *arguments, f"--out={run}", "--auto-resume")
        deadline = time.monotonic() + 60
        while steps_kept(run) < 3072:
            self.assertIsNone(first.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        os.kill(programs_of(run)[-1], signal.SIGKILL)
        _, err = first.communicate(timeout=60)
        self.assertNotEqual(first.returncode, 0)
        self.assertRegex(err, "flotilla: rank [01] is lost: ")
        self.assertEqual(self.parameters(self.srun(2, 2, *arguments, f"--out={run}", "--auto-resume")), expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--kills", type=int, default=2, help="of a random process at a random moment")
    parser.add_argument("--torchrun", default=shutil.which("torchrun") or "")
    parser.add_argument("--ray", default="", help="a Python with Ray")
    parser.add_argument("--only", default="", help="a class or a test of it")
    parser.parse_args(namespace=OPTIONS)
    OPTIONS.binary = os.path.abspath(OPTIONS.binary)
    if not (pathlib.Path(OPTIONS.binary).parent / "libflotilla_c10d.so").exists():
        print("skipped: this build has no c10d (libtorch-dev, libgloo-dev)")
        return 77
    names = [f"__main__.{OPTIONS.only}"] if OPTIONS.only else ["__main__"]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    return 0 if unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

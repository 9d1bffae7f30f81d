"""Trains one run by processes that Ray places and watches.

    python -m flotilla.ray --num-workers 4 train cage2 ppo.blocks=4 --out runs/mine
    python -m flotilla.ray --num-actors 4 train cartpole-impala --out runs/other

Each process is that of a Ray actor, which runs the program `flotilla`; what comes behind the options is its command.

Workers train together, as by torchrun or mpirun. When one is lost, all are started again with --auto-resume and go on from the
last checkpoint. Rank 0 stays on one node, where the run directory is; the others need none.

Actors play for a learner, one more process, which has the run directory. One that is lost is started again by itself; with the
learner all are.
"""

import argparse
import os
import shutil
import subprocess
import sys
import uuid

ENDED, REFUSED, LOST = 0, 2, 3  # exit status: LOST of a process whose environment or whose peer failed
KILLED = -9
LEARNER_WAIT_S = 120  # of actors for a learner that starts


def gives(command: list[str], *names: str) -> bool:
    """Whether it has one of these options or keys."""
    return any(word.split("=")[0] in names for word in command)


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m flotilla.ray", description=__doc__.splitlines()[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False)
    parser.add_argument("--num-workers", type=int, help="processes that train together (ppo)")
    parser.add_argument("--num-actors", type=int, help="processes that play for one that learns (impala, appo)")
    parser.add_argument("--cpus-per-worker", type=float, default=1,
                        help="that Ray sets aside for each process, the learner included, and its threads")
    parser.add_argument("--gpus-per-worker", type=float, default=0,
                        help="likewise (for train --device cuda); Ray hides those that are not asked for")
    parser.add_argument("--strategy", default="PACK", choices=["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"],
                        help="how Ray places them on its nodes")
    parser.add_argument("--max-restarts", type=int, default=10, help="starts after the first one, of all or of an actor")
    parser.add_argument("--address", help="of a Ray cluster; otherwise one is started here")
    parser.add_argument("--program", help="the program on every node (default: flotilla of the search path, or ./flotilla)")
    # Split by hand: the command has options of the same names, such as --num-workers.
    start = arguments.index("train") if "train" in arguments else len(arguments)
    options, unknown = parser.parse_known_args(arguments[:start])
    command = arguments[start:]
    if (options.num_workers is None) == (options.num_actors is None):
        parser.error("expected either --num-workers or --num-actors")
    for name, number in (("workers", options.num_workers), ("actors", options.num_actors)):
        if number is not None and number < 1:
            parser.error(f"--num-{name}: expected 1 or more")
    if not command:
        parser.error("expected a command of flotilla behind the options: train NAME ...")
    if unknown:
        parser.error(f"unknown before train: {' '.join(unknown)}")
    if not gives(command, "--out"):
        parser.error("train needs --out, from which a restart goes on")
    if options.num_actors and gives(command, "cluster.listen"):
        parser.error("cluster.listen is chosen here: leave it out")
    return options, command


class Worker:
    """One process of the run. Methods are called by Ray, two at once: `run` lasts as long as the process."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def place(self) -> tuple[str, str, int]:
        """The node, its address, and a port that is free there."""
        import socket

        import ray
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address(), port

    def run(self, command: list[str], folder: str, variables: dict[str, str]) -> int:
        """The exit status. What the process says goes to the log of the worker, which Ray shows."""
        where = folder if os.path.isdir(folder) else None
        self.process = subprocess.Popen(command, env={**os.environ, **variables}, cwd=where, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(line, end="", flush=True)
        return self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()


def variables_of(places: list[tuple[str, str, int]]) -> list[dict[str, str]]:
    """What torchrun would set for each rank."""
    start = uuid.uuid4().hex
    _, address, port = places[0]
    return [{"RANK": str(rank), "WORLD_SIZE": str(len(places)),
             "LOCAL_WORLD_SIZE": str(sum(other == node for other, _, _ in places)), "MASTER_ADDR": address,
             "MASTER_PORT": str(port - 1), "FLOTILLA_START_ID": start}
            for rank, (node, _, _) in enumerate(places)]


class Team:
    """The Ray actors of one start, each in its bundle of the placement group."""

    def __init__(self, ray, group, bundle: dict[str, float], size: int) -> None:
        self.ray, self.group, self.bundle = ray, group, bundle
        self.workers = [self.new_worker(number) for number in range(size)]

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *_) -> None:
        for worker in self.workers:
            try:
                self.ray.get(worker.stop.remote(), timeout=5)
            except (self.ray.exceptions.RayActorError, self.ray.exceptions.GetTimeoutError):
                pass
            self.ray.kill(worker)

    def new_worker(self, number: int):
        strategy = self.ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
        worker = self.ray.remote(num_cpus=self.bundle["CPU"], num_gpus=self.bundle.get("GPU", 0), max_concurrency=2)(Worker)
        return worker.options(
            scheduling_strategy=strategy(self.group, placement_group_bundle_index=number)).remote()

    def places(self) -> list[tuple[str, str, int]]:
        return self.ray.get([worker.place.remote() for worker in self.workers])

    def run(self, number: int, command: list[str], variables: dict[str, str]):
        return self.workers[number].run.remote(command, os.getcwd(), variables)

    def status(self, run) -> int:
        """Of a process that has ended, LOST where its Ray actor died."""
        try:
            return self.ray.get(run)
        except self.ray.exceptions.RayActorError:
            return LOST


def train_by_workers(team: Team, command: list[str]) -> int:
    """Starts all and waits until all have ended; the status of the first that failed. Throws where a Ray actor died."""
    variables = variables_of(team.places())
    waiting = [team.run(rank, command, of_rank) for rank, of_rank in enumerate(variables)]
    status = ENDED
    while waiting:
        ended, waiting = team.ray.wait(waiting, num_returns=1)
        found = team.ray.get(ended[0])
        status = status or found
    return status


def listening_address(places: list[tuple[str, str, int]]) -> str:
    """The learner's. Where all are on its node they meet on loopback, which no other machine reaches."""
    node, address, port = places[0]
    if all(other == node for other, _, _ in places):
        return f"127.0.0.1:{port}"
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def train_by_actors(team: Team, command: list[str], threads: int, max_restarts: int) -> int:
    """The status of the learner, which is number 0; or that of the last actor, where none is left."""
    at = listening_address(team.places())
    play = [command[0], "actor", at, f"--threads={threads}", f"--wait={LEARNER_WAIT_S}"]
    env = command[2] if len(command) > 2 else ""
    if env.startswith(("gym:", "py:")):
        play.append(f"--env={env}")  # whoever typed it allows it to actors, too
    learner = team.run(0, [*command, f"cluster.listen={at}"], {})
    numbers = range(1, len(team.workers))
    playing = {team.run(number, play, {}): number for number in numbers}
    starts = dict.fromkeys(numbers, 1)
    while True:
        ended = team.ray.wait([learner, *playing], num_returns=1)[0][0]
        status = team.status(ended)
        if ended == learner:
            if status == ENDED and playing:
                team.ray.wait(list(playing), num_returns=len(playing), timeout=10)  # they end by themselves
            return status
        number = playing.pop(ended)
        if status == REFUSED:
            return status  # as it would be again
        if status != ENDED and starts[number] <= max_restarts:
            starts[number] += 1
            print(f"flotilla.ray: actor {number} was lost; start {starts[number]} of {max_restarts + 1}", file=sys.stderr)
            playing[start_again(team, number, play)] = number
        elif status != ENDED and not playing:
            print("flotilla.ray: no actor is left", file=sys.stderr)
            return status


def start_again(team: Team, number: int, command: list[str]):
    """In a Ray actor of its own, for the old one may be what was lost."""
    team.ray.kill(team.workers[number])
    team.workers[number] = team.new_worker(number)
    return team.run(number, command, {})


def main(arguments: list[str] | None = None) -> int:
    options, command = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        print("flotilla.ray needs Ray: pip install ray", file=sys.stderr)
        return 2
    program = options.program or shutil.which("flotilla") or os.path.abspath("flotilla")
    threads = max(1, int(options.cpus_per_worker))
    if not gives(command, "--auto-resume"):
        command.append("--auto-resume")
    if not gives(command, "--threads", "threads"):
        command.append(f"--threads={threads}")
    if options.num_actors and not gives(command, "--backend", "backend"):
        command.append("--backend=actors")
    processes = options.num_workers or options.num_actors + 1
    bundle = {"CPU": options.cpus_per_worker}
    if options.gpus_per_worker > 0:
        bundle["GPU"] = options.gpus_per_worker
    ray.init(address=options.address, log_to_driver=True)
    try:
        group = ray.util.placement_group([bundle] * processes, strategy=options.strategy)
        if not group.wait(60):
            print(f"flotilla.ray: the cluster has no place for {processes} processes with "
                  f"{options.cpus_per_worker:g} CPUs and {options.gpus_per_worker:g} GPUs each", file=sys.stderr)
            return 2
        for start in range(options.max_restarts + 1):
            try:
                with Team(ray, group, bundle, processes) as team:
                    if options.num_actors:
                        status = train_by_actors(team, [program, *command], threads, options.max_restarts)
                    else:
                        status = train_by_workers(team, [program, *command])
            except ray.exceptions.RayActorError:
                status = LOST
            if status not in (LOST, KILLED) or start == options.max_restarts:
                return status
            print(f"flotilla.ray: a process was lost; start {start + 2} of {options.max_restarts + 1}", file=sys.stderr)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    sys.exit(main())

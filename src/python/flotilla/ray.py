"""Trains one run by processes that Ray places and watches.

    python -m flotilla.ray --num-workers 4 train cage2 ppo.blocks=4 --out runs/mine

Each worker is a Ray actor that runs the program `flotilla`, as torchrun or mpirun would; what comes behind the options is its
command. When one is lost, all are started again with --auto-resume and go on from the last checkpoint. Rank 0 stays on one
node, where the run directory is; the others need none.
"""

import argparse
import os
import shutil
import subprocess
import sys
import uuid

LOST = 3  # exit status of a process whose environment or whose peer failed
KILLED = -9


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m flotilla.ray", description=__doc__.splitlines()[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--num-workers", type=int, required=True, help="processes")
    parser.add_argument("--cpus-per-worker", type=float, default=1, help="that Ray sets aside for each, and its threads")
    parser.add_argument("--strategy", default="PACK", choices=["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"],
                        help="how Ray places them on its nodes")
    parser.add_argument("--max-restarts", type=int, default=10, help="starts after the first one")
    parser.add_argument("--address", help="of a Ray cluster; otherwise one is started here")
    parser.add_argument("--program", help="the program on every node (default: flotilla of the search path, or ./flotilla)")
    options, command = parser.parse_known_args(arguments)
    if options.num_workers < 1:
        parser.error("--num-workers: expected 1 or more")
    if not command or command[0] != "train":
        parser.error("expected a command of flotilla behind the options: train NAME ...")
    if not any(word == "--out" or word.startswith("--out=") for word in command):
        parser.error("train needs --out, from which a restart goes on")
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


def run_once(ray, group, options: argparse.Namespace, command: list[str]) -> int:
    """Starts all and waits until all have ended; the status of the first that failed, LOST where an actor died."""
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
    actor = ray.remote(num_cpus=options.cpus_per_worker, max_concurrency=2)(Worker)
    workers = [actor.options(scheduling_strategy=strategy(group, placement_group_bundle_index=rank)).remote()
               for rank in range(options.num_workers)]
    status = 0
    try:
        places = ray.get([worker.place.remote() for worker in workers])
        waiting = [worker.run.remote(command, os.getcwd(), variables)
                   for worker, variables in zip(workers, variables_of(places))]
        while waiting:
            ended, waiting = ray.wait(waiting, num_returns=1)
            found = ray.get(ended[0])
            status = status or found
        return status
    except ray.exceptions.RayActorError:
        return LOST
    finally:
        for worker in workers:
            try:
                ray.get(worker.stop.remote(), timeout=5)
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
                pass
            ray.kill(worker)


def main(arguments: list[str] | None = None) -> int:
    options, command = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        print("flotilla.ray needs Ray: pip install ray", file=sys.stderr)
        return 2
    program = options.program or shutil.which("flotilla") or os.path.abspath("flotilla")
    if "--auto-resume" not in command:
        command = [*command, "--auto-resume"]
    threads = max(1, int(options.cpus_per_worker))
    if not any(word.split("=")[0] in ("--threads", "threads") for word in command):
        command.append(f"--threads={threads}")
    ray.init(address=options.address, log_to_driver=True)
    try:
        group = ray.util.placement_group([{"CPU": options.cpus_per_worker}] * options.num_workers,
                                         strategy=options.strategy)
        if not group.wait(60):
            print(f"flotilla.ray: the cluster has no place for {options.num_workers} workers with "
                  f"{options.cpus_per_worker:g} CPUs each", file=sys.stderr)
            return 2
        for start in range(options.max_restarts + 1):
            status = run_once(ray, group, options, [program, *command])
            if status not in (LOST, KILLED):
                return status
            print(f"flotilla.ray: a process was lost; start {start + 2} of {options.max_restarts + 1}", file=sys.stderr)
        return status
    finally:
        ray.shutdown()


if __name__ == "__main__":
    sys.exit(main())

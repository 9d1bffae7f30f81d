"""Training, and the runs that it leaves."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import _native, _settings
from ._native import Error, UsageError
from .policy import Policy

OTHER_LIMITS = {"episodes", "iterations", "epochs", "duration_s"}
STEP_LIMITS = {"total_timesteps", "steps"}


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run stands after an update."""

    steps: int
    episodes: int
    updates: int
    env_failures: int
    wall_s: float
    fraction: float  # of the nearest limit
    return_mean: float  # of the last 100 episodes; -inf before one has ended
    length_mean: float
    return_best: float
    ended: int  # episodes that ended since the update before
    env_metrics: dict[str, float]  # of these, by the names of the environment
    losses: dict[str, float]  # what the algorithm reports of the update


Callback = Callable[[Progress], bool | None]

_admitted: list[str] = []  # for processes of their own


def admit(env: str) -> None:
    """Lets runs and policy files name a Python environment: `admit("py:my_pkg.envs:make")`.

    A file of somebody else must not choose the code that runs here. What `train` is asked for by
    name is admitted by that.
    """
    _native.admit(env)
    _admitted.append(env)


def train(what: str = "", *, seed: int | None = None, callback: Callback | None = None,
          out: str | os.PathLike[str] = "", resume: "str | os.PathLike[str] | Run | None" = None,
          from_step: int | None = None, own_process: bool = False,
          settings: Mapping[str, Any] | None = None, **overrides: Any) -> "Run":
    """Trains a policy and evaluates it; returns the run.

    what: a recipe, an environment or a YAML file, as for `flotilla train`. Python environments,
        "gym:ID" and "py:MODULE:NAME", run in workers of this interpreter, unless $FLOTILLA_PYTHON
        names another.
    callback: sees a `Progress` after every update; what it returns as False stops the run, which
        then ends like any other.
    out: directory of the run; else one of its own under runs/.
    resume: a run, or its directory, to go on with, instead of `what`; from_step: from that
        checkpoint instead of the last one.
    own_process: train in a process of its own, as is done wherever libtorch is needed: the one that
        this process may have imported is another.
    settings, overrides: keys of the run: `num_envs=8`, `learning_rate=1e-3`, `ppo={"gamma": 0.9}`.

    Ctrl-C ends it with a checkpoint, from which `resume` goes on.
    """
    texts = _settings.flat({**(settings or {}), **overrides})
    if seed is not None:
        texts["seed"] = _settings.text_of("seed", seed)
    # Asking for episodes or a duration means: not the recipe's number of steps.
    if OTHER_LIMITS & texts.keys() and not STEP_LIMITS & texts.keys() and resume is None:
        texts["total_timesteps"] = "0"
    request = {"what": what, "overrides": _settings.assignments(texts), "out": os.fspath(out),
               "resume": "" if resume is None else os.fspath(getattr(resume, "path", resume)),
               "from_step": from_step}
    if bool(what) == bool(request["resume"]):
        raise UsageError("say what to train: a recipe, an environment or a YAML file, or a run to "
                         "resume")
    if what.startswith(("gym:", "py:")):
        admit(what)
    listener = None if callback is None else lambda facts: callback(Progress(**facts))
    if own_process or _needs_torch(request):
        from . import _child
        return Run(_child.train(request, _admitted, listener))
    return Run(_native.train(**request, callback=listener))


def _needs_torch(request: dict[str, Any]) -> bool:
    what = request["what"] or os.path.join(request["resume"], "config.yaml")
    try:
        return _native.needs_torch(what, request["overrides"])
    except Error:
        return False  # the training itself says what is wrong


class Run:
    """A run in its directory, of this process or of the command line, finished or not."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)
        self.refresh()

    def refresh(self) -> None:
        """Reads the files again: a run may be going on."""
        facts = _native.read_run(os.fsencode(self.path))
        self.settings: dict[str, str] = facts["settings"]
        self.summary: dict[str, Any] | None = (
            None if facts["summary"] is None else json.loads(facts["summary"]))
        self._metrics: dict[str, np.ndarray] = facts["metrics"]

    @property
    def finished(self) -> bool:
        return self.summary is not None

    @property
    def env(self) -> str:
        """The environment it was trained in."""
        return self.settings["env.name"]

    @property
    def env_settings(self) -> dict[str, str]:
        """Its settings: `flotilla.make_vec(run.env, 8, **run.env_settings)`."""
        return {key.removeprefix("env."): text for key, text in self.settings.items()
                if key.startswith("env.") and key != "env.name"}

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """A column per name, a row per update: `pandas.DataFrame(run.metrics)`."""
        return dict(self._metrics)

    @property
    def checkpoints(self) -> list[int]:
        """The steps there are checkpoints of."""
        return _native.checkpoint_steps(os.fsencode(self.path))

    def policy(self, checkpoint: str | int = "last", *, seed: int = 0) -> Policy:
        return Policy.load(self.path, checkpoint, seed=seed)

    def evaluate(self, episodes: int = 100, *, checkpoint: str | int = "last",
                 deterministic: bool | None = None, seed: int | None = None,
                 **settings: Any) -> dict[str, Any]:
        """Plays episodes. Without arguments the numbers are those of `summary["eval"]`.

        settings: of the environment, where they are to be others.
        """
        if not 1 <= episodes <= 1_000_000:
            raise UsageError(f"episodes: expected an integer from 1 to 1000000, got {episodes}")
        return json.loads(_native.evaluate(os.fsencode(self.path), str(checkpoint), episodes,
                                           deterministic, seed,
                                           _settings.assignments(settings),
                                           float(self.settings.get("start_timeout_s", 60))))

    def plot(self, names: str | list[str] = "charts/return_mean_100", *, x: str = "step",
             ax: Any = None) -> Any:
        """Draws columns of the metrics; returns the axes. Needs matplotlib."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plot() needs matplotlib: pip install 'flotilla[plot]'") from error
        names = [names] if isinstance(names, str) else names
        for name in [x, *names]:
            if name not in self._metrics:
                raise UsageError(f"plot: no metric '{name}'; there are {', '.join(self._metrics)}")
        ax = plt.subplots()[1] if ax is None else ax
        for name in names:
            ax.plot(self._metrics[x], self._metrics[name], label=name)
        ax.set_xlabel(x)
        ax.set_title(os.path.basename(os.path.normpath(self.path)))
        ax.legend()
        return ax

    def __repr__(self) -> str:
        state = "finished" if self.finished else "not finished"
        return f"Run({self.path!r}, {state})"

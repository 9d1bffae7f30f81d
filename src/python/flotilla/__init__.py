"""Flotilla: reinforcement learning with native environments, from Python.

    import flotilla

    envs = flotilla.make_vec("cartpole", num_envs=64)       # a gymnasium.vector.VectorEnv
    env = flotilla.make("cartpole")                         # a gymnasium.Env
    run = flotilla.train("cartpole", seed=1)                # a Run
    run.policy().predict(obs)
    flotilla.Run("runs/cartpole").metrics                   # columns, for pandas as they are

Environments need Gymnasium (`pip install 'flotilla[gymnasium]'`), the rest NumPy alone.
Errors are `flotilla.Error`, with a class for each kind.
"""

import importlib.util
import os
import sys
from typing import Any

from . import _native
from ._native import (CheckFailed, DataError, EnvFailure, Error, InternalError, Interrupted,
                      NumericError, UsageError)
from .policy import Policy
from .runs import Progress, Run, admit, train

__version__ = "0.1.0"
__all__ = ["CheckFailed", "DataError", "EnvFailure", "Error", "InternalError", "Interrupted",
           "NumericError", "Policy", "Progress", "Run", "UsageError", "admit", "env_help", "envs",
           "make", "make_vec", "recipes", "train"]

# Worker processes are this interpreter with a program that needs nothing but the extension module:
# neither site-packages nor what the user's own program imports. Those of Python environments are
# this interpreter with all of it.
if sys.executable:
    _native.set_host(sys.executable)
    _native.set_worker_program(
        [sys.executable, "-S", "-E", os.path.join(os.path.dirname(__file__), "_worker_program.py")])


def envs() -> dict[str, str]:
    """The environments there are: their names, and a line on each."""
    return dict(_native.env_names())


def recipes() -> dict[str, str]:
    """What `train` knows by name besides environments, and a line on each."""
    return dict(_native.recipe_names())


def env_help(name: str) -> str:
    """The settings of an environment, with their ranges and defaults."""
    return _native.env_help(name)


def _gym(asking: str) -> Any:
    if importlib.util.find_spec("gymnasium") is None:
        raise ImportError(f"flotilla.{asking} needs gymnasium: pip install 'flotilla[gymnasium]'")
    from . import gym
    return gym


def make_vec(name: str, num_envs: int = 1, **settings: Any) -> Any:
    """A batch of native environments as a `gymnasium.vector.VectorEnv`; see `flotilla.gym.VectorEnv`."""
    return _gym("make_vec").VectorEnv(name, num_envs, **settings)


def make(name: str, **settings: Any) -> Any:
    """One native environment as a `gymnasium.Env`; see `flotilla.gym.Env`."""
    return _gym("make").Env(name, **settings)


if importlib.util.find_spec("gymnasium") is not None:
    _gym("").register()

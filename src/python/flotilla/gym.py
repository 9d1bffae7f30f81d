"""Native environments for Gymnasium: a batch of them, and a single one."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from . import _native, _settings
from ._native import UsageError

LARGEST_SEED = 2**63 - 1


def observation_space(spec: dict[str, Any]) -> spaces.Box:
    shape, dtype = spec["obs_shape"], np.dtype(spec["obs_dtype"])
    bounds = [np.array(spec[key], dtype=dtype).reshape(shape) for key in ("obs_low", "obs_high")]
    return spaces.Box(*bounds, dtype=dtype.type)


def action_space(spec: dict[str, Any]) -> spaces.Space:
    if spec["action_kind"] == "box":
        return spaces.Box(np.array(spec["action_low"], dtype=np.float32),
                          np.array(spec["action_high"], dtype=np.float32), dtype=np.float32)
    if spec["action_kind"] == "discrete":
        return spaces.Discrete(spec["action_choices"][0])
    return spaces.MultiDiscrete(spec["action_choices"])


def make_batch(name: str, num_envs: int, *, copy: bool = True, statistics: bool = False,
               first_env: int = 0, max_episode_steps: int | None = None,
               render_mode: str | None = None, **settings: Any) -> _native.Batch:
    """The batch behind every kind of environment here. Settings are those of the batch or the env."""
    if render_mode is not None:
        raise UsageError(f"render_mode: native environments draw nothing, got '{render_mode}'")
    of_batch, of_env = {"num_envs": _settings.text_of("num_envs", num_envs)}, {}
    known = set(_native.batch_keys())
    for key, text in _settings.flat(settings).items():
        (of_batch if key in known else of_env)[key.removeprefix("env.")] = text
    return _native.Batch(name, _settings.assignments(of_batch), _settings.assignments(of_env),
                         first_env, max_episode_steps or 0, copy, statistics)


def checked_seed(seed: Any, num_envs: int = 1) -> int:
    """The seed of a batch. A list of seeds has to be seed, seed + 1, ..., as libraries make it."""
    if isinstance(seed, (Sequence, np.ndarray)):
        if len(seed) != num_envs or any(each != seed[0] + i for i, each in enumerate(seed)):
            raise UsageError("seed: expected one number, or one and those that follow it: "
                             "env i of a batch draws by the seed and its number i")
        seed = seed[0]
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise UsageError(f"seed: expected an integer, got {seed!r}")
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"seed: expected an integer from 0 to {LARGEST_SEED}, got {seed}")
    return int(seed)


class VectorEnv(gymnasium.vector.VectorEnv):
    """A batch of native environments.

    Episodes begin anew in the step that ends one (`AutoresetMode.SAME_STEP`): then the observation
    is the first of the new episode, `info["final_obs"]` has the last one and `info["final_info"]`
    the metrics of the environment. `info["action_mask"]` says which choices are open, where the
    environment knows that. `info["valid"]` is there only where a row is to be left out, because an
    environment failed.

    copy: False gives views of the batch, which the next step overwrites.
    statistics: True adds `info["episode"]` with the return `r` and the length `l`.
    backend: serial | threads | processes; with threads, workers, groups, on_env_failure, ...
    first_env: number of the first environment; random numbers depend on seed and number.
    max_episode_steps: replaces the environment's own limit.
    Other settings are those of the environment (`flotilla.env_help`).
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}

    def __init__(self, name: str, num_envs: int = 1, **settings: Any):
        self.closed = True  # until there is something to close
        self._batch = make_batch(name, num_envs, **settings)
        self.closed = False
        self.native_spec = self._batch.spec
        self.num_envs = self._batch.num_envs
        self.num_groups = self._batch.groups
        self.single_observation_space = observation_space(self.native_spec)
        self.single_action_space = action_space(self.native_spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | Sequence[int] | None = None,
              options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Without a seed, one that follows from the last seed given, or a random one."""
        if options and "reset_mask" in options:
            raise UsageError("reset_mask: environments of a batch begin anew by themselves")
        if seed is not None:
            seed = checked_seed(seed, self.num_envs)
            super().reset(seed=seed)
        else:
            seed = int(self.np_random.integers(LARGEST_SEED))
        return self._batch.reset(seed)

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray,
                                          dict[str, Any]]:
        return self._batch.step(actions)

    def send(self, actions: Any, group: int = 0) -> None:
        """Begins a step of one group and returns at once; `recv` has its result."""
        self._batch.send(actions, group)

    def recv(self, group: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray,
                                            dict[str, Any]]:
        """What `step` returns, for the environments of one group."""
        return self._batch.recv(group)

    def group(self, index: int) -> slice:
        """The environments of a group."""
        return slice(*self._batch.group(index))

    def failures(self) -> list[str]:
        """What went wrong since the last call, where the batch goes on after failures."""
        return self._batch.failures()

    def close_extras(self, **kwargs: Any) -> None:
        self._batch.close()


class Env(gymnasium.Env):
    """One native environment. Settings as for `VectorEnv`.

    An invalid step, of an environment that failed and was given a new episode, ends the episode as
    one that is cut off: `truncated`, with `info["valid"]` False, reward 0 and the last observation
    that was seen.
    """

    metadata = {"render_modes": []}

    def __init__(self, name: str, **settings: Any):
        if "copy" in settings or settings.get("num_envs", 1) != 1:
            raise UsageError("copy, num_envs: make() gives one environment; make_vec() has these")
        self._batch = make_batch(name, 1, **settings)
        self.native_spec = self._batch.spec
        self.observation_space = observation_space(self.native_spec)
        self.action_space = action_space(self.native_spec)
        self._discrete = self.native_spec["action_kind"] == "discrete"
        self._next: tuple[np.ndarray, dict[str, Any]] | None = None  # of an episode that has begun
        self._seen: np.ndarray | None = None  # the observation to act on
        self._over = True

    def reset(self, *, seed: int | None = None,
              options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            seed = checked_seed(seed)
        super().reset(seed=seed)
        if seed is None and self._next is not None:  # the batch has begun it already
            obs, info = self._next
        else:
            start = int(self.np_random.integers(LARGEST_SEED)) if seed is None else seed
            obs, info = self._batch.reset(start)
        self._next, self._seen, self._over = None, obs[0], False
        return obs[0], _mask_of(info)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise UsageError("no episode is under way: call reset()")
        row = np.asarray(action)
        actions = row.reshape(1) if self._discrete and row.size == 1 else row.reshape(1, -1)
        obs, reward, terminated, truncated, info = self._batch.step(actions)
        if not (terminated[0] or truncated[0]):
            if "valid" in info:
                return self._cut()
            self._seen = obs[0]
            return obs[0], float(reward[0]), False, False, _mask_of(info)
        self._next, self._over = (obs, info), True
        final = {name: values[0] for name, values in info["final_info"].items() if name[0] != "_"}
        if "valid" in info:
            final["valid"] = False  # and enters no statistic
        elif "episode" in info:
            final["episode"] = {name: info["episode"][name][0] for name in ("r", "l")}
        return (info["final_obs"][0], float(reward[0]), bool(terminated[0]), bool(truncated[0]),
                final)

    def _cut(self) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """The row is not to be used, and may be of another episode already: reset() begins one."""
        assert self._seen is not None
        self._over = True
        return self._seen, 0.0, False, True, {"valid": False}

    def close(self) -> None:
        self._batch.close()


def _mask_of(info: dict[str, Any]) -> dict[str, Any]:
    return {"action_mask": info["action_mask"][0]} if "action_mask" in info else {}


def register() -> None:
    """Makes `gymnasium.make("flotilla/NAME-v0")` and `make_vec` know the native environments."""
    for name, _ in _native.env_names():
        if f"flotilla/{name}-v0" not in gymnasium.registry:
            gymnasium.register(id=f"flotilla/{name}-v0", entry_point="flotilla.gym:Env",
                               vector_entry_point="flotilla.gym:VectorEnv", kwargs={"name": name})

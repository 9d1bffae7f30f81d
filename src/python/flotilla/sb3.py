"""Native environments for Stable-Baselines3. Needs it: pip install 'flotilla[sb3]'.

    model = PPO("MlpPolicy", FlotillaVecEnv("cartpole", n_envs=8))
    model = MaskablePPO("MlpPolicy", FlotillaVecEnv("cage2", n_envs=8))      # of sb3-contrib
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env.base_vec_env import VecEnv
except ImportError as error:
    raise ImportError("flotilla.sb3 needs stable-baselines3: pip install 'flotilla[sb3]'") from error

from . import gym
from ._native import UsageError


class FlotillaVecEnv(VecEnv):
    """A batch as a VecEnv. Its infos have `episode`, as those of a Monitor: no wrapper is needed.

    An invalid row, of an environment that failed and was given a new episode or is out of service,
    ends an episode as one that is cut off: `TimeLimit.truncated`, with `valid` False, reward 0 and
    the last observation that was seen as `terminal_observation`. It has no `episode`.
    """

    def __init__(self, name: str, n_envs: int = 1, **settings: Any):
        if "copy" in settings:
            raise UsageError("copy: Stable-Baselines3 keeps observations beyond the next step")
        self._batch = gym.make_batch(name, n_envs, **{**settings, "statistics": True})
        self.native_spec = self._batch.spec
        self._draws = np.random.default_rng()
        self._masks: np.ndarray | None = None
        self._actions: Any = None
        self._seen: np.ndarray | None = None  # the observations to act on
        self._began = time.monotonic()
        super().__init__(self._batch.num_envs, gym.observation_space(self.native_spec),
                         gym.action_space(self.native_spec))

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Of the next reset. Environment i draws by the seed and its number i."""
        if seed is not None:
            gym.checked_seed(seed)
            self._draws = np.random.default_rng(seed)
        return super().seed(seed)

    def reset(self) -> np.ndarray:
        seed = self._seeds[0]
        if seed is None:
            seed = int(self._draws.integers(gym.LARGEST_SEED))
        obs, info = self._batch.reset(gym.checked_seed(seed))
        self._masks, self._seen = info.get("action_mask"), obs
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        obs, rewards, terminated, truncated, info = self._batch.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        done = terminated | truncated
        if "final_obs" in info:
            self._add_ended(infos, info, truncated & ~terminated)
        if "valid" in info:
            self._add_invalid(infos, ~info["valid"], done)
        self._masks, self._seen = info.get("action_mask"), obs
        return obs, rewards, done, infos

    def _add_ended(self, infos: list[dict[str, Any]], info: dict[str, Any],
                   cut_off: np.ndarray) -> None:
        seconds = round(time.monotonic() - self._began, 6)
        metrics = [item for item in info["final_info"].items() if item[0][0] != "_"]
        for i in np.flatnonzero(info["_final_obs"]):
            infos[i] = {name: values[i] for name, values in metrics}
            infos[i].update({
                "terminal_observation": info["final_obs"][i],
                "TimeLimit.truncated": bool(cut_off[i]),
                "episode": {"r": float(info["episode"]["r"][i]), "l": int(info["episode"]["l"][i]),
                            "t": seconds}})

    def _add_invalid(self, infos: list[dict[str, Any]], invalid: np.ndarray,
                     done: np.ndarray) -> None:
        assert self._seen is not None
        for i in np.flatnonzero(invalid):
            infos[i]["valid"] = False
            infos[i].pop("episode", None)
            if not done[i]:  # what is in the row may be of another episode already
                infos[i].update({"terminal_observation": self._seen[i],
                                 "TimeLimit.truncated": True})
        done |= invalid

    def action_masks(self) -> np.ndarray:
        """Which choices are open, as MaskablePPO wants them: a row of booleans for each env."""
        if self._masks is None:
            raise AttributeError(f"'{self.native_spec['name']}' has no action masks")
        return self._masks.astype(bool)

    def close(self) -> None:
        self._batch.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        chosen = list(self._get_indices(indices))
        if attr_name == "action_masks":
            if not self.native_spec["masked"]:
                raise AttributeError(f"'{self.native_spec['name']}' has no action masks")
            return [lambda i=i: self.action_masks()[i] for i in chosen]
        if attr_name in ("render_mode", "spec"):
            return [None for _ in chosen]
        return [getattr(self, attr_name) for _ in chosen]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise UsageError(f"{attr_name}: native environments have settings, which are given when "
                         "they are made, and no attributes to set")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None,
                   **method_kwargs: Any) -> list[Any]:
        if method_name == "action_masks":
            masks = self.action_masks()
            return [masks[i] for i in self._get_indices(indices)]
        raise AttributeError(f"native environments have no method '{method_name}'")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [issubclass(wrapper_class, Monitor) for _ in self._get_indices(indices)]

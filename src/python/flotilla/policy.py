"""A trained policy that acts."""

import os
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _native
from ._native import UsageError

if TYPE_CHECKING:
    from .runs import Run
    from .torch_module import PolicyModule


class Policy:
    """A policy of a run, or of a policy file: `Policy.load("runs/cartpole").predict(obs)`."""

    def __init__(self, native: _native.LoadedPolicy, seed: int = 0):
        self._native = native
        self._facts = native.describe()
        self._seed, self._step = seed, 0

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]", "Run"], checkpoint: str | int = "last", *,
             seed: int = 0) -> "Policy":
        """A run directory, a `Run`, or a policy file. checkpoint: of a run, "last", "best" or a step."""
        path = os.fsencode(getattr(path, "path", path))
        return cls(_native.LoadedPolicy(path, str(checkpoint)), seed)

    @property
    def env(self) -> str:
        """The environment it was trained in."""
        return self._facts["env"]

    @property
    def path(self) -> str:
        """The file it is of."""
        return os.fsdecode(self._facts["path"])

    @property
    def masked(self) -> bool:
        """Whether `predict` needs a mask."""
        return self._facts["masked"]

    def predict(self, obs: Any, mask: Any = None, deterministic: bool = True) -> np.ndarray:
        """The actions for observations: for one, or for rows of them.

        obs: as the environment shows them, before any normalising.
        mask: which choices are open; needed where the policy was trained with masks.
        deterministic: the likeliest choice, the mean of a box; else drawn as in training.
        """
        rows, single = self._rows(obs)
        step = self._step
        if not deterministic:
            self._step += 1
        actions = self._native.predict(rows, self._mask_rows(mask, single), deterministic,
                                       self._seed, step)
        if self._facts["action_kind"] != "box":
            actions = actions.astype(np.int64)
        if self._facts["action_kind"] == "discrete":
            actions = actions[:, 0]
        return actions[0] if single else actions

    def value(self, obs: Any) -> np.ndarray:
        """What the critic makes of observations."""
        rows, single = self._rows(obs)
        values = self._native.value(rows)
        return values[0] if single else values

    def evaluate_actions(self, obs: Any, actions: Any,
                         mask: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Value, log-probability and entropy, for rows of observations and choices."""
        rows, _ = self._rows(obs)
        actions = np.asarray(actions)
        if actions.dtype.kind not in "iub":
            raise UsageError(f"actions: expected integers, got {actions.dtype}")
        return self._native.evaluate(rows, actions.reshape(len(rows), -1),
                                     self._mask_rows(mask, False))

    def tensors(self) -> dict[str, np.ndarray]:
        """Parameters and normaliser by their names, which are those of torch modules."""
        return self._native.tensors()

    def torch_module(self) -> "PolicyModule":
        """The same network as a `torch.nn.Module`, to go on with in torch."""
        from .torch_module import PolicyModule
        return PolicyModule(self._facts, self.tensors())

    def _rows(self, obs: Any) -> tuple[np.ndarray, bool]:
        """Observations as rows of what the network reads, and whether it is a single one."""
        array = np.asarray(obs)
        if array.dtype.kind not in "fiub":
            raise UsageError(f"obs: expected numbers, got {array.dtype}")
        wanted = self._facts["obs_dtype"]
        if wanted == "uint8" and array.dtype != np.uint8:
            raise UsageError(f"obs: expected pixels of uint8, got {array.dtype}")
        inputs = self._facts["inputs"]
        single = array.size == inputs and (array.ndim < 2 or array.shape[0] != 1)
        if single:
            return np.ascontiguousarray(array, dtype=wanted).reshape(1, inputs), True
        if array.ndim >= 2 and array.shape[0] * inputs == array.size:
            return np.ascontiguousarray(array, dtype=wanted).reshape(len(array), inputs), False
        raise UsageError(f"obs: expected {inputs} numbers, or rows of so many, got shape "
                         f"{array.shape}")

    def _mask_rows(self, mask: Any, single: bool) -> np.ndarray | None:
        if mask is None:
            return None
        rows = (np.asarray(mask) != 0).astype(np.uint8)
        return rows.reshape(1, -1) if single else rows.reshape(len(rows), -1)

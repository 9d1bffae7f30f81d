"""A policy as a module of torch. Needs torch: pip install 'flotilla[torch]'."""

from typing import Any

import numpy as np

try:
    import torch
except ImportError as error:
    raise ImportError("torch_module() needs torch: pip install 'flotilla[torch]'") from error


class PolicyModule(torch.nn.Module):
    """Actor and critic. `forward(obs)` gives logits, or the means of a box, and values.

    The names in its `state_dict` are those in the policy file.
    """

    def __init__(self, facts: dict[str, Any], tensors: dict[str, np.ndarray]):
        super().__init__()
        self.facts = facts
        self._activation = torch.relu if facts["activation"] == "relu" else torch.tanh
        self.torso = _TORSOS[facts["torso"]](tensors, facts)
        for part in ("trunk", "actor", "critic"):
            layers = torch.nn.ModuleList()
            while f"{part}.{len(layers)}.weight" in tensors:
                layers.append(_linear(tensors, f"{part}.{len(layers)}"))
            setattr(self, part, layers)
        if "log_std" in tensors:
            self.log_std = torch.nn.Parameter(torch.tensor(tensors["log_std"]))
        if facts["normalise_obs"]:
            self.register_buffer("mean", torch.tensor(tensors["obs_normaliser.mean"]), False)
            self.register_buffer("scale", torch.tensor(tensors["obs_normaliser.scale"]), False)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = obs.to(torch.float32).reshape(-1, self.facts["inputs"])
        if self.facts["torso"] in ("nature", "impala"):
            pixels = x / 255 if self.facts["obs_dtype"] == "uint8" else x
            x = self.torso(pixels.reshape(-1, *self.facts["image"]).permute(0, 3, 1, 2)).flatten(1)
        if self.facts["normalise_obs"]:
            clip = self.facts["obs_clip"]
            x = ((x - self.mean) * self.scale).clamp(-clip, clip)
        if self.facts["torso"] == "attention":
            x = self.torso(x)
        for layer in self.trunk:
            x = self._activation(layer(x))
        return self._through(self.actor, x), self._through(self.critic, x)[:, 0]

    def log_probs(self, obs: torch.Tensor, mask: torch.Tensor | None = None) -> list[torch.Tensor]:
        """The log-probabilities of all choices, for each dimension of an action."""
        logits, _ = self(obs)
        if mask is not None:
            logits = logits.masked_fill(mask.reshape(logits.shape) == 0, -1e30)
        return [part.log_softmax(-1) for part in logits.split(self.facts["action_choices"], -1)]

    def predict(self, obs: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """The likeliest choices, or the means of a box within its bounds."""
        if self.facts["action_kind"] != "box":
            return torch.stack([part.argmax(-1) for part in self.log_probs(obs, mask)], -1)
        mean, _ = self(obs)
        low, high = (torch.tensor(self.facts[key]) for key in ("action_low", "action_high"))
        if self.facts["squash"]:
            mean = low + (mean.tanh() + 1) * 0.5 * (high - low)
        return mean.clamp(low, high)

    def _through(self, layers: torch.nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
        for layer in layers[:-1]:
            x = self._activation(layer(x))
        return layers[-1](x)


class _Nature(torch.nn.ModuleList):
    """Three convolutions, from 8 x 8 pixels to 3 x 3 cells."""

    def __init__(self, tensors: dict[str, np.ndarray], facts: dict[str, Any]):
        super().__init__(_convolution(tensors, f"torso.{i}", stride=stride)
                         for i, stride in enumerate((4, 2, 1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self:
            x = torch.relu(layer(x))
        return x


class _Impala(torch.nn.ModuleList):
    """Three stages of a convolution, a pool, and two blocks that add to what they see."""

    def __init__(self, tensors: dict[str, np.ndarray], facts: dict[str, Any]):
        super().__init__()
        for i in range(3):
            stage = _convolution(tensors, f"torso.{i}", padding=1)
            for block in ("block0", "block1"):
                setattr(stage, block, torch.nn.ModuleList(
                    _convolution(tensors, f"torso.{i}.{block}.{k}", padding=1) for k in range(2)))
            self.append(stage)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self:
            x = torch.nn.functional.max_pool2d(stage(x), 3, 2, 1)
            for inner, outer in (stage.block0, stage.block1):
                x = x + outer(torch.relu(inner(torch.relu(x))))
        return torch.relu(x)


class _Attention(torch.nn.ModuleDict):
    """Groups of things of a kind: attention within each, then among a token for each."""

    def __init__(self, tensors: dict[str, np.ndarray], facts: dict[str, Any]):
        super().__init__()
        self.groups = facts["groups"]
        for part in (*map(str, range(len(self.groups))), "fusion"):
            layers = torch.nn.ModuleList()
            while (name := f"torso.{part}.{len(layers)}") + ".weight" in tensors:
                is_norm = tensors[f"{name}.weight"].ndim == 1
                layers.append((_norm if is_norm else _linear)(tensors, name))
            self[part] = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sizes = [count * features for count, features in self.groups]
        tokens = [self._encode(self[str(g)], part.reshape(-1, *self.groups[g]))
                  for g, part in enumerate(x.split(sizes, -1))]
        seen = self._attend(*self["fusion"][:3], torch.stack(tokens, 1), heads=4)
        inner, outer, norm = self["fusion"][3:]
        return norm(seen + outer(torch.relu(inner(seen)))).mean(1)

    def _encode(self, layers: torch.nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(layers[1](layers[0](x)))
        if len(layers) > 5:  # several things
            x = self._attend(*layers[2:5], x, heads=x.shape[-1] // 16)
        token, norm, last = layers[-1], layers[-2], layers[-3]
        return token(norm(last(x.flatten(1))))

    @staticmethod
    def _attend(sides: Any, out: Any, norm: Any, x: torch.Tensor, heads: int) -> torch.Tensor:
        query, key, value = (side.unflatten(-1, (heads, -1)).transpose(1, 2)
                             for side in sides(x).chunk(3, -1))
        seen = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return norm(x + out(seen.transpose(1, 2).flatten(2)))


_TORSOS = {"none": lambda tensors, facts: torch.nn.ModuleList(), "nature": _Nature,
           "impala": _Impala, "attention": _Attention}


def _linear(tensors: dict[str, np.ndarray], name: str) -> torch.nn.Linear:
    weight = tensors[f"{name}.weight"]
    return _filled(torch.nn.Linear(weight.shape[1], weight.shape[0]), tensors, name)


def _norm(tensors: dict[str, np.ndarray], name: str) -> torch.nn.LayerNorm:
    return _filled(torch.nn.LayerNorm(tensors[f"{name}.weight"].shape[0]), tensors, name)


def _convolution(tensors: dict[str, np.ndarray], name: str, **settings: int) -> torch.nn.Conv2d:
    outputs, inputs, kernel, _ = tensors[f"{name}.weight"].shape
    return _filled(torch.nn.Conv2d(inputs, outputs, kernel, **settings), tensors, name)


def _filled(layer: Any, tensors: dict[str, np.ndarray], name: str) -> Any:
    layer.load_state_dict({part: torch.tensor(tensors[f"{name}.{part}"])
                           for part in ("weight", "bias")})
    return layer

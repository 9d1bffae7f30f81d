"""Python environments for Flotilla's trainer: tells what one looks like, and serves as a worker.

    python -m flotilla.worker --keys ENV
    python -m flotilla.worker --describe ENV [key=value ...]
    python -m flotilla.worker ENV [key=value ...] --flotilla-worker ...

ENV is gym:ID, which is gymnasium.make(ID, ...), or py:MODULE:NAME, which is MODULE.NAME(...). The
first two forms print one JSON object on stdout: which settings there are, for which no environment
is made, and what an environment with these settings looks like. The last one is started by the
trainer alone, which adds where its work lies. Whatever an environment prints goes to stderr in all.
"""

import importlib
import inspect
import json
import os
import signal
import sys
import traceback

import numpy as np

SPACES = "Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple can"


class EnvError(Exception):
    """Something about an environment that its author or user can mend."""


# --- which environment, and its settings


def parsed(text):
    """JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def as_text(value):
    """What parsed() makes `value` of; "" where there is no such text."""
    try:
        if isinstance(value, str) and parsed(value) == value:
            return value
        return json.dumps(value)
    except (TypeError, ValueError):
        return ""


def imported(name, env):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == "gymnasium":
            raise EnvError(f"{env} needs the package gymnasium: pip install gymnasium") from error
        raise


def gymnasium_of(env):
    return imported("gymnasium", env)


class Source:
    """Where the environments of a name come from."""

    def __init__(self, name, settings):
        self.name = name
        self.kwargs = {}
        for setting in settings:
            key, text = setting.split("=", 1)
            value = parsed(text)
            if key != "kwargs":
                self.kwargs[key] = value
            elif isinstance(value, dict):
                self.kwargs.update(value)
            else:
                raise EnvError(f'kwargs: expected a JSON object such as {{"size": 5}}, got {text}')
        kind, _, rest = name.partition(":")
        self.make, creator, known = self.of_gymnasium(rest) if kind == "gym" else self.of_module(rest)
        self.keys = keys_of(creator, known)

    def of_gymnasium(self, rest):
        gymnasium = gymnasium_of(self.name)
        module, _, identity = rest.rpartition(":")
        if module:
            imported(module, self.name)
        try:
            spec = gymnasium.spec(identity)
        except gymnasium.error.Error as error:
            raise EnvError(str(error)) from error
        creator = spec.entry_point
        if isinstance(creator, str):
            creator = gymnasium.envs.registration.load_env_creator(creator)
        known = dict(spec.kwargs, max_episode_steps=spec.max_episode_steps)
        return lambda: gymnasium.make(identity, **self.kwargs), creator, known

    def of_module(self, rest):
        module, _, attribute = rest.partition(":")
        if not module or not attribute:
            raise EnvError("expected py:MODULE:NAME")
        factory = imported(module, self.name)
        for part in attribute.split("."):
            if not hasattr(factory, part):
                raise EnvError(f"module {module} has no {attribute}")
            factory = getattr(factory, part)
        if not callable(factory):
            raise EnvError(f"{module}.{attribute} is {kind_of(factory)}: it cannot be called")
        return lambda: factory(**self.kwargs), factory, {}


def keys_of(creator, known):
    """The settings of an environment: the parameters of what makes it, and `kwargs` for others."""
    defaults, needed = {}, set()
    try:
        parameters = inspect.signature(creator).parameters.values()
    except (TypeError, ValueError):
        parameters = []
    for each in parameters:
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            if each.default is each.empty:
                needed.add(each.name)
            defaults[each.name] = None if each.default is each.empty else each.default
    defaults.update(known)
    needed -= known.keys()
    keys = [{"name": name, "default": "" if default is None else as_text(default),
             "needed": name in needed,
             "help": "of the Python environment" + (", which needs it" if name in needed else "")}
            for name, default in defaults.items()
            if name.isascii() and name not in ("name", "kwargs")]
    return keys + [{"name": "kwargs", "default": "", "needed": False,
                    "help": "more parameters of the Python environment, as a JSON object"}]


# --- spaces


def kind_of(value):
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def flat_bounds(values):
    """Numbers of a list; None for what is infinite as a float32."""
    with np.errstate(over="ignore"):
        flat = np.asarray(values).astype(np.float32).ravel()
    return [float(value) if np.isfinite(value) else None for value in flat]


class BoxPart:
    def __init__(self, space, path):
        self.space, self.path = space, path
        self.size = int(np.prod(space.shape, dtype=np.int64))
        self.low, self.high = flat_bounds(space.low), flat_bounds(space.high)

    def write(self, value, out):
        if not isinstance(value, (np.ndarray, np.generic)):
            raise EnvError(f"{self.path} is {kind_of(value)}, expected an array for {self.space}")
        if value.shape != self.space.shape:
            raise EnvError(f"{self.path} has shape {value.shape}, its space says {self.space.shape}")
        if value.dtype != self.space.dtype:
            raise EnvError(f"{self.path} has dtype {value.dtype}, its space says {self.space.dtype}")
        with np.errstate(over="ignore"):
            out[:] = value.ravel()


class ChoicePart:
    """Discrete and MultiDiscrete: one-hot, one choice after the other."""

    def __init__(self, space, path, choices, start):
        self.space, self.path = space, path
        self.choices = np.asarray(choices, np.int64).ravel()
        self.start = np.asarray(start, np.int64).ravel()
        self.size = int(self.choices.sum())
        self.first = np.cumsum(self.choices) - self.choices
        self.low, self.high = [0.0] * self.size, [1.0] * self.size

    def write(self, value, out):
        array = np.asarray(value)
        if array.dtype.kind not in "iu" or array.size != self.choices.size:
            raise EnvError(f"{self.path} is {value!r}, not in {self.space}")
        chosen = array.ravel().astype(np.int64) - self.start
        if (chosen < 0).any() or (chosen >= self.choices).any():
            raise EnvError(f"{self.path} is {value!r}, not in {self.space}")
        out[:] = 0
        out[self.first + chosen] = 1


class BinaryPart:
    def __init__(self, space, path):
        self.space, self.path = space, path
        self.size = int(np.prod(space.shape, dtype=np.int64))
        self.low, self.high = [0.0] * self.size, [1.0] * self.size

    def write(self, value, out):
        array = np.asarray(value)
        if array.shape != self.space.shape or not np.isin(array, (0, 1)).all():
            raise EnvError(f"{self.path} is {value!r}, not in {self.space}")
        out[:] = array.ravel()


class GroupPart:
    """Dict and Tuple: one part after the other, in the order of the space."""

    def __init__(self, space, path, parts):
        self.space, self.path, self.parts = space, path, parts
        self.is_dict = isinstance(space.spaces, dict)
        self.size = sum(part.size for _, part in parts)
        self.low = [bound for _, part in parts for bound in part.low]
        self.high = [bound for _, part in parts for bound in part.high]

    def write(self, value, out):
        if self.is_dict and not (isinstance(value, dict) and set(value) == set(self.space.spaces)):
            found = f"keys {sorted(map(str, value))}" if isinstance(value, dict) else kind_of(value)
            raise EnvError(f"{self.path} has {found}, its space has keys {sorted(self.space.spaces)}")
        if not self.is_dict and not (isinstance(value, tuple) and len(value) == len(self.parts)):
            raise EnvError(f"{self.path} is {kind_of(value)}, expected a tuple of {len(self.parts)}")
        at = 0
        for key, part in self.parts:
            part.write(value[key], out[at:at + part.size])
            at += part.size


def part_of(space, path, spaces):
    if isinstance(space, spaces.Box):
        return BoxPart(space, path)
    if isinstance(space, spaces.Discrete):
        return ChoicePart(space, path, space.n, space.start)
    if isinstance(space, spaces.MultiDiscrete):
        start = getattr(space, "start", np.zeros_like(space.nvec))
        return ChoicePart(space, path, space.nvec, start)
    if isinstance(space, spaces.MultiBinary):
        return BinaryPart(space, path)
    if isinstance(space, spaces.Dict):
        return GroupPart(space, path, [(key, part_of(sub, f"{path}[{key!r}]", spaces))
                                       for key, sub in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return GroupPart(space, path, [(i, part_of(sub, f"{path}[{i}]", spaces))
                                       for i, sub in enumerate(space.spaces)])
    raise EnvError(f"the space of {path}, {space}, cannot be flattened: {SPACES}")


def leaves_of(part):
    if isinstance(part, GroupPart):
        return [leaf for _, sub in part.parts for leaf in leaves_of(sub)]
    return [part]


class Observations:
    def __init__(self, space, spaces):
        self.part = part_of(space, "the observation", spaces)
        if self.part.size == 0:
            raise EnvError(f"the observation space {space} is empty")
        is_box = isinstance(self.part, BoxPart)
        self.shape = tuple(space.shape) if is_box and space.shape else (self.part.size,)
        self.dtype = np.dtype(np.uint8 if is_box and space.dtype == np.uint8 else np.float32)
        # Such arrays are copied as they are, without a word of Python.
        self.as_is = is_box and space.dtype == self.dtype and bool(space.shape)

    def description(self):
        return {"type": str(self.dtype), "shape": list(self.shape), "low": self.part.low,
                "high": self.part.high}

    def write(self, value, out):
        self.part.write(value, out)

    def flat(self, value):
        out = np.empty(self.part.size, self.dtype)
        self.write(value, out)
        if self.dtype.kind == "f" and not np.isfinite(out).all():
            raise EnvError(f"the observation is not finite at element {int(np.argmin(np.isfinite(out)))}")
        return out


class Actions:
    def __init__(self, space, spaces):
        self.space = space
        self.part = part_of(space, "the action", spaces)
        leaves = leaves_of(self.part)
        if not leaves:
            raise EnvError(f"the action space {space} is empty")
        self.is_box = isinstance(leaves[0], BoxPart)
        if any(isinstance(leaf, BoxPart) != self.is_box for leaf in leaves):
            raise EnvError(f"the action space {space} mixes numbers and choices")
        self.low = [bound for leaf in leaves for bound in leaf.low]
        self.high = [bound for leaf in leaves for bound in leaf.high]
        if self.is_box and any(leaf.space.dtype.kind != "f" for leaf in leaves):
            raise EnvError(f"the action space {space} is a Box of integers: use MultiDiscrete")
        if self.is_box and (None in self.low or None in self.high):
            raise EnvError(f"the action space {space} has no finite bounds")
        self.choices = [] if self.is_box else [
            int(n) for leaf in leaves
            for n in (leaf.choices if isinstance(leaf, ChoicePart) else [2] * leaf.size)]
        # The actions of a single choice, made once: what the space itself would draw.
        self.each = None
        if isinstance(space, spaces.Discrete):
            self.each = [space.dtype.type(space.start + i) for i in range(int(space.n))]

    def description(self):
        if self.is_box:
            return {"kind": "box", "low": self.low, "high": self.high}
        kind = "discrete" if self.each is not None else "multi_discrete"
        return {"kind": kind, "choices": self.choices}

    def decoded(self, row):
        """The action that a row of the batch, int32 or float32, stands for."""
        value, rest = self.decode(self.part, row)
        assert len(rest) == 0
        return value

    def decode(self, part, row):
        if isinstance(part, GroupPart):
            values = []
            for key, sub in part.parts:
                value, row = self.decode(sub, row)
                values.append((key, value))
            return (dict(values) if part.is_dict else tuple(value for _, value in values)), row
        space = part.space
        if isinstance(part, ChoicePart):
            count = part.choices.size
            chosen = row[:count] + part.start
            value = chosen.astype(space.dtype).reshape(space.shape)
            return (value[()] if space.shape == () else value), row[count:]
        value = row[:part.size].astype(space.dtype).reshape(space.shape)
        # In a row of the batch, of float32, other bounds may be rounded outwards.
        if isinstance(part, BoxPart) and space.dtype != np.float32:
            value.clip(space.low, space.high, out=value)
        return value, row[part.size:]


# --- one environment


def layers(env):
    """The environment and those inside its wrappers, from the outermost on."""
    innermost = getattr(env, "unwrapped", env)  # which may have an `env` that is something else
    while env is not None and env is not innermost:
        yield env
        env = getattr(env, "env", None)
    yield innermost


def attribute(env, name):
    """A method of the environment, or of one inside its wrappers."""
    for layer in layers(env):
        if callable(getattr(layer, name, None)):
            return getattr(layer, name)
    return None


class Seat:
    """One environment of the batch."""

    def __init__(self, share):
        self.env = share.source.make()
        for name in ("reset", "step"):
            if not callable(getattr(self.env, name, None)):
                raise EnvError(f"it is {kind_of(self.env)} without {name}()")
        for name in ("observation_space", "action_space"):
            if not hasattr(self.env, name):
                raise EnvError(f"it is {kind_of(self.env)} without an {name}")
        self.step = self.env.step
        self.masks = attribute(self.env, "action_masks")

    def reset(self, seed):
        result = self.env.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
            raise EnvError("reset() must return (observation, info)")
        return result

    def close(self):
        try:
            self.env.close()
        except Exception:  # pylint: disable=broad-except  # it is of no use any more
            pass


class Share:
    """What the environments of a worker have in common. The extension module asks it for all that
    is not a plain array."""

    def __init__(self, source):
        self.source = source
        first = Seat(self)
        spaces = gymnasium_of(source.name).spaces
        self.observations = Observations(first.env.observation_space, spaces)
        self.actions = Actions(first.env.action_space, spaces)
        observation, info = first.reset(0)
        self.observations.flat(observation)
        self.asks_for_masks = first.masks is not None
        self.has_mask = self.asks_for_masks or "action_mask" in info
        if self.has_mask and self.actions.is_box:
            raise EnvError("masks are for choices, and its actions are numbers")
        if self.has_mask:
            self.mask(first, info)
        self.keeps = all(callable(getattr(first.env, name, None))
                         for name in ("get_state", "set_state"))
        state_bytes = len(self.packed(first, observation, info)) if self.keeps else 0
        self.keeps = 0 < state_bytes <= MOST_STATE_BYTES
        self.description = {"obs": self.observations.description(),
                            "action": self.actions.description(), "has_mask": self.has_mask,
                            "state_bytes": state_bytes if self.keeps else 0}
        first.close()

    def make(self):
        return Seat(self)

    def mask(self, seat, info):
        """Flags of all choices, one byte each."""
        if not self.asks_for_masks:
            if "action_mask" not in info:
                raise EnvError("info has no action_mask, though that of the first reset had one")
            given = info["action_mask"]
        else:
            given = seat.masks()
        if isinstance(given, (tuple, list)) and given and np.ndim(given[0]) > 0:
            given = np.concatenate([np.asarray(each).ravel() for each in given])
        mask = np.ascontiguousarray(np.asarray(given).ravel() != 0, np.uint8)
        if mask.size != sum(self.actions.choices):
            raise EnvError(f"the action mask has {mask.size} flags, there are "
                           f"{sum(self.actions.choices)} choices")
        at = 0
        for choices in self.actions.choices:
            if not mask[at:at + choices].any():
                raise EnvError("the action mask allows no choice")
            at += choices
        return mask

    def packed(self, seat, observation, info):
        """All there is of an environment between two steps."""
        state = seat.env.get_state()
        if not isinstance(state, (bytes, bytearray)):
            raise EnvError(f"get_state() returned {kind_of(state)}, expected bytes")
        mask = self.mask(seat, info).tobytes() if self.has_mask else b""
        return self.observations.flat(observation).tobytes() + mask + bytes(state)

    def unpacked(self, seat, packed):
        """Brings the environment back; its flat observation and its mask."""
        end = self.observations.part.size * self.observations.dtype.itemsize
        mask_end = end + (sum(self.actions.choices) if self.has_mask else 0)
        seat.reset(0)
        seat.env.set_state(packed[mask_end:])
        return np.frombuffer(packed[:end], self.observations.dtype), packed[end:mask_end]

    def described(self, error, where):
        return described(error, f"{self.source.name}: {where}\n")


MOST_STATE_BYTES = 16 * 1024


OURS = (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(importlib.__file__), "<frozen")


def own_frames(frames):
    """Those that are not ours but the environment's."""
    return [frame for frame in frames if not frame.filename.startswith(OURS)]


def line_of(error):
    text = str(error).strip().splitlines()
    if isinstance(error, EnvError):
        return text[0] if text else "failed"
    frames = own_frames(traceback.extract_tb(error.__traceback__))
    place = (f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name})"
             if frames else "")
    return f"{type(error).__name__}: {text[0] if text else ''}{place}"


def traceback_of(error):
    """As Python prints it, without our own part of it; "" where it would be empty."""
    whole = traceback.TracebackException.from_exception(error)
    frames = own_frames(whole.stack)
    whole.stack = traceback.StackSummary.from_list(frames)
    return "".join(whole.format()) if frames or not isinstance(error, EnvError) else ""


def described(error, heading=""):
    """One line about an exception; the traceback goes to stderr."""
    if text := traceback_of(error):
        print(heading + text, file=sys.stderr, end="", flush=True)
    return line_of(error)


# --- the forms of the command


def keys(name):
    return {"keys": Source(name, []).keys}


def describe(name, settings):
    return {"env": Share(Source(name, settings)).description}


def answer_of(question, *arguments):
    """What it returns, or why it does not."""
    try:
        return question(*arguments)
    except (Exception, SystemExit) as error:  # pylint: disable=broad-except
        return {"error": line_of(error), "traceback": traceback_of(error)}


def main(arguments):
    os.environ.pop("FLOTILLA_IS_WORKER", None)
    stdout = os.dup(1)
    os.dup2(2, 1)  # stdout is for our answer alone
    sys.stdout.reconfigure(line_buffering=True)
    if arguments[0] in ("--keys", "--describe"):
        answer = (answer_of(keys, arguments[1]) if arguments[0] == "--keys" else
                  answer_of(describe, arguments[1], arguments[2:]))
        sys.stdout.flush()
        with os.fdopen(stdout, "w", encoding="utf-8") as out:
            json.dump(answer, out)
        return 0
    os.close(stdout)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # when to end is the parent's decision
    from flotilla import _native  # pylint: disable=import-outside-toplevel
    return _native.serve_environments(arguments[-5:],
                                      lambda: Share(Source(arguments[0], arguments[1:-5])),
                                      described)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of an environment do not hold it back

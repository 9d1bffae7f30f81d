"""Environments for test_python_envs.py: small, deterministic, and some of them broken."""

import json
import os
import signal
import time

import gymnasium
import numpy as np
from gymnasium import spaces

NOT_CALLABLE = 5


def note(path, **facts):
    """One line in a file that several processes write to."""
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(facts) + "\n")


class Walk(gymnasium.Env):
    """A random walk that the action pushes; every third episode is cut instead of ending."""

    observation_space = spaces.Box(-100, 100, (3,), np.float32)
    action_space = spaces.Discrete(3, start=-1)

    def __init__(self, length=20, log=""):
        self.length, self.log, self.episode = length, log, 0
        self.at, self.steps = 0.0, 0

    def observation(self):
        return np.array([self.at, self.steps, self.episode % 3], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        note(self.log, seed=seed, pid=os.getpid())
        self.at, self.steps, self.episode = float(self.np_random.normal()), 0, self.episode + 1
        return self.observation(), {}

    def step(self, action):
        assert isinstance(action, np.integer) and action in (-1, 0, 1), action
        self.at += float(action) + float(self.np_random.normal())
        self.steps += 1
        over = self.steps >= self.length
        cut = over and self.episode % 3 == 0
        return self.observation(), -abs(self.at), over and not cut, cut, {}


class Kept(Walk):
    """The same with a state that can be saved."""

    def get_state(self):
        generator = self.np_random.bit_generator.state
        return json.dumps([self.at, self.steps, self.episode, generator]).encode()

    def set_state(self, state):
        self.at, self.steps, self.episode, self.np_random.bit_generator.state = json.loads(state)


class OwnStack(Walk):
    """Has a parameter of the name that a key of the engine has."""

    def __init__(self, frame_stack=1):
        super().__init__(length=5 * frame_stack)


class Masked(gymnasium.Env):
    """Ends badly with an action that its mask forbids."""

    observation_space = spaces.MultiBinary(4)

    def __init__(self, how="method", multi=False):
        self.how = how
        self.action_space = spaces.MultiDiscrete([4, 4]) if multi else spaces.Discrete(4)
        self.mask = np.ones(4, np.int8)
        if how == "method":
            self.action_masks = lambda: self.flags()

    def flags(self):
        return np.concatenate([self.mask, self.mask]) if self.is_multi() else self.mask

    def is_multi(self):
        return isinstance(self.action_space, spaces.MultiDiscrete)

    def draw(self):
        self.mask = np.zeros(4, np.int8)
        self.mask[self.np_random.permutation(4)[:2]] = 1
        if self.how == "none":
            self.mask[:] = 0
        info = (self.mask, self.mask) if self.is_multi() else self.mask
        return self.mask.copy(), {"action_mask": info} if self.how in ("info", "none") else {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.draw()

    def step(self, action):
        if not all(self.mask[choice] for choice in np.atleast_1d(action)):
            raise ValueError(f"action {action} is forbidden")
        obs, info = self.draw()
        return obs, 1.0, bool(self.np_random.random() < 0.1), False, info


class Masker(gymnasium.Wrapper):
    """Has the mask of an environment that says none itself."""

    def action_masks(self):
        return self.unwrapped.flags()


def mask_in_the_middle():
    return gymnasium.wrappers.TimeLimit(Masker(Masked(how="wrapper")), 50)


SPACES = {
    "box": spaces.Box(-1, 1, (2, 3), np.float32),
    "box64": spaces.Box(-np.inf, np.inf, (2,), np.float64),
    "scalar": spaces.Box(0, 1, (), np.float32),
    "image": spaces.Box(0, 255, (4, 4, 3), np.uint8),
    "discrete": spaces.Discrete(5, start=2),
    "multi": spaces.MultiDiscrete([3, 2]),
    "binary": spaces.MultiBinary(3),
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (2,), np.float32))),
    "dict": spaces.Dict({"b": spaces.Discrete(2), "a": spaces.MultiBinary(2),
                         "c": spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3)))}),
    "text": spaces.Text(5),
    "sequence": spaces.Sequence(spaces.Discrete(2)),
}

ACTIONS = {
    "discrete": spaces.Discrete(3, start=5),
    "multi": spaces.MultiDiscrete([2, 3]),
    "binary": spaces.MultiBinary(2),
    "box": spaces.Box(-2, 2, (2, 2), np.float32),
    "box64": spaces.Box(-0.1, 0.1, (1,), np.float64),  # a float32 of 0.1 is more than that
    "scalar64": spaces.Box(-0.1, 0.1, (), np.float64),
    "tuple": spaces.Tuple((spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 2]))),
    "dict": spaces.Dict({"x": spaces.Box(-1, 1, (2,), np.float32), "y": spaces.Box(0, 1, (1,), np.float64)}),
    "endless": spaces.Box(-np.inf, np.inf, (1,), np.float32),
    "integers": spaces.Box(0, 5, (1,), np.int64),
    "mixed": spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (1,), np.float32))),
}


class Any(gymnasium.Env):
    """Observations of one space, actions of another, which it checks."""

    def __init__(self, obs="box", action="discrete"):
        self.observation_space = SPACES[obs]
        self.action_space = ACTIONS[action]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), repr(action)
        return self.observation_space.sample(), 1.0, bool(self.np_random.random() < 0.05), False, {}


class Faulty(Walk):
    """Fails in the way that is asked for, in step `at` of an episode, `most` times in all."""

    def __init__(self, fault="raise", at=5, most=1, log="", chance=1.0):
        super().__init__(length=20)
        self.fault, self.fault_at, self.most, self.faults, self.chance = fault, at, most, log, chance

    def due(self):
        if self.steps != self.fault_at or self.np_random.random() >= self.chance:
            return False
        done = 0
        if self.faults and os.path.exists(self.faults):
            with open(self.faults, encoding="utf-8") as file:
                done = len(file.readlines())
        return done < self.most

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if not self.due():
            return obs, reward, terminated, truncated, info
        kinds = ["raise", "exit", "kill", "hang", "shape"]
        fault = self.np_random.choice(kinds) if self.fault == "random" else self.fault
        note(self.faults, fault=str(fault), pid=os.getpid())
        if fault == "raise":
            raise ValueError("on purpose")
        if fault == "system_exit":
            raise SystemExit(7)
        if fault == "exit":
            os._exit(7)
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "hang":
            time.sleep(1000)
        if fault == "print":
            print("garbage {", flush=True)
            os.write(1, b"\x00\xffmore of it\n")
        changed = {"shape": obs[:2], "dtype": obs.astype(np.float64), "list": obs.tolist(),
                   "nan": np.full(3, np.nan, np.float32)}
        obs = changed.get(fault, obs)
        reward = {"reward": "much", "reward_nan": float("nan")}.get(fault, reward)
        terminated = 1 if fault == "flag" else terminated
        if fault == "four":
            return obs, reward, terminated, info
        return obs, reward, terminated, truncated, info


class SlowStart(Walk):
    """The first one of a process takes longer to make than a step may; the others do not."""

    made = False

    def __init__(self):
        super().__init__()
        if not SlowStart.made:
            time.sleep(4)
        SlowStart.made = True

    def reset(self, *, seed=None, options=None):
        time.sleep(0.1)
        return super().reset(seed=seed)


class Picky(Walk):
    """Cannot be made with the defaults of its settings."""

    def __init__(self, port=0, log=""):
        if port == 0:
            os._exit(5)
        note(log, port=port)
        super().__init__()


class Sized(Walk):
    """Has no default for its setting."""

    def __init__(self, length):
        super().__init__(length)


class BadReset(Walk):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


def raising():
    raise RuntimeError("cannot be made")


def leaving():
    os._exit(9)


def nothing():
    return 5


def anything(**kwargs):
    return Walk(**kwargs)

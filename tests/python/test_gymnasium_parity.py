#!/usr/bin/env python3
"""Holds cartpole and pendulum against Gymnasium's CartPole-v1 and Pendulum-v1, step by step.

Every comparison starts from one state set in both, so that an error cannot hide behind an earlier
one. Exit status: 0 equal, 1 different, 77 skipped (Gymnasium is not installed).

FLOTILLA_TEST_PYTHON names an interpreter that has Gymnasium, if this one has not.
"""

import argparse
import math
import os
import random
import subprocess
import sys

SKIP = 77
BLOCK = 128  # lines in flight: few enough for a pipe's buffer in both directions

if os.environ.get("FLOTILLA_TEST_PYTHON") and not os.environ.get("FLOTILLA_PARITY_CHILD"):
    interpreter = os.environ["FLOTILLA_TEST_PYTHON"]
    os.environ["FLOTILLA_PARITY_CHILD"] = "1"  # stops the second call from doing it again
    try:
        os.execv(interpreter, [interpreter] + sys.argv)
    except OSError as error:
        sys.exit(f"FLOTILLA_TEST_PYTHON={interpreter}: {error.strerror}")

try:
    import gymnasium
    import numpy as np
except ImportError as error:
    print(f"skipped: {error.name} is not installed for {sys.executable}; "
          "set FLOTILLA_TEST_PYTHON to a Python that has it")
    sys.exit(SKIP)


class Stepper:
    """The C++ side: lines out, lines in."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ask(self, lines):
        answers = []
        for start in range(0, len(lines), BLOCK):
            block = lines[start:start + BLOCK]
            self.process.stdin.write("\n".join(block) + "\n")
            self.process.stdin.flush()
            for request in block:
                answer = self.process.stdout.readline()
                if not answer:
                    sys.exit(f"the stepper ended at: {request}")
                answers.append(answer.split())
        return answers


class Tally:
    """Counts what was compared and remembers the worst of it."""

    def __init__(self, name):
        self.name = name
        self.steps = self.ended = self.identical = 0
        self.state = self.obs = self.reward = 0.0
        self.failures = []

    def fail(self, text):
        self.failures.append(f"{self.name}: {text}")

    def report(self):
        print(f"{self.name}: {self.steps} steps compared, {self.ended} ended the episode, "
              f"{self.identical} equal to the last bit; worst: state {self.state:.1e} relative, "
              f"obs {self.obs:.0f} ulp, reward {self.reward:.0f} ulp")


def ulps(a, b):
    """Distance of two float32 numbers, in steps from one representable number to the next."""
    a, b = np.float32(a), np.float32(b)
    if a == b:
        return 0
    if not (np.isfinite(a) and np.isfinite(b)):
        return math.inf
    ordered = []
    for value in (a, b):
        bits = int(value.view(np.int32))
        ordered.append(bits if bits >= 0 else -(bits & 0x7FFFFFFF))
    return abs(ordered[0] - ordered[1])


def relative(a, b):
    if a == b:
        return 0.0
    # Below 1e-3 the error is taken as absolute: a sum that nearly cancels has no relative digits.
    return abs(a - b) / max(abs(b), 1e-3)


class CartPole:
    name, gym_id, size, reset_high = "cartpole", "CartPole-v1", 4, [0.05] * 4
    limits = (2.4, 12 * 2 * math.pi / 360)

    @staticmethod
    def draw(rng):
        kind = rng.randrange(4)
        if kind == 0:  # as early in an episode
            return [rng.uniform(-0.05, 0.05) for _ in range(4)]
        state = [rng.uniform(-2.5, 2.5), rng.gauss(0, 1.5), rng.uniform(-0.22, 0.22), rng.gauss(0, 2)]
        if kind == 1:  # large velocities
            state[1] *= 50
            state[3] *= 50
        if kind == 2:  # the next step lands within rounding of a limit
            sign = rng.choice([-1, 1])
            place = rng.choice([0, 2])
            limit = CartPole.limits[place // 2]
            near = sign * limit * (1 + rng.choice([-1, 0, 1]) * rng.choice([0, 2.0**-52, 1e-9, 1e-4]))
            state[2 - place] *= 0.5  # the other one clearly inside
            state[place] = near - 0.02 * state[place + 1]
        return state

    @staticmethod
    def action(rng):
        return rng.randrange(2)

    @staticmethod
    def play(rng, state):
        """Balances most of the time, so that episodes last."""
        if rng.random() < 0.1:
            return rng.randrange(2)
        return int(state[2] + 0.5 * state[3] + 0.02 * state[0] + 0.04 * state[1] > 0)

    @staticmethod
    def gym_action(action):
        return action


class Pendulum:
    name, gym_id, size, reset_high = "pendulum", "Pendulum-v1", 2, [math.pi, 1.0]

    @staticmethod
    def draw(rng):
        spread = rng.choice([math.pi, 4 * math.pi, 100.0])
        state = [rng.uniform(-spread, spread), rng.uniform(-8, 8)]
        if rng.randrange(8) == 0:  # on the seam of the angle
            state[0] = rng.choice([-3, -1, 1, 3]) * math.pi * (1 + rng.choice([0, 2.0**-52, -(2.0**-53)]))
        if rng.randrange(8) == 0:  # about to be clipped
            state[1] = rng.choice([-8.0, 8.0])
        return state

    @staticmethod
    def action(rng):
        # Some beyond the bounds, which both sides clip; float32 as the action space has it.
        return float(np.float32(rng.choice([rng.uniform(-2, 2), rng.uniform(-5, 5), 2.0, -2.0, 0.0])))

    @staticmethod
    def play(rng, state):
        return Pendulum.action(rng)

    @staticmethod
    def gym_action(action):
        return np.array([action], dtype=np.float32)


def compare(kind, env, tally, state, action, answer):
    """One step of Gymnasium from `state` against the answer of the C++ side; our next state."""
    size, width = kind.size, len(answer) - kind.size - 2
    numbers = [float.fromhex(text) for text in answer[:-1]]
    terminated = answer[-1] == "1"
    env.state = np.array(state, dtype=np.float64)
    env.steps_beyond_terminated = None
    obs, reward, gym_terminated, _, _ = env.step(kind.gym_action(action))

    state_error = max(relative(a, float(b)) for a, b in zip(numbers[:size], env.state))
    obs_error = max(ulps(a, b) for a, b in zip(numbers[size:size + width], obs))
    reward_error = ulps(numbers[-1], reward)
    where = f"state {[x.hex() for x in map(float, state)]} action {action}"
    if len(obs) != width:
        tally.fail(f"obs has {width} numbers, Gymnasium's {len(obs)}")
    if terminated != gym_terminated:
        tally.fail(f"terminated {terminated}, Gymnasium {gym_terminated}: {where}")
    if not state_error <= 1e-12:
        tally.fail(f"state off by {state_error:.1e}: {where}")
    if obs_error > 1 or reward_error > 1:
        tally.fail(f"obs off by {obs_error} ulp, reward by {reward_error} ulp: {where}")
    tally.steps += 1
    tally.ended += terminated
    tally.identical += state_error == obs_error == reward_error == 0
    tally.state = max(tally.state, state_error)
    tally.obs = max(tally.obs, obs_error)
    tally.reward = max(tally.reward, reward_error)
    return numbers[:size], terminated


def request(kind, state, action):
    return " ".join([kind.name] + [float(x).hex() for x in state] + [float(action).hex()])


def check_steps(kind, env, stepper, tally, count, rng):
    cases = [(kind.draw(rng), kind.action(rng)) for _ in range(count)]
    answers = stepper.ask([request(kind, state, action) for state, action in cases])
    for (state, action), answer in zip(cases, answers):
        compare(kind, env, tally, state, action, answer)


def check_resets(kind, stepper, tally):
    """Resets keep Gymnasium's range, and 256 of them come within 5 % of both its ends."""
    answers = stepper.ask([f"reset {kind.name} 7 {i}" for i in range(256)])
    states = [[float.fromhex(text) for text in answer[:kind.size]] for answer in answers]
    for k, high in enumerate(kind.reset_high):
        low_end, high_end = min(s[k] for s in states), max(s[k] for s in states)
        if not (-high <= low_end < -0.95 * high and 0.95 * high < high_end < high):
            tally.fail(f"resets of element {k} span {low_end} to {high_end}, not +-{high}")
    return states


def check_trajectories(kind, env, stepper, tally, states, limit, rng):
    """Plays on from these states to the end of each episode or the time limit; the longest."""
    for length in range(limit):
        actions = [kind.play(rng, state) for state in states]
        answers = stepper.ask([request(kind, s, a) for s, a in zip(states, actions)])
        after = []
        for state, action, answer in zip(states, actions, answers):
            state, terminated = compare(kind, env, tally, state, action, answer)
            if not terminated:
                after.append(state)
        states = after
        if not states:
            return length + 1
    return limit


def check_spec(kind, made, stepper, tally):
    words = stepper.ask([f"spec {kind.name}"])[0]
    at = {word: words.index(word) for word in ("low", "high", "action", "limit")}
    low = [float.fromhex(x) for x in words[at["low"] + 1:at["high"]]]
    high = [float.fromhex(x) for x in words[at["high"] + 1:at["action"]]]
    action = words[at["action"] + 1:at["limit"]]
    space = made.action_space
    if hasattr(space, "n"):
        want = [str(space.n)]
    else:
        want = [float(space.low[0]), float(space.high[0])]
        action = [float.fromhex(x) for x in action]
    for what, ours, theirs in (("obs low", low, made.observation_space.low.tolist()),
                               ("obs high", high, made.observation_space.high.tolist()),
                               ("action space", action, want),
                               ("time limit", int(words[-1]), made.spec.max_episode_steps)):
        if ours != theirs:
            tally.fail(f"{what} is {ours}, Gymnasium's {theirs}")
    bound = np.abs([made.unwrapped.reset(seed=i) and made.unwrapped.state for i in range(256)])
    if np.any(bound > kind.reset_high):
        tally.fail(f"Gymnasium resets beyond {kind.reset_high}: {bound.max(axis=0)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stepper", required=True, help="path of the classic_stepper program")
    parser.add_argument("--steps", type=int, default=20000, help="single steps of each env")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    stepper = Stepper(options.stepper)
    print(f"gymnasium {gymnasium.__version__}, numpy {np.__version__}")
    failures = []
    for kind in (CartPole, Pendulum):
        rng = random.Random(options.seed)
        tally = Tally(kind.name)
        made = gymnasium.make(kind.gym_id)
        made.reset(seed=0)
        check_spec(kind, made, stepper, tally)
        check_steps(kind, made.unwrapped, stepper, tally, options.steps, rng)
        states = check_resets(kind, stepper, tally)
        limit = made.spec.max_episode_steps
        longest = check_trajectories(kind, made.unwrapped, stepper, tally, states[:64], limit, rng)
        if longest < limit:
            tally.fail(f"no episode lasted to the time limit, the longest was {longest} steps")
        tally.report()
        failures += tally.failures
    for line in failures[:20]:
        print(line)
    if failures:
        print(f"FAILED: {len(failures)} differences")
        return 1
    print("equal within tolerance")
    return 0


if __name__ == "__main__":
    sys.exit(main())

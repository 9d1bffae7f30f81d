"""Runs a command in a pseudo-terminal and says what a person would have seen there.

    shown = run(["flotilla", "list"], cwd=folder, env=environment, timeout=60)
    shown.status, shown.seconds, shown.lines, shown.faults()

A command may say which of its parts writes: what follows mark(NAME) belongs to that part.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from dataclasses import dataclass, field

COLUMNS, ROWS = 80, 24
SILENCE_S = 3.0

MARK = re.compile(rb"\x1b\]part;([^\x07]*)\x07")
LIVE = [re.compile(r"\[#*\.*\]  "), re.compile(r"  \d+(\.\d)? (s|min|h) left"),
        re.compile(r"^[a-z][a-z ]*  \d+(\.\d)? (s|min|h)\b")]


def mark(name):
    """What a shell prints to begin a part."""
    return f"\x1b]part;{name}\x07"


@dataclass
class Part:
    name: str
    lines: list = field(default_factory=list)  # as they stand at the end, escape codes taken away
    faults: list = field(default_factory=list)
    silence_s: float = 0  # the longest
    colours: bool = False
    live: bool = False  # a line was replaced


@dataclass
class Shown:
    status: int  # None: it did not end
    seconds: float
    raw: bytes
    parts: list

    @property
    def lines(self):
        return [line for part in self.parts for line in part.lines]

    @property
    def text(self):
        return "\n".join(self.lines)


def is_exempt(line):
    """Lines that may be long: a path on a line of its own, JSON, and what the shell says of a crash."""
    words = line.split()
    return (len(words) == 1 and "/" in line) or line.startswith(("{", "[", "bash: "))


class Screen:
    """The lines of one part: what carriage returns and escape codes leave of them."""

    def __init__(self, part):
        self.part, self.line, self.column = part, [], 0

    def write(self, text):
        for token in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\r\n|.", text, re.DOTALL):
            if token in ("\r\n", "\n"):
                self.end_line()
            elif token == "\r":
                self.column = 0
            elif token == "\x1b[K":
                del self.line[self.column:]
                self.part.live = True
            elif token.startswith("\x1b[") and token.endswith("m"):
                self.part.colours = True
            elif token.startswith("\x1b"):
                self.part.faults.append(f"an escape code that is not known: {token!r}")
            else:
                self.line[self.column:self.column + 1] = [token]
                self.column += 1

    def end_line(self):
        line = "".join(self.line)
        self.part.lines.append(line)
        if len(line) > COLUMNS and not is_exempt(line):
            self.part.faults.append(f"{len(line)} columns: {line}")
        if any(pattern.search(line) for pattern in LIVE):
            self.part.faults.append(f"left of a live line: {line}")
        self.line, self.column = [], 0

    def end(self):
        if self.line:
            self.part.faults.append(f"the last line does not end: {''.join(self.line)}")
            self.end_line()


def read_parts(pieces, end):
    """The parts in what arrived: [(time, bytes)]."""
    parts = [Part("")]
    screen, last = Screen(parts[0]), pieces[0][0] if pieces else end
    rest = b""
    for at, data in pieces:
        parts[-1].silence_s = max(parts[-1].silence_s, at - last)
        last = at
        rest += data
        # Whole characters, codes and marks only; the rest comes with the next piece.
        cut = rest.rfind(b"\x1b")
        whole = rest if cut < 0 or re.match(rb"\x1b(\[[0-9;]*[A-Za-z]|\][^\x07]*\x07)", rest[cut:]) else rest[:cut]
        if whole.endswith(b"\r"):
            whole = whole[:-1]
        rest = rest[len(whole):]
        for i, piece in enumerate(MARK.split(whole)):
            if i % 2 == 0:
                screen.write(piece.decode(errors="replace"))
            else:
                screen.end()
                parts.append(Part(piece.decode(errors="replace")))
                screen = Screen(parts[-1])
    screen.write(rest.decode(errors="replace"))
    screen.end()
    parts[-1].silence_s = max(parts[-1].silence_s, end - last)
    return parts


class Clock:
    """Seconds in which this process could run: a pause of the machine is no silence of a command."""

    STEP_S = 0.25  # who waits looks five times as often

    def __init__(self):
        self.seconds, self.at = 0.0, time.monotonic()

    def now(self):
        at = time.monotonic()
        self.seconds += min(at - self.at, self.STEP_S)
        self.at = at
        return self.seconds


def read_until_end(process, master, deadline, early=b""):
    """[(time, bytes)] until the process ends, whether it did, and when. `early`: what was read before."""
    clock = Clock()
    pieces = [(clock.now(), early)]
    while True:
        ended = process.poll() is not None  # asked first: what it wrote before its end is there then
        ready, _, _ = select.select([master], [], [], 0 if ended else 0.05)
        now = clock.now()
        if ready:
            try:
                data = os.read(master, 65536)
            except OSError:  # EIO: nobody has the other side open
                data = b""
            if data:
                pieces.append((now, data))
                continue
            ended = ended or process.wait(timeout=max(0.1, deadline - time.monotonic())) is not None
        if ended or time.monotonic() > deadline:
            return pieces, ended, now


def run(command, cwd, env, timeout, columns=COLUMNS, stdout=None, act=None):
    """`stdout`: a file instead of the terminal. `act(process, master)` is called once it runs, and returns what it read."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=cwd, env={"TERM": "xterm", **env}, stdin=subprocess.DEVNULL,
                               stdout=slave if stdout is None else stdout, stderr=slave, start_new_session=True)
    os.close(slave)
    try:
        early = act(process, master) if act else b""
        pieces, ended, end = read_until_end(process, master, start + timeout, early)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        os.close(master)
    return Shown(process.returncode if ended else None, time.monotonic() - start, b"".join(data for _, data in pieces),
                 read_parts(pieces, end))

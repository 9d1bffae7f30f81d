#!/usr/bin/env python3
"""Runs the shell commands of README.md and docs/, so that no page shows one that fails, or that does
not fit a terminal.

A fenced block whose info string starts with `sh` or `bash` is one `bash -euo pipefail` script, run
in the project root. $SCRATCH is a directory that the blocks of a page share and that is removed
after it, as are directories that `flotilla train` makes below runs/. Further words of the info
string:

    no-run      not run; counted and listed
    slow        run with the longer time limit
    expect=N    must end with exit status N instead of 0
    timeout=S   seconds this block may take

They run in a pseudo-terminal of 80 x 24. What flotilla shows there has no line longer than it, is
never silent for more than 3 s, and leaves nothing of a live line behind; what --json prints, and
paths, may be longer.

Any other word is an error. Some commands make no sense inside a test (`./flotilla test` is what is
running right now); they are left out of their block, and listed.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import pseudo_terminal  # noqa: E402

TIMEOUT_S = 120
SLOW_TIMEOUT_S = 600

FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(.*?)\s*$")

# (pattern at the start of a command line, why it is not run)
LEFT_OUT = [
    (r"(\./)?flotilla\s+test\b", "runs these tests"),
    (r"(\./)?flotilla\s+build\b", "the binary under test is built already"),
    (r"(\./)?flotilla\s+clean\b", "would remove the binary under test"),
    (r"(\./)?flotilla\s+format\s*(#|$)", "would change the sources"),
    (r"(\./)?\.ci/run\b", "runs these tests"),
    (r"git\s+clone\b", "needs the network"),
    (r"(sudo\s+)?apt(-get)?\s", "changes the machine"),
]


class DocsError(Exception):
    """A page that this script cannot read; the message names file and line."""


@dataclass
class Block:
    page: str
    line: int  # of the opening fence, from 1
    script: str
    run: bool = True
    expect: int = 0
    timeout: float = TIMEOUT_S

    @property
    def where(self):
        return f"{self.page}:{self.line}"


def make_block(page, line, info, script):
    block = Block(page, line, script)
    for word in info.split()[1:]:
        number = re.fullmatch(r"(expect|timeout)=(\d+)", word)
        if word == "no-run":
            block.run = False
        elif word == "slow":
            block.timeout = max(block.timeout, SLOW_TIMEOUT_S)
        elif number and number[1] == "expect":
            block.expect = int(number[2])
        elif number:
            block.timeout = int(number[2])
        else:
            raise DocsError(f"{block.where}: unknown word '{word}' after ```{info.split()[0]}; "
                            "expected no-run, slow, expect=N or timeout=S")
    return block


def parse(page, text):
    """The shell blocks of one page, in order."""
    blocks = []
    fence = None  # (indent, marker, info, line) of the block we are in
    body = []
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if fence is None:
            if match:
                fence = (match[1], match[2], match[3], number)
                body = []
            continue
        indent, marker, info, start = fence
        if match and not match[3] and match[2][0] == marker[0] and len(match[2]) >= len(marker):
            if info.split()[:1] in (["sh"], ["bash"]):
                blocks.append(make_block(page, start, info, "\n".join(body) + "\n"))
            fence = None
        else:
            body.append(line[len(indent):] if line.startswith(indent) else line)
    if fence is not None:
        raise DocsError(f"{page}:{fence[3]}: the block is never closed")
    return blocks


def leave_out(script):
    """(the script without the commands of LEFT_OUT, [(command, reason)])."""
    kept, left_out, after_clone = [], [], False
    for command in re.split(r"(?<!\\)\n", script):
        text = command.strip()
        reason = next((why for pattern, why in LEFT_OUT if re.match(pattern, text)), None)
        if after_clone and re.match(r"cd\s", text):
            reason = "enters the clone"
        if reason:
            left_out.append((text, reason))
            kept.append("\n" * command.count("\n"))  # line numbers stay
        else:
            kept.append(command)
        if text:
            after_clone = text.startswith("git clone")
    return "\n".join(kept), left_out


def is_empty(script):
    return all(not line.strip() or line.strip().startswith("#") for line in script.splitlines())


def remove_runs(root, output):
    """Removes the run directories that a block's output names."""
    for name in re.findall(r"(?m)^run directory (runs/[^/\s]+)$", output):
        shutil.rmtree(root / name, ignore_errors=True)
        if not any((root / "runs").iterdir()):
            (root / "runs").rmdir()


# Before each command its name, and why a block ended, for the terminal whatever is redirected.
TRACE = r"""exec 19>&2
trap 'printf "\e]part;%s\a" "${BASH_COMMAND//[^[:print:]]/ }" >&19' DEBUG
trap 'printf "\e]part;\a(line %s of the block: %s: status %s)\n" $((LINENO - 3)) "$BASH_COMMAND" $? >&19' ERR
"""


def is_ours(command):
    """Whether a command has to fit the terminal."""
    words = command.split()
    while words and "=" in words[0]:
        words.pop(0)  # a variable of its environment
    return words[:1] in (["flotilla"], ["./flotilla"]) and "--json" not in words


def faults_of(shown):
    """What a person at the terminal would not like."""
    faults = []
    for part in shown.parts:
        if not is_ours(part.name):
            continue
        faults += [f"{part.name}: {fault}" for fault in part.faults]
        if part.silence_s > pseudo_terminal.SILENCE_S:
            faults.append(f"{part.name}: silent for {part.silence_s:.1f} s")
    return faults


def run(block, script, root, scratch, environment):
    shown = pseudo_terminal.run(["bash", "-Eeuo", "pipefail", "-c", TRACE + script], cwd=root,
                                env=dict(environment, SCRATCH=str(scratch)), timeout=block.timeout)
    remove_runs(root, shown.text)
    return shown


def indented(text):
    return "".join(f"    {line}\n" for line in text.rstrip().splitlines())


def pages_of(root):
    pages = [root / "README.md"] if (root / "README.md").is_file() else []
    return pages + sorted((root / "docs").glob("**/*.md"))


def main():
    arguments = argparse.ArgumentParser(description="Runs the shell commands of the pages.")
    arguments.add_argument("--root", type=Path, required=True, help="the project's root")
    arguments.add_argument("--binary", type=Path, required=True, help="the built flotilla")
    arguments.add_argument("--list", action="store_true", help="print the blocks, run nothing")
    arguments.add_argument("pages", nargs="*", help="only these pages, e.g. README.md docs/cli.md")
    options = arguments.parse_args()
    root = options.root.resolve()
    binary = options.binary.resolve()
    if not options.list and not os.access(binary, os.X_OK):
        arguments.error(f"--binary: no program at {binary}")

    environment = dict(os.environ, FLOTILLA_LAUNCHER_NO_BUILD="1", FLOTILLA_BINARY=str(binary),
                       NO_COLOR="", TERM="xterm", PATH=f"{root}{os.pathsep}{os.environ.get('PATH', os.defpath)}")

    pages = [root / page for page in options.pages] or pages_of(root)
    ran, not_run, failed = 0, [], []
    for page in pages:
        name = str(page.relative_to(root))
        try:
            blocks = parse(name, page.read_text(encoding="utf-8"))
        except (DocsError, OSError) as error:
            print(f"error: {error}")
            return 2
        with tempfile.TemporaryDirectory(prefix="flotilla-docs-") as scratch:
            for block in blocks:
                if not block.run:
                    not_run.append((block.where, block.script.strip().splitlines()[0]
                                    if block.script.strip() else "", "no-run"))
                    continue
                script, left_out = leave_out(block.script)
                not_run += [(block.where, command, why) for command, why in left_out]
                if is_empty(script):
                    continue
                print(f"{block.where}\n{indented(script.strip())}", end="", flush=True)
                if options.list:
                    continue
                shown = run(block, script, root, scratch, environment)
                ran += 1
                faults = faults_of(shown)
                if shown.status == block.expect and not faults:
                    print(f"  ok: status {shown.status}, {shown.seconds:.1f} s", flush=True)
                    continue
                failed.append(block.where)
                got = f"no end after {block.timeout:g} s" if shown.status is None else f"status {shown.status}"
                print(f"  FAILED: {got}, expected status {block.expect}, {shown.seconds:.1f} s")
                for fault in faults:
                    print(f"  FAILED: {fault}")
                print("  output:\n" + indented(shown.text), end="", flush=True)

    if not_run:
        print(f"\nnot run ({len(not_run)}):")
        for where, command, why in not_run:
            print(f"  {where}: {command} ({why})")
    print(f"\n{ran} blocks run on {len(pages)} pages, {len(failed)} failed", end="")
    print(": " + ", ".join(failed) if failed else "")
    if ran == 0 and not options.list:
        print("error: no block was run; is --root right?")
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

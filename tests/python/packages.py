"""Packages of PyPI for a test: from the interpreter, or by pip below a directory; else the test is skipped."""

import importlib.util
import os
import subprocess
import sys

SKIP = 77
CHILD = "FLOTILLA_TEST_PYTHON_CHILD"


def use_test_python(interpreter=None):
    """Starts the test anew in this interpreter, or the one that FLOTILLA_TEST_PYTHON names, if either is given."""
    if interpreter and not os.path.exists(interpreter):
        skip(f"there is no {interpreter}")
    interpreter = interpreter or os.environ.get("FLOTILLA_TEST_PYTHON")
    if not interpreter or os.environ.get(CHILD):
        return
    os.environ[CHILD] = "1"  # stops the second call from doing it again
    try:
        os.execv(interpreter, [interpreter] + sys.argv)
    except OSError as error:
        sys.exit(f"FLOTILLA_TEST_PYTHON={interpreter}: {error.strerror}")


def skip(reason):
    print(f"skipped: {reason}; set FLOTILLA_TEST_PYTHON to a Python that has what the test needs")
    sys.exit(SKIP)


def found(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def require(needed, directory):
    """`needed`: modules, and the packages they are in. What is missing is installed below `directory`."""
    def missing():
        importlib.invalidate_caches()
        return [package for module, package in needed.items() if not found(module)]

    sys.path.append(directory)
    if not missing():
        return
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--timeout",
           "10", "--retries", "1", "--no-deps", "--target", directory]
    try:
        done = subprocess.run(pip + missing(), capture_output=True, text=True, timeout=200,
                              check=False)
    except subprocess.TimeoutExpired:
        skip(f"pip did not install {', '.join(missing())} in time")
    if missing():
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        skip(f"{', '.join(missing())} cannot be installed for {sys.executable}: {reason}")

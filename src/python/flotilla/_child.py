"""Training in a process of its own: what needs our libtorch cannot share one with another libtorch.

The parent sends a request as one line of JSON and gets lines back: {"progress": ...} after every
update, which it answers by "1" or "0" where somebody listens, and {"path": ...} or {"error": ...} at
the end. When the parent is gone, the run ends with a checkpoint.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from . import _native

PROGRAM = "import sys; sys.path.append(sys.argv[1]); from flotilla import _child; _child.main()"


def train(request: dict[str, Any], admitted: list[str],
          listener: Callable[[dict[str, Any]], Any] | None) -> str:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, root], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        order = {**request, "admitted": admitted, "listened": listener is not None}
        return _converse(child, order, listener)
    except BaseException:
        child.send_signal(signal.SIGINT)  # it writes a checkpoint
        raise
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait()


def _converse(child: subprocess.Popen, request: dict[str, Any],
              listener: Callable[[dict[str, Any]], Any] | None) -> str:
    _tell(child.stdin, request)
    for line in child.stdout:
        message = json.loads(line)
        if "path" in message:
            return message["path"]
        if "error" in message:
            error = getattr(_native, message["error"])(message["text"])
            error.status = message["status"]
            raise error
        if listener is not None:
            answer = listener(message["progress"])
            _tell(child.stdin, 1 if answer is None or answer else 0)
    status = child.wait()
    raise _native.InternalError(f"the process that trained ended with status {status}")


def _tell(stream: Any, message: Any) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def main() -> None:
    # What environments print is not for the parent.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    listened = request.pop("listened")
    for env in request.pop("admitted"):
        _native.admit(env)
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_answers, args=(answers,), daemon=True).start()

    def report(progress: dict[str, Any]) -> bool:
        if not listened:
            return True
        _tell(replies, {"progress": progress})
        return answers.get() == "1"

    status = 0
    try:
        _tell(replies, _result(request, report))
    except (KeyboardInterrupt, BrokenPipeError):  # the parent asked for it, or is gone
        status = 130
    sys.stderr.flush()
    os._exit(status)  # the thread that waits for answers would hold the interpreter up


def _result(request: dict[str, Any], report: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    try:
        return {"path": _native.train(**request, callback=report)}
    except _native.Error as error:
        return {"error": type(error).__name__, "text": str(error), "status": error.status}


def _read_answers(answers: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        answers.put(line.strip())
    answers.put("0")
    os.kill(os.getpid(), signal.SIGINT)

"""The agent's conversations with commands that answer lines, without a guest."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from nodes.guest import agent

if TYPE_CHECKING:
    from pathlib import Path

ECHO = "import sys\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)"
# More than a pipe holds, in one line.
LONG = "x" * 300_000


class Port:
    """Keeps the answers that a host would get."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []

    def answer(self, **fields: Any) -> None:
        self.answers.append(fields)


def do(operation: str, **fields: Any) -> Any:
    port = Port()
    agent.OPERATIONS[operation](port, **fields)
    (answer,) = port.answers
    return answer["done"]


def spawn(code: str, log: Path) -> int:
    argv = [sys.executable, "-c", code]
    pid: int = do("spawn", argv=argv, log=str(log), env=None, answers=True)
    return pid


def stop(pid: int) -> None:
    process = agent.CHILDREN[pid]
    do("stop", pid=pid, number=signal.SIGKILL)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()


def test_every_line_has_its_answer(tmp_path: Path) -> None:
    """One process answers all of them, also a line that no pipe holds."""
    pid = spawn(ECHO, tmp_path / "log")
    try:
        for asked, answer in [("abc", "cba"), (LONG, LONG), ("12", "21")]:
            assert do("ask", pid=pid, line=asked, timeout_s=60) == f"{answer}\n"
    finally:
        stop(pid)


def test_a_command_that_ends_is_told_from_one_that_is_silent(tmp_path: Path) -> None:
    """What the command said about its end is in its log.

    One that is silent for too long is killed: its answer must not be taken for that to
    the next line.
    """
    log = tmp_path / "log"
    pid = spawn("import sys; input(); sys.exit('gone')", log)
    with pytest.raises(OSError, match="the command has ended"):
        do("ask", pid=pid, line="x", timeout_s=60)
    stop(pid)
    assert log.read_text() == "gone\n"

    pid = spawn("import time; time.sleep(1000)", log)
    with pytest.raises(OSError, match="not after 1 s"):
        do("ask", pid=pid, line="x", timeout_s=1)
    assert agent.CHILDREN[pid].wait() == -signal.SIGKILL
    stop(pid)

"""Standard error of a daemon: nothing waits for its reader, and nothing is lost to it.

The daemons are real processes, whose standard error is a pipe of the test's.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from doors.nri.messages import OURS
from support.daemons import get
from support.harness import PATIENCE_S, PATIENT, container, pod, wait_until
from support.processes import Place

from nriplugin.cli import stderr_queue
from nriplugin.cli.stderr_queue import WAITING, StderrQueue
from nriplugin.nri.testing.runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.api import nri_pb2 as nri

CONFIG = "cpuBurst: {enabled: true, percent: 50}\n"


class Pipe:
    """A pipe that the test fills and reads when it wants to."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self.text = ""

    def fill(self) -> None:
        """Fill the pipe, so that the next writer waits."""
        # Opened anew: O_NONBLOCK must not be set for the daemon as well.
        again = os.open(f"/proc/self/fd/{self.writer}", os.O_WRONLY | os.O_NONBLOCK)
        for size in (4096, 1):
            with suppress(BlockingIOError):
                while True:
                    os.write(again, b"\n" * size)
        os.close(again)

    def read(self, size: int = 65536) -> bool:
        """Read what there is; False at the end, when all writers have closed it."""
        data = os.read(self._reader, size)
        self.text += data.decode()
        return bool(data)

    def read_until(self, pattern: str) -> str:
        """Read until there is a match; return its first group."""
        while (found := re.search(pattern, self.text)) is None:
            assert self.read(), self.text
        return found[1]

    def read_to_the_end(self) -> list[str]:
        """Close this end for writing and read all; return the lines with text."""
        os.close(self.writer)
        while self.read():
            pass
        return [line for line in self.text.split("\n") if line]

    def close(self) -> None:
        """Close the end that is read."""
        os.close(self._reader)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    with suppress(OSError):
        os.close(pipe.writer)
    pipe.close()


@contextmanager
def process(pipe: Pipe, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with this standard error, killed at the end if it still runs."""
    environ = {**os.environ, "CGROUP_DRIVER": "cgroupfs"}
    started = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.DEVNULL,
        stderr=pipe.writer,
        env=environ,
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def run_on(place: Place, *options: str) -> list[str]:
    """Return the command line of a daemon with HTTP on a free port."""
    config = place.directory / "config.yaml"
    config.write_text(CONFIG)
    options = ("--config", str(config), "--http", "0", *options)
    return ["-m", "nriplugin", *place.arguments(*options)]


def with_a_refusal(number: int) -> tuple[nri.PodSandbox, nri.Container]:
    """Return a pod with an annotation that is refused, and its container."""
    refused = pod(number)
    refused.annotations[f"cpu-burst{OURS}"] = "plenty"
    return refused, container(number, shares=512)


def test_a_log_that_nobody_reads(tmp_path: Path, pipe: Pipe) -> None:
    """The daemon decides, is healthy, and ends when it is told to."""
    place = Place(tmp_path)
    with (
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        process(pipe, *run_on(place, "-v")) as daemon,
    ):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        address = pipe.read_until(r"serving http://(\S+)\n")
        pipe.read_until("(synchronized)")
        pipe.fill()
        for number in range(WAITING + 100):
            created = runtime.create_container(*with_a_refusal(number))
            unified = created.adjust.linux.resources.unified
            assert unified["cpu.weight"] == "59"
        healthy = get(address, "/healthz")
        assert (healthy.code, get(address, "/readyz").code) == (200, 200), healthy.text
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("form", ["text", "json"])
def test_every_line_of_a_short_run_arrives(
    tmp_path: Path, pipe: Pipe, form: str
) -> None:
    """From the first line to the last, in order."""
    place = Place(tmp_path)
    command = run_on(place, "--log-format", form)
    with (
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        process(pipe, *command) as daemon,
    ):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        pipe.read_until("(synchronized)")
        for number in range(10):
            runtime.create_container(*with_a_refusal(number))
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(PATIENCE_S) == 0
    lines = pipe.read_to_the_end()
    if form == "json":
        lines = [json.loads(line)["msg"] for line in lines]
    refusals = [line for line in lines if "refused: " in line]
    assert re.findall(r"/pod-(\d)/", "\n".join(refusals)) == list("0123456789")
    assert "stopping" in lines[-2]
    assert "stopped after" in lines[-1]


def test_a_mistake_has_one_line(tmp_path: Path, pipe: Pipe) -> None:
    """Also in a process whose standard error is a queue already."""
    command = run_on(Place(tmp_path), "--config", str(tmp_path / "none.yaml"))
    with process(pipe, *command) as daemon:
        assert daemon.wait(PATIENCE_S) == 2
    (line,) = pipe.read_to_the_end()
    assert line.startswith("nriplugin: ")
    assert "none.yaml" in line


def test_a_mistake_that_nobody_reads(tmp_path: Path, pipe: Pipe) -> None:
    """The process ends with the same code."""
    command = run_on(Place(tmp_path), "--config", str(tmp_path / "none.yaml"))
    pipe.fill()
    with process(pipe, *command) as daemon:
        assert daemon.wait(PATIENCE_S) == 2


def program(body: str) -> str:
    return f"import logging\nfrom nriplugin.cli.logs import log_to_stderr\n{body}"


def test_a_crash(pipe: Pipe) -> None:
    """The traceback comes after what was logged, also that of a thread."""
    body = (
        "log_to_stderr(verbose=False)\n"
        "import threading\n"
        "logging.warning('first')\n"
        "thread = threading.Thread(target=lambda: 1 / 0)\n"
        "thread.start()\n"
        "thread.join()\n"
        "raise LookupError('last')\n"
    )
    with process(pipe, "-c", program(body)) as crashing:
        assert crashing.wait(PATIENCE_S) == 1
    lines = pipe.read_to_the_end()
    assert lines[0].endswith("WARNING first")
    assert "ZeroDivisionError: division by zero" in lines
    assert lines[-1] == "LookupError: last"


def test_a_crash_that_nobody_reads(pipe: Pipe) -> None:
    """It ends the process, whatever the length of its text."""
    body = (
        "log_to_stderr(verbose=False)\n"
        "logging.warning('first')\n"
        "raise LookupError('x' * 200_000)\n"
    )
    with process(pipe, "-c", program(body)) as crashing:
        assert crashing.wait(PATIENCE_S) == 1


def test_equal_lines_are_counted_at_the_end(pipe: Pipe) -> None:
    """The number of those left out is the last line of the process."""
    body = (
        "log_to_stderr(verbose=False)\nfor _ in range(9):\n    logging.warning('again')"
    )
    with process(pipe, "-c", program(body)) as ending:
        assert ending.wait(PATIENCE_S) == 0
    assert pipe.read_to_the_end()[-1].endswith("WARNING 4 more lines were: again")


def test_a_process_without_standard_error() -> None:
    """Another file may have the number of standard error; nothing is written to it."""
    body = (
        "import os\nlog_to_stderr(verbose=False)\n"
        "reader, writer = os.pipe()\n"
        "assert 2 in (reader, writer)\n"
        "logging.warning('lost')\n"
        "os.write(writer, b'.')\n"
        "print(os.read(reader, 100))\n"
    )
    command = 'exec "$0" -c "$1" 2>&-'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, program(body)],
        stdout=subprocess.PIPE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"b'.'\n")


def test_what_is_dropped_is_counted(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number stands where the lines would; a slow reader gets few such notes."""
    monkeypatch.setattr(stderr_queue, "PATIENCE_S", PATIENCE_S)
    pipe.fill()
    queue = StderrQueue(os.dup(pipe.writer), lambda count: f"{count} dropped")

    def write(text: str) -> None:
        # A page of memory each, so that the pipe takes one when one is read.
        queue.write(f"{text:4095}\n".encode())

    write("0")
    wait_until(lambda: queue._texts.qsize() == 0)
    for number in range(1, WAITING + 8):
        write(str(number))
    for _ in range(10):
        pipe.read(4096)
    wait_until(lambda: queue._texts.qsize() == WAITING - 10)
    write("dropped as well")
    while queue._texts.qsize() >= WAITING // 2:
        pipe.read(4096)
    write("taken again")
    pipe.read_until("(taken again)")
    queue.end()
    os.close(queue.fileno())
    lines = [line.strip() for line in pipe.read_to_the_end()]
    kept = [str(number) for number in range(WAITING + 1)]
    assert lines == [*kept, "8 dropped", "taken again"]

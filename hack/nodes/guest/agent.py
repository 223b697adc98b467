"""The guest's end of the serial port: one JSON object per line, in and out.

The first line out says what went wrong with the runtime, if anything. A request names
an operation; the answers to it end with one that has "done" or "error". Standard
library only: it runs on the guest's own Python.
"""

from __future__ import annotations

import glob
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PORT = "nriplugin.node"
# crictl lives for a fraction of a second: under emulation, collecting its garbage and
# waking a second processor for it are half of what it costs.
OF_CRICTL = {"GOGC": "off", "GOMAXPROCS": "1"}
# How long a command in the background may take to end, on a busy machine.
STOP_S = 90
CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


class Port:
    """The serial port; a write may take only a part."""

    def __init__(self) -> None:
        for name in glob.glob("/sys/class/virtio-ports/*/name"):
            with open(name) as file:
                if file.read().strip() == PORT:
                    device = "/dev/" + name.split("/")[-2]
                    self._file = open(device, "r+b", buffering=0)  # noqa: SIM115
                    return
        sys.exit(f"agent: no serial port named {PORT}")

    def requests(self) -> Iterator[dict[str, Any]]:
        """Wait for the next request, and the next."""
        return (json.loads(line) for line in self._file)

    def answer(self, **fields: object) -> None:
        """Send one line."""
        data = memoryview(json.dumps(fields).encode() + b"\n")
        while data:
            data = data[self._file.write(data) :]


def main() -> None:
    """Serve requests until one says "end"."""
    port = Port()
    with open("/run/runtime.failure") as file:
        port.answer(ready=file.read())
    for request in port.requests():
        operation = request.pop("operation")
        if operation == "end":
            return
        try:
            OPERATIONS[operation](port, **request)
        except Exception as exc:  # noqa: BLE001 # every failure is an answer
            port.answer(error=f"{type(exc).__name__}: {exc}")


def run(
    port: Port,
    argv: list[str],
    stdin: str,
    timeout_s: float,
    env: dict[str, str] | None,
) -> None:
    """Run a command; its output is passed on as it comes."""
    environ = {**os.environ, **(env or {})}
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**OF_CRICTL, **environ} if argv[0] == "crictl" else environ,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(stdin.encode())
    process.stdin.close()
    deadline = time.monotonic() + timeout_s
    streams = selectors.DefaultSelector()
    streams.register(process.stdout, selectors.EVENT_READ, "stdout")
    streams.register(process.stderr, selectors.EVENT_READ, "stderr")
    while streams.get_map():
        for key, _ in streams.select(0.2):
            chunk = os.read(key.fd, 65536)
            if chunk:
                port.answer(**{key.data: chunk.decode(errors="replace")})
            else:
                streams.unregister(key.fileobj)
        # The command has ended, but a child of it may keep the pipes open for ever.
        if process.poll() is not None and not streams.select(0):
            break
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            port.answer(error=f"not done after {timeout_s} s: {argv}")
            return
    port.answer(done=process.wait())


def spawn(
    port: Port, argv: list[str], log: str, env: dict[str, str] | None, answers: bool
) -> None:
    """Start a command in the background, its output into a file.

    A command that answers is one for `ask`: only its errors go into the file.
    """
    with open(log, "ab") as file:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if answers else subprocess.DEVNULL,
            stdout=subprocess.PIPE if answers else file,
            stderr=file,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            bufsize=0,
        )
    CHILDREN[process.pid] = process
    port.answer(done=process.pid)


def ask(port: Port, pid: int, line: str, timeout_s: float) -> None:
    """Write a line to a background command, and answer with the line that it prints.

    A command that does not answer in time is killed: its answer would be taken for the
    one to the next line.
    """
    process = CHILDREN[pid]
    assert process.stdin is not None
    assert process.stdout is not None
    data = memoryview(line.encode() + b"\n")
    while data:
        data = data[process.stdin.write(data) :]
    printed = b""
    deadline = time.monotonic() + timeout_s
    while not printed.endswith(b"\n"):
        left_s = max(0, deadline - time.monotonic())
        ready, _, _ = select.select([process.stdout], [], [], left_s)
        chunk = os.read(process.stdout.fileno(), 1 << 20) if ready else b""
        if not chunk:
            why = "the command has ended" if ready else f"not after {timeout_s} s"
            process.kill()
            raise OSError(f"no answer of {process.args!r}: {why}")
        printed += chunk
    port.answer(done=printed.decode())


def poll(port: Port, pid: int) -> None:
    """Answer with a background command's exit code, or null while it runs."""
    port.answer(done=CHILDREN[pid].poll())


def stop(port: Port, pid: int, number: int) -> None:
    """Send a signal to a background command and wait for its end."""
    CHILDREN[pid].send_signal(number)
    port.answer(done=CHILDREN[pid].wait(STOP_S))


def read(port: Port, paths: Iterable[str]) -> None:
    """Answer with the contents of files; a file that cannot be read has none."""
    contents: dict[str, str | None] = {}
    for path in paths:
        try:
            with open(path, "rb") as file:
                contents[path] = file.read().decode(errors="replace")
        except OSError:
            contents[path] = None
    port.answer(done=contents)


def write(port: Port, path: str, content: str) -> None:
    """Write a file."""
    with open(path, "wb") as file:
        file.write(content.encode())
    port.answer(done=True)


OPERATIONS: dict[str, Callable[..., None]] = {
    "run": run,
    "spawn": spawn,
    "ask": ask,
    "poll": poll,
    "stop": stop,
    "read": read,
    "write": write,
}

if __name__ == "__main__":
    main()

"""The guest's end of the serial port: one JSON object per line, in and out.

The first says what went wrong with the runtime, if anything. A request names an operation; the answers to it end with one that has "done" or "error".
Standard library only: it runs on the guest's own Python.
"""

from __future__ import annotations

import glob
import json
import os
import selectors
import signal
import subprocess
import sys
import time

PORT = "nriplugin.node"


def main() -> None:
    with open_port() as port:
        with open("/run/runtime.failure") as file:
            answer(port, ready=file.read())
        for line in port:
            request = json.loads(line)
            operation = OPERATIONS[request.pop("operation")]
            if operation is None:
                return
            try:
                operation(port, **request)
            except Exception as exc:
                answer(port, error=f"{type(exc).__name__}: {exc}")


def open_port():
    for name in glob.glob("/sys/class/virtio-ports/*/name"):
        with open(name) as file:
            if file.read().strip() == PORT:
                return open("/dev/" + name.split("/")[-2], "r+b", buffering=0)
    sys.exit(f"agent: no serial port named {PORT}")


def answer(port, **fields) -> None:
    data = memoryview(json.dumps(fields).encode() + b"\n")
    while data:
        data = data[port.write(data) :]


def text(data: bytes) -> str:
    return data.decode(errors="replace")


def run(port, argv, stdin="", timeout_s=60, env=None):
    """Run a command; its output is passed on as it comes."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )
    process.stdin.write(stdin.encode())
    process.stdin.close()
    deadline = time.monotonic() + timeout_s
    streams = selectors.DefaultSelector()
    streams.register(process.stdout, selectors.EVENT_READ, "stdout")
    streams.register(process.stderr, selectors.EVENT_READ, "stderr")
    while streams.get_map():
        # A child that stays behind may keep the pipes open: then its parent's end is ours.
        for key, _ in streams.select(0.2):
            chunk = os.read(key.fd, 65536)
            if chunk:
                answer(port, **{key.data: text(chunk)})
            else:
                streams.unregister(key.fileobj)
        if process.poll() is not None and not streams.select(0):
            break
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            answer(port, error=f"not done after {timeout_s} s: {argv}")
            process.wait()
            return
    answer(port, done=process.wait())


CHILDREN = {}


def spawn(port, argv, log, env=None):
    """Start a command in the background, its output into a file."""
    with open(log, "ab") as file:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    CHILDREN[process.pid] = process
    answer(port, done=process.pid)


def poll(port, pid):
    """Answer with a background command's exit code, or null while it runs."""
    answer(port, done=CHILDREN[pid].poll())


def stop(port, pid, signal, timeout_s=10):
    """Send a signal to a background command and wait for its end."""
    CHILDREN[pid].send_signal(signal)
    answer(port, done=CHILDREN[pid].wait(timeout_s))


def read(port, paths):
    """Answer with the contents of files; a file that cannot be read has none."""
    contents = {}
    for path in paths:
        try:
            with open(path, "rb") as file:
                contents[path] = text(file.read())
        except OSError:
            contents[path] = None
    answer(port, done=contents)


def write(port, path, content):
    with open(path, "wb") as file:
        file.write(content.encode())
    answer(port, done=True)


OPERATIONS = {
    "run": run,
    "spawn": spawn,
    "poll": poll,
    "stop": stop,
    "read": read,
    "write": write,
    "end": None,
}

main()

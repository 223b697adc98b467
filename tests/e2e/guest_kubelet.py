"""Runs in a node for as long as the node: what the kubelet does, asked line by line.

A line of standard input is a JSON list, the name of a function of this file and its
arguments; the line of standard output is `{"answer": ...}`, or `{"failure": ...}` with
what the runtime said. One process for all calls: under emulation each start of crictl
takes longer than the call.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = "/sys/fs/cgroup"
CRICTL = "/etc/crictl.yaml"
SERVICE = "/runtime.v1.RuntimeService"
TIMEOUT_S = 300
PATIENCE_S = 180
# A runtime that was restarted, or a proxy, is called again soon.
BACKOFF = [(f"grpc.{name}_reconnect_backoff_ms", 200) for name in ("initial", "max")]
CHANNELS: dict[str, Any] = {}
# Cgroups whose controllers are on for their children.
MADE: set[str] = set()


def call(method: str, request: str) -> str:
    """Call the server that crictl would call; request and answer are in base 64."""
    with open(CRICTL) as file:
        found = re.search(r"runtime-endpoint: unix://(\S+)", file.read())
    assert found is not None
    if found[1] not in CHANNELS:
        options = [("grpc.default_authority", "localhost"), *BACKOFF]
        CHANNELS[found[1]] = grpc.insecure_channel(f"unix:{found[1]}", options=options)
    function: Any = CHANNELS[found[1]].unary_unary(f"{SERVICE}/{method}")
    response = function(
        base64.b64decode(request), timeout=TIMEOUT_S, wait_for_ready=True
    )
    return base64.b64encode(response).decode()


def make_cgroup(*parts: str) -> None:
    """Make a cgroup v2 as the kubelet does, with every controller on."""
    path = ROOT
    for part in parts:
        path = f"{path}/{part}"
        if path in MADE:
            continue
        os.makedirs(path, exist_ok=True)
        with open(f"{path}/cgroup.controllers") as file:
            controllers = file.read().split()
        with open(f"{path}/cgroup.subtree_control", "w") as file:
            file.write(" ".join(f"+{one}" for one in controllers))
        MADE.add(path)


def cgroups_of(name: str) -> list[str]:
    """Return the directories whose name has a container's ID in it."""
    return sorted(
        f"{path}/{directory}"
        for path, directories, _ in os.walk(ROOT)
        for directory in directories
        # The cgroup of conmon has the container's ID in its name, too.
        if name in directory and "conmon" not in directory
    )


def settings(directories: list[str], without: list[str]) -> dict[str, str]:
    """Return what all files that can be written hold, but for those with a word."""
    found = {}
    for directory in directories:
        for entry in os.scandir(directory):
            if any(word in entry.name for word in without):
                continue
            if not entry.is_file() or not entry.stat().st_mode & 0o222:
                continue
            try:
                with open(entry.path) as file:
                    found[entry.name] = file.read().strip()
            except OSError:
                continue  # it can only be written
    return found


def kill(pod: str, sandbox: str) -> None:
    """Kill every process of a pod's containers, and wait until none is left.

    The sandbox's own container stays: at its unexpected end containerd waits.
    """
    deadline = time.monotonic() + PATIENCE_S
    while pids := _processes(pod, sandbox):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {pids} do not end")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _processes(pod: str, sandbox: str) -> set[int]:
    """Return the processes below the cgroups that are named after a pod.

    Without conmon, which has to tell CRI-O of the container's end.
    """
    found = set()
    for path, _, _ in os.walk(ROOT):
        if pod in path and sandbox not in path and "conmon" not in path:
            # The runtime removes a cgroup as soon as it is empty.
            with contextlib.suppress(OSError), open(f"{path}/cgroup.procs") as file:
                found |= {int(line) for line in file}
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "call": call,
    "make_cgroup": make_cgroup,
    "cgroups_of": cgroups_of,
    "settings": settings,
    "kill": kill,
}


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        name, *args = json.loads(line)
        try:
            answer = {"answer": FUNCTIONS[name](*args)}
        except grpc.RpcError as exc:
            failed: Any = exc
            answer = {"failure": f"{failed.code().name}: {failed.details()}"}
        except Exception:  # noqa: BLE001 # every failure is an answer
            answer = {"failure": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

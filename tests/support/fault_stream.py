"""A stream of containers on a node, and the conditions that hold when a fault is over.

tests/e2e/guest_faults.py makes, updates and removes the containers in the guest.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from support.guestcases import HERE, IN_GUEST, PYTHON
from support.kubelet import Container
from support.looking import PATIENCE_S

if TYPE_CHECKING:
    from nodes.machine import Machine

    from support.kubelet import Kubelet, Pod

CONFIG = "/tmp/faults.yaml"
# The curve is not the runtime's, so that a container that was missed shows it.
TEXT = """
curve: proportional
adopt: {enabled: true}
repair: {enabled: true, everySeconds: 5}
"""
SCRIPT = "guest_faults.py"
LOG = "/var/log/guest_faults.log"
# runc starts a container within its limits, so these leave it memory and time.
SIZES = [
    {
        "cpu_shares": shares,
        "cpu_quota": quota,
        "cpu_period": 100_000,
        "memory_limit_in_bytes": limit,
    }
    for shares, quota, limit in (
        (512, 50_000, 2**26),
        (1024, 100_000, 2**27),
        (2048, 150_000, 2**28),
    )
]
FILES = ("cpu.weight", "cpu.max", "memory.max")


def right(size: int) -> dict[str, str]:
    """Return what the files of a size hold."""
    numbers = SIZES[size]
    return {
        "cpu.weight": str(numbers["cpu_shares"] * 100 // 1024),
        "cpu.max": f"{numbers['cpu_quota']} 100000",
        "memory.max": str(numbers["memory_limit_in_bytes"]),
    }


class Stream:
    """The stream of containers in the guest."""

    def __init__(self, kubelet: Kubelet, pod: Pod) -> None:
        self._machine = kubelet.machine
        self._kubelet = kubelet
        self._machine.check("mkdir", "-p", IN_GUEST)
        path = f"{IN_GUEST}/{SCRIPT}"
        self._machine.write(path, (HERE / SCRIPT).read_text())
        configs = kubelet.write_configs(pod, "stream", SIZES[0])
        argv = (PYTHON, path, pod.id, *configs, json.dumps(SIZES))
        self.pid = self._machine.spawn(*argv, log=LOG, answers=True)

    def say(self, line: str) -> Any:
        """Say `pause` or `go`; return the answer."""
        return json.loads(self._machine.ask(self.pid, line, PATIENCE_S))

    def wrong(self, wanted: dict[str, int]) -> list[str]:
        """Return a sentence for each wrong file."""
        found = []
        for name, size in wanted.items():
            container = Container(name, name, self._kubelet.cgroups_of(name))
            held = self._kubelet.settings(container)
            found += [
                f"{name[:12]}: {file}={held.get(file)}, expected {value}"
                for file, value in right(size).items()
                if held.get(file) != value
            ]
        return found


def status(node: Machine) -> dict[str, Any]:
    """Return what `nriplugin status` says; empty while the daemon does not answer."""
    result = node.run("nriplugin", "status", "-o", "json")
    try:
        answer: dict[str, Any] = json.loads(result.stdout)
    except json.JSONDecodeError:
        return {}
    return answer


def problems(node: Machine, kubelet: Kubelet, stream: Stream, wanted: Any) -> list[str]:
    """Return what is not right yet."""
    state = status(node)
    if not state.get("ready"):
        return [f"not ready: {state.get('problems')}"]
    counts = state["containers"]
    _, alive = kubelet.alive()
    known = counts["managed"] + counts["adopted"]
    found = stream.wrong(wanted)
    if known != alive:
        found.append(f"the plugin knows {known} of {alive} containers: {counts}")
    return found


def settle(node: Machine, kubelet: Kubelet, stream: Stream) -> dict[str, Any]:
    """Wait until everything is right, while the stream pauses; return the status."""
    said = stream.say("pause")
    assert said["failed"] == [], said["failed"]
    deadline = time.monotonic() + PATIENCE_S
    while found := problems(node, kubelet, stream, said["wanted"]):
        assert time.monotonic() < deadline, found
        time.sleep(1)
    state = status(node)
    stream.say("go")
    return state


def kill_runtime(node: Machine) -> None:
    """End containerd as a crash would, and start it again."""
    node.check("sh", "-c", "kill -9 $(cat /run/containerd.pid)")
    node.check("/node/bin/runtime", "start", timeout_s=PATIENCE_S)


def stream_containers(kubelet: Kubelet, pod: Pod) -> list[str]:
    """Return the containers of a pod that are left."""
    return kubelet.crictl("ps", "-a", "-q", "--pod", pod.id).stdout.split()

"""Containers created one after the other in the guest, while a test goes on.

Only creations are of interest, so the containers are removed without being started.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from support.looking import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support.kubelet import Kubelet, Pod

RESULTS = "/tmp/load.jsonl"

# Runs in the guest: creates a container, looks whether the plugin set its cpu.weight,
# prints the outcome, removes the container, and so on.
SCRIPT = """
import json, subprocess, sys, time
pod_id, container, pod, pause_s = sys.argv[1:]
def crictl(*args):
    return subprocess.run(["crictl", *args], capture_output=True, text=True)
number = 0
while True:
    number += 1
    config = json.load(open(container))
    config["metadata"]["name"] = f"load-{number}"
    with open("/tmp/load.json", "w") as file:
        json.dump(config, file)
    done = crictl("create", "--no-pull", pod_id, "/tmp/load.json", pod)
    name = done.stdout.strip()
    unified = done.returncode == 0 and "cpu.weight" in crictl("inspect", name).stdout
    print(json.dumps([done.returncode, unified, done.stderr]), flush=True)
    if done.returncode == 0:
        crictl("rm", "-f", name)
    time.sleep(float(pause_s))
"""


class Made(NamedTuple):
    """One `crictl create`: its exit code, whether the plugin answered, its errors."""

    code: int
    unified: bool
    complaint: str


class Load:
    """The creations that go on in the guest."""

    def __init__(self, kubelet: Kubelet, pid: int) -> None:
        self._machine = kubelet.machine
        self.pid = pid

    def results(self) -> list[Made]:
        """Return the outcomes of all creations so far."""
        text = self._machine.read([RESULTS])[RESULTS] or ""
        whole = text[: text.rfind("\n") + 1]
        return [Made(*json.loads(line)) for line in whole.splitlines()]

    def count(self) -> int:
        """Return the number of creations so far."""
        return len(self.results())

    def wait_for(self, count: int) -> None:
        """Wait until there were so many creations."""
        deadline = time.monotonic() + PATIENCE_S
        while self.count() < count:
            assert self._machine.poll(self.pid) is None, self._machine.read([RESULTS])
            assert time.monotonic() < deadline, f"{self.count()} of {count} containers"
            time.sleep(0.2)


@contextmanager
def creating(
    kubelet: Kubelet, pod: Pod, resources: Mapping[str, object], pause_s: float = 0
) -> Iterator[Load]:
    """Create containers with these resources until the context ends.

    A pause after each leaves the guest's processors to what goes on beside it.
    """
    kubelet.machine.write(RESULTS, "")
    paths = kubelet.write_configs(pod, "load", resources)
    argv = ("/usr/bin/python3", "-c", SCRIPT, pod.id, *paths, str(pause_s))
    load = Load(kubelet, kubelet.machine.spawn(*argv, log=RESULTS))
    try:
        yield load
    finally:
        kubelet.machine.stop(load.pid)

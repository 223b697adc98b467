"""GetContainerEvents, a stream that stays open, through the CRI proxy."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.guestcases import HERE, IN_GUEST, PYTHON
from support.looking import PATIENCE_S
from support.plugins import CRI, PROXY, RUNTIME

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Kubelet

pytestmark = [on_nodes("containerd-2"), pytest.mark.timeout(1800)]

LOG = "/tmp/events.log"
EVENTS = "/tmp/events.json"
PROXY_LOG = "/tmp/events-proxy.log"
# A container has at least two, its creation and its start.
ENOUGH = 4


def wait_for_proxy(node: Machine) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while CRI.ready not in (log := node.read([PROXY_LOG])[PROXY_LOG] or ""):
        assert time.monotonic() < deadline, log
        time.sleep(0.3)


def events(node: Machine) -> tuple[list[str], list[str]]:
    """Return what the runtime sent, and what came through the proxy."""
    text = node.read([EVENTS])[EVENTS]
    direct, through = json.loads(text) if text else ([], [])
    return direct, through


def test_events_are_the_runtimes(node: Machine, kubelet: Kubelet) -> None:
    """Both streams have the same events in the same order, once both are open.

    No message shows that a stream is open, so containers are started until both have
    seen enough.
    """
    script = "guest_cri_events"
    node.check("mkdir", "-p", IN_GUEST)
    node.write(f"{IN_GUEST}/{script}.py", (HERE / f"{script}.py").read_text())
    proxy = node.spawn("nriplugin", *CRI.command, log=PROXY_LOG)
    wait_for_proxy(node)
    listener = node.spawn(
        *(PYTHON, f"{IN_GUEST}/{script}.py", EVENTS, RUNTIME, PROXY), log=LOG
    )
    deadline = time.monotonic() + PATIENCE_S
    with kubelet.sandbox("Burstable", "crun") as pod:
        while min(map(len, events(node))) < ENOUGH:
            assert time.monotonic() < deadline, (events(node), node.read([LOG]))
            kubelet.start(pod, f"one-{len(pod.containers)}", {})
    # The last events may still be on their way through the proxy.
    while (seen := events(node))[0][-1] != seen[1][-1]:
        assert time.monotonic() < deadline, seen
        time.sleep(0.3)
    node.stop(listener, signal.SIGKILL)
    node.stop(proxy)
    direct, through = seen
    both = min(len(direct), len(through))
    assert through[-both:] == direct[-both:]

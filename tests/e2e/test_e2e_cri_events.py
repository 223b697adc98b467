"""GetContainerEvents, a stream that stays open, through the CRI proxy."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.guestcases import HERE, IN_GUEST, PYTHON
from support.plugins import CRI, PROXY, RUNTIME

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Kubelet

pytestmark = [on_nodes("containerd-2"), pytest.mark.timeout(300)]

PATIENCE_S = 90
LOG = "/tmp/events.log"
ENOUGH = "/tmp/events.enough"
PROXY_LOG = "/tmp/events-proxy.log"


def said(node: Machine, log: str, text: str) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while text not in (content := node.read([log])[log] or ""):
        assert time.monotonic() < deadline, content
        time.sleep(0.3)
    return content


def test_events_are_the_runtimes(node: Machine, kubelet: Kubelet) -> None:
    """Both streams have the same events in the same order, once both are open."""
    script = "guest_cri_events"
    node.check("mkdir", "-p", IN_GUEST)
    node.write(f"{IN_GUEST}/{script}.py", (HERE / f"{script}.py").read_text())
    proxy = node.spawn("nriplugin", *CRI.command, log=PROXY_LOG)
    said(node, PROXY_LOG, CRI.ready)
    listener = node.spawn(
        *(PYTHON, f"{IN_GUEST}/{script}.py", ENOUGH, RUNTIME, PROXY), log=LOG
    )
    said(node, LOG, "listening")
    time.sleep(2)  # until the streams are open, which no message shows
    with kubelet.sandbox() as pod:
        kubelet.start(pod, "one", {})
    time.sleep(1)
    node.write(ENOUGH, "")
    direct, through = json.loads(said(node, LOG, "]]").splitlines()[-1])
    node.stop(listener)
    node.stop(proxy)
    both = min(len(direct), len(through))
    assert both >= 4  # pod and container, created and stopped at least
    assert through[-both:] == direct[-both:]

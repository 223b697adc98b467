"""Plugin and runtime are killed at random moments under a stream of containers.

Half a minute of it by default; NRIPLUGIN_FAULT_MINUTES says how many minutes, and
`hack/conformance own-faults` takes ten.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.fault_stream import (
    CONFIG,
    TEXT,
    Stream,
    kill_runtime,
    settle,
    stream_containers,
)
from support.plugins import Plugin

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Kubelet

MINUTES = float(os.environ.get("NRIPLUGIN_FAULT_MINUTES", "0.5"))
pytestmark = pytest.mark.timeout(1800 + 120 * MINUTES)


@on_nodes("containerd-2.4")
def test_kills_at_random_moments(node: Machine, kubelet: Kubelet) -> None:
    """No container fails, all become known and right, and `status` names each gap."""
    node.write(CONFIG, TEXT)
    choose = random.Random(2)
    kinds = [("plugin",), ("runtime",), ("plugin", "runtime")]
    choose.shuffle(kinds)
    plugin = Plugin(node, "--config", CONFIG)
    try:
        plugin.wait_for("synchronized:")
        with kubelet.sandbox("Burstable", remove=True) as pod:
            stream = Stream(kubelet, pod)
            try:
                deadline = time.monotonic() + 60 * MINUTES
                round_ = 0
                while round_ < len(kinds) or time.monotonic() < deadline:
                    killed = kinds[round_ % len(kinds)]
                    round_ += 1
                    before = settle(node, kubelet, stream)
                    time.sleep(choose.uniform(0, 3))
                    if "plugin" in killed:
                        plugin.end(signal.SIGKILL)
                    if "runtime" in killed:
                        kill_runtime(node)
                    if "plugin" in killed:
                        plugin = Plugin(node, "--config", CONFIG)
                    after = settle(node, kubelet, stream)
                    gaps = after["runtime"]["gap_count"]
                    if "plugin" in killed:
                        assert (gaps, after["pid"]) == (1, plugin.pid)
                    else:
                        assert gaps == before["runtime"]["gap_count"] + 1
                    assert all(gap["reason"] for gap in after["runtime"]["gaps"])
            finally:
                node.stop(stream.pid, signal.SIGKILL)
            for name in stream_containers(kubelet, pod):
                kubelet.crictl("rm", "-f", name)
    finally:
        if node.poll(plugin.pid) is None:
            plugin.end()

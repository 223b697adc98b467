"""Each kind of fault once under a stream of containers, with clients of the daemon.

Meanwhile a program scrapes the metrics every second, and three `nriplugin status
--watch` show the state, over all restarts.
"""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

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
from support.guestcases import PYTHON
from support.looking import PATIENCE_S, keep_looking
from support.plugins import Plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodes.machine import Machine
    from support.kubelet import Kubelet

pytestmark = pytest.mark.timeout(3600)

STATE = "/var/lib/nriplugin"
SIZE = "size=8m"
JOURNAL = f"{STATE}/journal.db"
STOPPED_S = 3
# As many crictl at the same time as fit into the guest's memory.
MANY = 16

WATCHERS = 3
# Prints a line for each page of metrics that it got.
SCRAPER = """
import time, urllib.request
while True:
    try:
        page = urllib.request.urlopen("http://127.0.0.1:10799/metrics", timeout=30)
        print(len(page.read()), flush=True)
    except OSError:
        pass
    time.sleep(1)
"""


class FaultyNode:
    """A node whose plugin has a small file system for its state."""

    def __init__(self, node: Machine) -> None:
        self.node = node
        node.write(CONFIG, TEXT)
        node.check("mkdir", "-p", STATE)
        node.check("mount", "-t", "tmpfs", "-o", SIZE, "tmpfs", STATE)
        self.start_plugin()
        self.plugin.wait_for("synchronized:")

    def start_plugin(self) -> None:
        """Start the plugin."""
        self.plugin = Plugin(self.node, "--config", CONFIG)

    def kill_plugin(self) -> None:
        """End the plugin with SIGKILL."""
        self.plugin.end(signal.SIGKILL)

    def shell(self, command: str) -> None:
        """Run a shell command in the guest."""
        self.node.check("sh", "-c", command, timeout_s=PATIENCE_S)

    def end(self) -> None:
        """End the plugin and give the state directory back."""
        if self.node.poll(self.plugin.pid) is None:
            self.plugin.end()
        self.shell(f"umount --lazy {STATE}")


# The faults. Each is over when its function returns.


def stop_plugin(faulty: FaultyNode) -> None:
    """The plugin does not run for a while."""
    pid = faulty.plugin.pid
    faulty.shell(f"kill -STOP {pid} && sleep {STOPPED_S}; kill -CONT {pid}")


def remove_sockets(faulty: FaultyNode) -> None:
    """The runtime dies, and the directory of its socket with it."""
    faulty.shell("rm -r /var/run/nri")
    kill_runtime(faulty.node)
    faulty.shell("test -S /var/run/nri/nri.sock")


def jump_clock(faulty: FaultyNode) -> None:
    """The node's clock is set ahead, back, and right again.

    By less than a day, after which containerd forgets what a request has begun.
    """
    for hours in (5, -10, 5):
        faulty.shell(f"date -s '{hours:+} hours' && sleep 1")


def fill_disk(faulty: FaultyNode) -> None:
    """The disk of the state directory is full for a while."""
    filler = f"{STATE}/filler"
    faulty.shell(f"cat /dev/zero > {filler}; sleep {STOPPED_S}; rm {filler}")


def make_read_only(faulty: FaultyNode) -> None:
    """The plugin starts with a state directory that is read-only for a while."""
    faulty.kill_plugin()
    faulty.shell(f"mount -o remount,ro {STATE}")
    faulty.start_plugin()
    faulty.plugin.wait_for("synchronized:")
    faulty.shell(f"mount -o remount,rw,{SIZE} {STATE}")


def corrupt_journal(faulty: FaultyNode) -> None:
    """The plugin is killed, and garbage is where its journal was."""
    faulty.kill_plugin()
    faulty.shell(f"test -s {JOURNAL} && rm {JOURNAL}*")
    faulty.shell(f"head -c 3000 /dev/urandom > {JOURNAL}")
    faulty.start_plugin()


# How many times each ends the connection; -1 for a new process of the plugin, and None
# if that depends on the runtime's request timeout.
NEW_PROCESS = -1
FAULTS: dict[Callable[[FaultyNode], None], int | None] = {
    stop_plugin: None,
    remove_sockets: 1,
    jump_clock: 0,
    fill_disk: 0,
    make_read_only: NEW_PROCESS,
    corrupt_journal: NEW_PROCESS,
}


class StatusWatcher:
    """`nriplugin status --watch` in the guest."""

    def __init__(self, node: Machine, number: int) -> None:
        self._node, self._log = node, f"/var/log/watcher-{number}.jsonl"
        node.write(self._log, "")
        command = ("nriplugin", "status", "--watch", "-o", "json")
        self.pid = node.spawn(*command, log=self._log)

    def wait_for_page(self) -> None:
        """Wait until it shows the state once more."""
        wait_for_line(self._node, self._log)

    def last(self) -> dict[str, Any]:
        """Return its last line."""
        text = self._node.check("tail", "-n", "1", self._log)
        page: dict[str, Any] = json.loads(text) if text.strip() else {}
        return page


def wait_for_line(node: Machine, path: str) -> None:
    """Wait until a file in the guest has one line more."""

    def lines() -> str:
        return node.check("wc", "-l", path)

    before = lines()
    assert keep_looking(lines, lambda now: now != before) != before, path


@on_nodes(long=("containerd-2.4",))
def test_each_fault_once(node: Machine, kubelet: Kubelet) -> None:
    """No container fails, all become known and right, and clients get their answers."""
    faulty = FaultyNode(node)
    scraped = "/var/log/scraped"
    node.write(scraped, "")
    watchers = [StatusWatcher(node, number) for number in range(WATCHERS)]
    scraper = node.spawn(PYTHON, "-c", SCRAPER, log=scraped)
    clients = [scraper, *(one.pid for one in watchers)]
    try:
        with kubelet.sandbox("Burstable", remove=True) as pod:
            stream = Stream(kubelet, pod)
            try:
                for fault, cuts in FAULTS.items():
                    before = settle(node, kubelet, stream)
                    fault(faulty)
                    after = settle(node, kubelet, stream)
                    assert after["pid"] == faulty.plugin.pid
                    gaps = after["runtime"]["gap_count"]
                    if cuts == NEW_PROCESS:
                        assert gaps == 1
                    elif cuts is not None:
                        assert gaps == before["runtime"]["gap_count"] + cuts
                    assert all(gap["reason"] for gap in after["runtime"]["gaps"])
                stream.say("pause")
                stream.say(f"many {MANY}")
                settle(node, kubelet, stream)
                assert all(node.poll(pid) is None for pid in clients)
                for watcher in watchers:
                    watcher.wait_for_page()
                    assert watcher.last().get("ready"), watcher.last()
                wait_for_line(node, scraped)
            finally:
                node.stop(stream.pid, signal.SIGKILL)
            for name in stream_containers(kubelet, pod):
                kubelet.crictl("rm", "-f", name)
    finally:
        for pid in clients:
            if node.poll(pid) is None:
                node.stop(pid, signal.SIGKILL)
        faulty.end()

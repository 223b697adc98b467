"""containerd's own tests about NRI and updates, against a node's containerd.

The tests connect NRI plugins of their own to the node's containerd. With nriplugin
there too, theirs must see and do what they see and do without it.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nodes.catalog import NODES
from nodes.machine import booted
from nodes.shell import NodeError

from conformances.gotest import parse_go_test
from conformances.outcomes import Run
from conformances.ways import plugin_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine

NODE = NODES["containerd-2.4"]
LIMIT_S = 4 * 3600
PATIENCE_S = 300
PROGRAM = "/node/bin/containerd-integration.test"
IMAGES = "/tmp/images.toml"  # noqa: S108 # in the guest
UPDATES = "TestUpdateContainerResources"
# Of the tests about NRI, these restart containerd.
RESTARTING = "TestNriPluginContainerdRestart|TestUpdatePodSandboxWithRestart"
NRI = "TestNri"


# A cgroup for containerd and the tests. Both look for swap accounting in the cgroup
# that they run in, and the root has none of its files.
CGROUP = "/sys/fs/cgroup/suite"
IN_CGROUP = f'echo $$ >{CGROUP}/cgroup.procs && exec "$@"'
SWAP = """
set -e
grep -q /swap /proc/swaps && exit
dd if=/dev/zero of=/swap bs=1M count=256 status=none
chmod 600 /swap
mkswap -q /swap
swapon /swap
"""
# The tests stop containerd and expect that the node's service manager starts it. They
# look once a second whether it is gone, so it stays away for longer.
KEEP_RUNNING = f"""
echo $$ >{CGROUP}/cgroup.procs
while sleep 1; do
    pidof containerd >/dev/null || {{ sleep 5; /node/bin/runtime start; }}
done
"""
OF_TESTS = "/var/run/nri-test.sock"
# They do so by `pkill -SIGNAL -x ^containerd$`, and the node has no pkill.
PKILL = """#!/bin/sh
kill "$1" "$(pidof containerd)"
"""
PKILL_PATH = "/usr/local/bin/pkill"


@contextmanager
def prepared(guest: Machine) -> Iterator[None]:
    """Give a node what the tests need; afterwards its containerd runs as before."""
    guest.check("mkdir", "-p", "/etc/cni/net.d", CGROUP)
    guest.check("cp", "/node/etc/10-pods.conflist", "/etc/cni/net.d/")
    guest.check("modprobe", "veth")
    guest.check("ln", "-sf", "/var/run/nri/nri.sock", OF_TESTS)
    guest.write(IMAGES, 'BusyBox = "localhost/box:1"\nPause = "localhost/box:1"\n')
    guest.write(PKILL_PATH, PKILL)
    guest.check("chmod", "+x", PKILL_PATH)
    guest.check("sh", "-c", SWAP)
    guest.check("/node/bin/runtime", "stop")
    keeper = guest.spawn("sh", "-c", KEEP_RUNNING, log="/var/log/keep-running.log")
    try:
        _await_runtime(guest)
        yield
    finally:
        guest.stop(keeper, signal.SIGKILL)
        guest.check("rm", "/etc/cni/net.d/10-pods.conflist", OF_TESTS, PKILL_PATH)
        guest.check("swapoff", "/swap")
        guest.check("/node/bin/runtime", "restart")


@contextmanager
def machine() -> Iterator[Machine]:
    """Boot a node on which the tests can run."""
    with booted(NODE, limit_s=LIMIT_S) as guest, prepared(guest):
        yield guest


def _await_runtime(guest: Machine) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while guest.run("crictl", "-t", "5s", "version").code != 0:
        if time.monotonic() > deadline:
            raise NodeError(f"{guest.node.name}: containerd was not started again")
        time.sleep(1)


def run_tests(guest: Machine, way: str, focus: str, skip: str = "") -> Run:
    """Run the tests whose names match, once, and return their outcomes."""
    began = time.monotonic()
    with plugin_of(way, guest):
        done = guest.run(
            *("sh", "-c", IN_CGROUP, "sh", PROGRAM, "-test.v"),
            *(f"-test.run=^({focus})", f"-test.skip={skip}", f"-image-list={IMAGES}"),
            timeout_s=1500,
        )
    outcomes = parse_go_test(done.stdout)
    if not outcomes:
        raise NodeError(f"{PROGRAM} ran no test:\n{done.stdout}{done.stderr}")
    return Run(way, outcomes, time.monotonic() - began)

"""Kubernetes' own tests of a node (test/e2e_node), in a guest.

By default, the tests start an API server and etcd beside themselves, which takes
minutes in an emulated guest. Here they use the control plane on this machine, and only
kubelet and the tests run in the guest.
"""

from __future__ import annotations

import signal
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.cache import say
from nodes.catalog import NODES
from nodes.control_plane import shared
from nodes.machine import booted, build
from nodes.programs import program
from nodes.shell import NodeError

from conformances.junit import parse_junit
from conformances.network import ADDRESS, forwarded, own_network
from conformances.outcomes import Run
from conformances.versions import runtime_versions
from conformances.ways import INSTEAD, plugin_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine

NODE = NODES["kubernetes-systemd"]
PREPARE = Path(__file__).with_name("e2e-node.sh")
IMAGES = (
    "registry.k8s.io/e2e-test-images/busybox:1.36.1-1",
    "registry.k8s.io/e2e-test-images/busybox:1.37.0-1",
    "registry.k8s.io/e2e-test-images/busybox:1.37.0-2",
    "registry.k8s.io/pause:3.10.2",
)
HOME = "/var/lib/e2e"
LOG = "/var/log/e2e-node.log"
JUNIT = f"{HOME}/report/junit.xml"
DROP_IN = f"{HOME}/kubelet.conf.d/50-off.conf"
START = f'cd {HOME} && exec ./e2e_node.test $(cat cluster) "$@"'
# How ginkgo's output tells that a spec has ended.
ENDED = r"^(•|S) \["
POLL_S = 5
PORT = "node.kubelet="
# Beyond the time limit, the suite still cleans up and writes its report.
GRACE_S = 300
# Longer than all suites of the node together, in both ways.
LIMIT_S = 24 * 3600
# The tests switch kubelet's feature on in its configuration; a file in the directory
# beside it wins.
OFF = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
featureGates: {MemoryQoS: false}
memoryReservationPolicy: None
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specs:
    """Some of the suite's specs: those whose name one of `focus` matches.

    `limit_s` ends a run that takes too long; the specs that have ended by then count.
    """

    focus: tuple[str, ...]
    skip: tuple[str, ...] = ()
    limit_s: int = 2400


@contextmanager
def machine() -> Iterator[Machine]:
    """Boot a node of a cluster of its own, on which the tests can run."""
    tests = program("e2e-node")
    # What is missing is downloaded before the network is left.
    for name in ("control-plane", "kubectl"):
        program(name)
    build(NODE)
    home = Path(tempfile.mkdtemp(prefix="nriplugin-cluster-"))
    with (
        own_network(),
        shared(home) as cluster,
        booted(NODE, tests, LIMIT_S, endpoint=cluster.endpoint) as guest,
        forwarded(_port(guest)),
    ):
        # The API server has this file as its /etc/hosts.
        (cluster.directory / "hosts").write_text(f"{ADDRESS} {NODE.name}\n")
        guest.check(
            "sh",
            stdin=PREPARE.read_text(),
            env={"IMAGES": " ".join(IMAGES)},
            timeout_s=600,
        )
        yield guest


def _port(guest: Machine) -> int:
    """Return kubelet's port, which is the same in the guest and on this machine."""
    words = guest.check("cat", "/proc/cmdline").split()
    (port,) = (word.removeprefix(PORT) for word in words if word.startswith(PORT))
    return int(port)


def run_specs(guest: Machine, way: str, specs: Specs) -> Run:
    """Run specs once and return their outcomes."""
    guest.check("rm", "-rf", JUNIT, DROP_IN)
    guest.run("crictl", "rmp", "--all", "--force", timeout_s=300)
    if way == INSTEAD:
        guest.check("mkdir", "-p", str(Path(DROP_IN).parent))
        guest.write(DROP_IN, OFF)
    began = time.monotonic()
    with plugin_of(way, guest):
        guest.write(LOG, "")
        options = [
            *("--start-services=false", "--prepull-images=false"),
            f"--report-dir={HOME}/report",
            f"--system-spec-file={HOME}/system.yaml",
            "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
            # The seed makes the order the same in all runs.
            *("--ginkgo.seed=1", "--ginkgo.v", "--ginkgo.no-color"),
            f"--ginkgo.junit-report={JUNIT}",
            f"--ginkgo.timeout={specs.limit_s}s",
            *(f"--ginkgo.focus={each}" for each in specs.focus),
            *(f"--ginkgo.skip={each}" for each in specs.skip),
        ]
        pid = guest.spawn("sh", "-c", START, "sh", *options, log=LOG)
        _wait(guest, pid, way, specs.limit_s)
    report = guest.read([JUNIT])[JUNIT]
    if report is None:
        end = guest.run("tail", "-n", "40", LOG).stdout
        raise NodeError(f"e2e_node.test wrote no report; the end of its log:\n{end}")
    seconds = time.monotonic() - began
    outcomes = parse_junit(report)
    if not outcomes:
        raise NodeError(f"no spec was run; expected some of {', '.join(specs.focus)}")
    return Run(way, outcomes, seconds, whole=seconds < specs.limit_s)


def _wait(guest: Machine, pid: int, way: str, limit_s: int) -> None:
    """Wait for the end of the suite, and say when a spec has ended."""
    deadline = time.monotonic() + limit_s + GRACE_S
    told = 0
    while guest.poll(pid) is None:
        if time.monotonic() > deadline:
            guest.stop(pid, signal.SIGKILL)
            return
        time.sleep(POLL_S)
        ended = guest.run("grep", "-E", ENDED, LOG).stdout.splitlines()
        for number, line in enumerate(ended[told:], told + 1):
            say(f"{way}: spec {number}: {line.strip()}")
        told = len(ended)


def versions(guest: Machine) -> dict[str, str]:
    """Return the versions of everything that takes part."""
    kubelet = guest.check("/node/bin/kubelet", "--version").split()[-1]
    return {"kubelet": kubelet.removeprefix("v"), **runtime_versions(guest)}

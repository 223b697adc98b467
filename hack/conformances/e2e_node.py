"""Kubernetes' own tests of a node (test/e2e_node), in a guest."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.cache import say
from nodes.catalog import NODES
from nodes.shell import NodeError

from conformances.junit import parse_junit
from conformances.outcomes import Run
from conformances.ways import INSTEAD, plugin_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine

# The tests start an API server, etcd and kubelet of their own in the guest, so this is
# a node without a cluster and with more memory.
NODE = replace(
    NODES["kubernetes-systemd"],
    name="e2e-node",
    about="Kubernetes' own tests of a node",
    programs=("crictl", "containerd", "runc", "kubelet", "e2e-node"),
    kubelet=False,
    memory_mb=3072,
)
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
# How ginkgo's output tells that a spec has ended.
ENDED = r"^(•|S) \["
POLL_S = 5
# Beyond the time limit, the suite still stops its services and writes its report.
GRACE_S = 300
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
def prepared(machine: Machine) -> Iterator[None]:
    """Make a booted node a machine on which the suite can run."""
    machine.check(
        "sh",
        stdin=PREPARE.read_text(),
        env={"IMAGES": " ".join(IMAGES)},
        timeout_s=300,
    )
    yield


def run_specs(machine: Machine, way: str, specs: Specs) -> Run:
    """Run specs once and return their outcomes."""
    machine.check("rm", "-rf", JUNIT, DROP_IN)
    machine.run("crictl", "rmp", "--all", "--force", timeout_s=300)
    if way == INSTEAD:
        machine.check("mkdir", "-p", str(Path(DROP_IN).parent))
        machine.write(DROP_IN, OFF)
    options = [
        *("--prepull-images=false", f"--node-name={NODE.name}"),
        *("--server-start-timeout=6m", f"--report-dir={HOME}/report"),
        f"--kubelet-config-file={HOME}/kubelet.yaml",
        f"--system-spec-file={HOME}/system.yaml",
        "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
        *("--ginkgo.v", "--ginkgo.no-color", f"--ginkgo.junit-report={JUNIT}"),
        f"--ginkgo.timeout={specs.limit_s}s",
        *(f"--ginkgo.focus={each}" for each in specs.focus),
        *(f"--ginkgo.skip={each}" for each in specs.skip),
    ]
    began = time.monotonic()
    machine.write(LOG, "")
    with plugin_of(way, machine):
        script = f'cd {HOME} && exec /node/bin/e2e_node.test "$@"'
        argv = ("sh", "-c", script, "sh", *options)
        _wait(machine, machine.spawn(*argv, log=LOG), way, specs.limit_s)
    report = machine.read([JUNIT])[JUNIT]
    if report is None:
        end = machine.run("tail", "-n", "40", LOG).stdout
        raise NodeError(f"e2e_node.test wrote no report; the end of its log:\n{end}")
    seconds = time.monotonic() - began
    return Run(way, parse_junit(report), seconds, whole=seconds < specs.limit_s)


def _wait(machine: Machine, pid: int, way: str, limit_s: int) -> None:
    """Wait for the end of the suite, and say when a spec has ended."""
    deadline = time.monotonic() + limit_s + GRACE_S
    told = 0
    while machine.poll(pid) is None:
        if time.monotonic() > deadline:
            machine.stop(pid, signal.SIGKILL)
            return
        time.sleep(POLL_S)
        ended = machine.run("grep", "-E", ENDED, LOG).stdout.splitlines()
        for number, line in enumerate(ended[told:], told + 1):
            say(f"{way}: spec {number}: {line.strip()}")
        told = len(ended)


def versions(machine: Machine) -> dict[str, str]:
    """Return the versions of everything that takes part."""
    return {
        "kubelet": machine.check("/node/bin/kubelet", "--version").split()[-1],
        **runtime_versions(machine),
    }


def runtime_versions(machine: Machine) -> dict[str, str]:
    """Return the versions of the runtime, the kernel and nriplugin."""
    runc = machine.check("runc", "--version").splitlines()[0]
    return {
        "containerd": machine.check("containerd", "--version").split()[2],
        "runc": runc.split()[-1],
        "kernel": machine.check("uname", "-r").strip(),
        "nriplugin": machine.check("nriplugin", "version").split()[1],
    }

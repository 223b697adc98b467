"""The hook on CRI-O without NRI."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.kubelet import Container

from nriplugin.convert.curves import Curve, weight_of
from nriplugin.engine import decide, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Kubelet, Pod

pytestmark = [on_nodes("crio"), pytest.mark.timeout(1800)]

CONFIG_FILE = "/etc/nriplugin-hook.yaml"
STATE_DIR = "/var/lib/nriplugin-hook"
HOOKS_DIR = "/etc/containers/oci/hooks.d"
DROP_IN = "/etc/crio/crio.conf.d/99-hook.conf"
# CRI-O looks for hooks in /usr/share/containers/oci/hooks.d alone by default.
SETTINGS = f"""
[crio.runtime]
hooks_dir = ["{HOOKS_DIR}"]

[crio.nri]
enable_nri = false
"""

CONFIG = """
memoryQoS: {enabled: true, protection: false}
cpuBurst: {enabled: true, percent: 20}
rules:
  - name: idle
    match: {qosClass: BestEffort}
    cpuQoS: {enabled: true, level: BE}
  - name: labelled
    match: {labels: {hooked: "yes"}}
    memoryQoS: {oomGroup: true}
    cpuBurst: {enabled: true}
"""
MIB = 1 << 20
PERIOD = {"cpu_period": 100_000}
LIMITED = {
    **PERIOD,
    "cpu_shares": 256,
    "cpu_quota": 150_000,
    "memory_limit_in_bytes": 96 * MIB,
    "oom_score_adj": 990,
}


@pytest.fixture(scope="module")
def hooked(node: Machine) -> Iterator[Machine]:
    """CRI-O with the hook and without NRI, for as long as this module's tests run."""
    node.check("mkdir", "-p", DROP_IN.rpartition("/")[0])
    node.write(DROP_IN, SETTINGS)
    node.write(CONFIG_FILE, CONFIG)
    options = ("--config", CONFIG_FILE, "--state-dir", STATE_DIR)
    node.check("nriplugin", "hook", "install", *options)
    node.check("/node/bin/runtime", "restart")
    for _ in range(3):
        # The first runs read Python from the disk, which may take an emulated node on a
        # busy machine longer than the hook's own time limit.
        node.run("nriplugin", "hook", *options, stdin="{}")
    try:
        yield node
    finally:
        node.check("rm", DROP_IN)
        node.check("nriplugin", "hook", "uninstall")
        node.check("/node/bin/runtime", "restart")
        assert not node.check("ls", HOOKS_DIR).split()


@contextmanager
def configured(node: Machine, text: str) -> Iterator[None]:
    """Have another configuration for a while."""
    node.write(CONFIG_FILE, text)
    try:
        yield
    finally:
        node.write(CONFIG_FILE, CONFIG)


def test_nri_is_off(hooked: Machine) -> None:
    """So what the containers get beyond the runtime's values comes from the hook."""
    assert "nri.sock" not in hooked.check("ss", "--unix", "--listening")


@pytest.fixture(scope="module")
def pod(hooked: Machine, kubelet: Kubelet) -> Iterator[Pod]:
    """A Burstable pod for the containers of several tests."""
    with kubelet.sandbox("Burstable") as pod:
        yield pod


def assert_burstable(held: dict[str, str]) -> None:
    """The runtime's own values stay, and those of the handlers are beside them."""
    assert held["cpu.weight"] == str(weight_of(256, Curve.QUADRATIC))
    assert held["cpu.max"] == "150000 100000"
    assert held["memory.max"] == str(96 * MIB)
    assert held["cpu.max.burst"] == "30000"
    assert 48 * MIB < int(held["memory.high"]) < 96 * MIB
    assert held["cpu.idle"] == "0"


def test_burstable(kubelet: Kubelet, pod: Pod) -> None:
    """Under runc, the runtime's own values stay, and the handlers' are beside them."""
    assert_burstable(kubelet.settings(kubelet.start(pod, "web", LIMITED)))


def test_burstable_under_crun(hooked: Machine, kubelet: Kubelet) -> None:
    """The same under crun."""
    with kubelet.sandbox("Burstable", "crun") as pod:
        assert_burstable(kubelet.settings(kubelet.start(pod, "web", LIMITED)))


def test_guaranteed(hooked: Machine, kubelet: Kubelet) -> None:
    """The request is the limit, so nothing is throttled before it."""
    sent = {**LIMITED, "cpu_shares": 512, "cpu_quota": 50_000, "oom_score_adj": -997}
    with kubelet.sandbox("Guaranteed", "crun") as pod:
        held = kubelet.settings(kubelet.start(pod, "web", sent))
    assert held["cpu.weight"] == str(weight_of(512, Curve.QUADRATIC))
    assert held["cpu.max.burst"] == "10000"
    assert held["memory.high"] == "max"


def test_best_effort_is_idle(hooked: Machine, kubelet: Kubelet) -> None:
    """A rule for the class, which the hook reads from the cgroup's path."""
    with kubelet.sandbox("BestEffort", "crun") as pod:
        container = kubelet.start(pod, "web", {"cpu_shares": 2, "oom_score_adj": 1000})
        assert kubelet.settings(container)["cpu.idle"] == "1"
        (cgroup,) = container.cgroups
        findings = json.loads(
            hooked.check(
                *("nriplugin", "restore", "--state-dir", STATE_DIR),
                *("--dry-run", "--json"),
            )
        )
    written = {
        f"/sys/fs/cgroup{one['path']}": one["original"] for one in findings["files"]
    }
    assert written[f"{cgroup}/cpu.idle"] == "0"


def test_annotations_and_labels_of_the_pod_count(
    hooked: Machine, kubelet: Kubelet
) -> None:
    """CRI-O has the ones in the container's spec, and the others in the sandbox's."""
    annotations = {
        "cpu-burst.cgroup2.nri.io": "10%",
        "cpu-burst.cgroup2.nri.io/container.web": "40%",
    }
    labels = {"hooked": "yes"}
    with kubelet.sandbox("Burstable", "crun", annotations, labels) as pod:
        held = kubelet.settings(kubelet.start(pod, "web", LIMITED))
    assert held["cpu.max.burst"] == "60000"
    assert held["memory.oom.group"] == "1"


def test_a_broken_configuration_does_not_stop_a_container(
    hooked: Machine, kubelet: Kubelet, pod: Pod
) -> None:
    """The container has the values that its runtime gives it."""
    with configured(hooked, "cpuBurst: ["):
        held = kubelet.settings(kubelet.start(pod, "misconfigured", LIMITED))
    assert held["cpu.max"] == "150000 100000"
    assert (held["cpu.max.burst"], held["memory.high"]) == ("0", "max")


@pytest.mark.parametrize("module", [decide.__name__, settings.__name__])
def test_a_broken_engine_does_not_stop_a_container(
    hooked: Machine, kubelet: Kubelet, pod: Pod, module: str
) -> None:
    """As in the middle of an upgrade, when a module is not there."""
    show = f"import {module} as m; print(m.__file__)"
    file = hooked.check("/opt/nriplugin/bin/python", "-c", show).strip()
    hooked.check("mv", file, f"{file}.away")
    try:
        name = f"without-{module.rpartition('.')[2]}"
        held = kubelet.settings(kubelet.start(pod, name, LIMITED))
    finally:
        hooked.check("mv", f"{file}.away", file)
    assert held["cpu.max"] == "150000 100000"
    assert (held["cpu.max.burst"], held["memory.high"]) == ("0", "max")


def test_what_is_to_fail_stops_a_container(
    hooked: Machine, kubelet: Kubelet, pod: Pod
) -> None:
    """Without a journal nothing is written, and the runtime shows the hook's error."""
    text = "cpuBurst: {enabled: true, percent: 20, failurePolicy: %s}"
    hooked.check("rm", "-rf", STATE_DIR)
    hooked.write(STATE_DIR, "not a directory")
    try:
        with configured(hooked, text % "fail"):
            refused = kubelet.try_start(pod, "refused", LIMITED)
        with configured(hooked, text % "ignore"):
            started = kubelet.start(pod, "ignored", LIMITED)
        held = kubelet.settings(started)
    finally:
        hooked.check("rm", STATE_DIR)
    assert not isinstance(refused, Container)
    assert "cpuBurst: journal" in refused
    assert held["cpu.max.burst"] == "0"

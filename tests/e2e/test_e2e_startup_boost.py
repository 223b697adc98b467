"""startupBoost on real runtimes: more quota from the start, and back in time."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from e2e.test_e2e_policies import Cgroup
from support.bed import on_nodes
from support.looking import PATIENCE_S, keep_looking
from support.plugins import Plugin, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet, Pod

pytestmark = [
    on_nodes("containerd-2.4", "systemd", "v1"),
    pytest.mark.timeout(1800),
]

CONFIG = "startupBoost: {enabled: true, percent: 300, seconds: %s}"
GIVEN = {"cpu_shares": 512, "cpu_quota": 40_000, "cpu_period": 100_000}
# In microseconds per period.
OWN, BOOSTED, POD_BOOSTED = 40_000, 120_000, 130_000
POD_OWN = 50_000
LONG_S = 3000
# A node on a busy machine may need longer than the first of these to start a container
# and to look at it.
TRIES_S = (20, 100, 500)


@pytest.fixture(scope="module")
def pod(kubelet: Kubelet) -> Iterator[Pod]:
    with kubelet.sandbox("Burstable", "runc") as pod:
        yield pod


def configuration(node: Machine, seconds: int) -> tuple[str, str]:
    node.write("/tmp/boost.yaml", CONFIG % seconds)
    return "--config", "/tmp/boost.yaml"


def quotas(node: Machine, container: Container) -> tuple[int, int]:
    """Return the quotas of the pod and of the container."""
    own = Cgroup.of(node, container)
    return own.pod.quota_us(), own.quota_us()


def in_the_end(
    node: Machine, container: Container, wanted: tuple[int, int], patience_s: float
) -> tuple[int, int]:
    """Return the quotas as soon as they are as wanted, or as they stay."""
    return keep_looking(
        lambda: quotas(node, container), lambda held: held == wanted, patience_s
    )


def reaches(node: Machine, container: Container, wanted: tuple[int, int]) -> None:
    """Wait until the pod and the container have these quotas."""
    assert in_the_end(node, container, wanted, PATIENCE_S) == wanted


def start(node: Machine, kubelet: Kubelet, pod: Pod, name: str) -> Container:
    """Start a container in a pod with a quota, as kubelet gives it one."""
    if not pod.containers:
        first = kubelet.start(pod, "first", {})
        Cgroup.of(node, first).pod.set_quota(POD_OWN)
    return kubelet.start(pod, name, GIVEN)


def test_a_boost_ends_after_its_time(node: Machine, kubelet: Kubelet, pod: Pod) -> None:
    """The pod and the container have it at the start, and the runtime knows nothing."""
    own, boosted = (POD_OWN, OWN), (POD_BOOSTED, BOOSTED)
    for seconds in TRIES_S:
        with running(node, *configuration(node, seconds)):
            app = start(node, kubelet, pod, f"app-{seconds}")
            seen = in_the_end(node, app, boosted, seconds)
            spec = kubelet.inspect(app)["info"]["runtimeSpec"]
            assert in_the_end(node, app, own, seconds + PATIENCE_S) == own
        resources = spec["linux"]["resources"]
        assert resources["cpu"]["quota"] == GIVEN["cpu_quota"]
        unified = resources.get("unified", {})
        assert unified.get("cpu.max", f"{OWN} 100000") == f"{OWN} 100000"
        if seen == boosted:
            return
    pytest.fail(f"no boost was seen, not even one of {TRIES_S[-1]} s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_boost_ends_with_the_process(
    node: Machine, kubelet: Kubelet, pod: Pod, number: int
) -> None:
    """SIGTERM puts the values back; after a crash the next process does so."""
    options = configuration(node, LONG_S)
    with running(node, *options) as plugin:
        app = start(node, kubelet, pod, f"app-{number}")
        reaches(node, app, (POD_BOOSTED, BOOSTED))
        plugin.end(number)
        if number == signal.SIGKILL:
            assert quotas(node, app) == (POD_BOOSTED, BOOSTED)
            again = Plugin(node, *options)
            reaches(node, app, (POD_OWN, OWN))
            again.end()
        assert quotas(node, app) == (POD_OWN, OWN)


def test_a_resize_wins(node: Machine, kubelet: Kubelet, pod: Pod) -> None:
    """The container has just its new quota, and the pod what kubelet gave it."""
    with running(node, *configuration(node, LONG_S)):
        app = start(node, kubelet, pod, "resized")
        reaches(node, app, (POD_BOOSTED, BOOSTED))
        update = kubelet.update(app, cpu_quota=30_000, cpu_period=100_000)
        assert update.code == 0, update.stderr
        reaches(node, app, (POD_OWN, 30_000))

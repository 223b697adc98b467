"""startupBoost on real runtimes: more quota from the start, and back in time."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from e2e.test_e2e_policies import Cgroup
from support.bed import on_nodes
from support.plugins import Plugin, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet, Pod

pytestmark = [
    on_nodes("containerd-2.4", "systemd", "v1"),
    pytest.mark.timeout(900),
]

PATIENCE_S = 120
CONFIG = "startupBoost: {enabled: true, percent: 300, seconds: %s}"
GIVEN = {"cpu_shares": 512, "cpu_quota": 40_000, "cpu_period": 100_000}
# In microseconds per period.
OWN, BOOSTED, POD_BOOSTED = 40_000, 120_000, 130_000
POD_OWN = 50_000
SHORT_S, LONG_S = 20, 3000


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


def reaches(node: Machine, container: Container, wanted: tuple[int, int]) -> None:
    """Wait until the pod and the container have these quotas."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := quotas(node, container)) != wanted:
        assert time.monotonic() < deadline, (found, wanted)
        time.sleep(0.5)


def start(node: Machine, kubelet: Kubelet, pod: Pod, name: str) -> Container:
    """Start a container in a pod with a quota, as kubelet gives it one."""
    if not pod.containers:
        first = kubelet.start(pod, "first", {})
        Cgroup.of(node, first).pod.set_quota(POD_OWN)
    return kubelet.start(pod, name, GIVEN)


def test_a_boost_ends_after_its_time(node: Machine, kubelet: Kubelet, pod: Pod) -> None:
    """The pod and the container have it at the start, and the runtime knows nothing."""
    with running(node, *configuration(node, SHORT_S)):
        app = start(node, kubelet, pod, "app")
        reaches(node, app, (POD_BOOSTED, BOOSTED))
        resources = kubelet.inspect(app)["info"]["runtimeSpec"]["linux"]["resources"]
        assert resources["cpu"]["quota"] == GIVEN["cpu_quota"]
        unified = resources.get("unified", {})
        assert unified.get("cpu.max", f"{OWN} 100000") == f"{OWN} 100000"
        reaches(node, app, (POD_OWN, OWN))


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

"""On cgroup v1 nothing is decided, and policies still know the containers."""

from __future__ import annotations

import pytest
from cgroup.kernels import Kernel
from doors.nri.messages import asking, container_at, pod_at
from doors.nri.nodes import FACTS, Node, configure
from support.trees import CONTAINER, POD

from nriplugin.cgroup.types.registry import Type

ON = """
quotaBurst: {enabled: true, percent: 150, periodSeconds: null, nodeCpuPercent: null}
"""
BOOST = "startupBoost: {enabled: true, percent: 300, seconds: 60}"
V1 = FACTS._replace(cgroup_version=1)


class V1Node(Node):
    """A node whose container is throttled whenever the policies look."""

    def __init__(self, config: str = ON) -> None:
        super().__init__(config, V1, Kernel(1))
        self.policies = self.plugin.lifecycle.policies
        self.policies.sampler.clock = lambda: self.now
        for cgroup in (POD, CONTAINER):
            self.set_quota(cgroup, 100_000)

    def set_quota(self, cgroup: str, quota_us: int) -> None:
        self.kernel.tree.set(Type.CPU_QUOTA, cgroup, quota_us)

    def quotas(self) -> tuple[int, int]:
        tree = self.kernel.tree
        return tree.get(Type.CPU_QUOTA, POD), tree.get(Type.CPU_QUOTA, CONTAINER)

    def look(self) -> None:
        tree, files = self.kernel.tree, self.kernel.files
        self.now += 10
        stat = tree.get(Type.CPU_STAT, CONTAINER)
        stat["nr_periods"] += 100
        stat["nr_throttled"] += 100
        path = tree.path(Type.CPU_STAT, CONTAINER)
        files[path] = "\n".join(f"{name} {value}" for name, value in stat.items())
        usage = tree.path(Type.CPU_USAGE, CONTAINER)
        files[usage] = str(int(files[usage]) + 10_000_000_000)
        self.policies.look()


def test_a_new_container_is_followed() -> None:
    """It gets an empty answer, and more quota once it is throttled."""
    node = V1Node()
    node.synchronize([])
    assert node.create() is None
    node.start()
    node.look()
    node.look()
    assert node.quotas() == (120_000, 120_000)
    node.remove()
    node.kernel.remove(CONTAINER)
    node.policies.look()
    assert node.kernel.tree.get(Type.CPU_QUOTA, POD) == 100_000


def test_an_existing_container_is_followed() -> None:
    """By the list of Synchronize, which is answered with nothing."""
    node = V1Node()
    assert not node.synchronize([container_at()])
    node.background.work()
    node.look()
    assert node.quotas() == (120_000, 120_000)


def test_a_resize_gets_its_way() -> None:
    """The new number counts, although nothing is decided about it.

    The kernel of this test refuses a quota of a pod below that of a container in it.
    """
    node = V1Node()
    node.synchronize([container_at()])
    node.look()
    node.look()
    assert node.update(asking(quota_us=50_000)) is None
    node.background.work()
    assert node.quotas() == (120_000, 120_000)  # the runtime is changing it
    node.set_quota(CONTAINER, 50_000)
    node.post_update()
    node.set_quota(POD, 50_000)
    node.look()
    node.look()
    assert node.quotas() == (60_000, 60_000)


def test_a_resize_has_the_rest_of_the_pod_go_back() -> None:
    """Before kubelet lowers the pod, which the kernel would refuse otherwise."""
    side = f"{POD}/{'fedcba9876543210' * 4}"
    node = V1Node(BOOST)
    node.synchronize([])
    node.kernel.add(side)
    other = container_at(side, 2)
    node.set_quota(POD, 200_000)
    node.set_quota(side, 100_000)
    for one in (container_at(), other):
        node.create(one)
        node.start(one)
    node.background.work()
    assert node.quotas() == (600_000, 300_000)
    node.update(asking(quota_us=50_000))
    node.background.work()
    assert node.kernel.tree.get(Type.CPU_QUOTA, side) == 100_000
    node.set_quota(CONTAINER, 50_000)
    node.post_update()
    node.set_quota(POD, 150_000)
    node.look()
    assert node.quotas() == (350_000, 50_000)
    assert node.kernel.tree.get(Type.CPU_QUOTA, side) == 300_000  # it was not resized


RULES = """
rules:
- match: {%s}
  quotaBurst: {enabled: true, percent: 120, periodSeconds: null, nodeCpuPercent: null}
"""


@pytest.mark.parametrize(
    ("match", "quota_us"),
    [
        ("namespace: [shop]", 120_000),
        ("labels: {tier: web}", 120_000),
        ("labels: {tier: db}", 100_000),
        ("annotations: {team/app: web}", 120_000),
        ("annotations: {team/app: db}", 100_000),
        ("container: [app]", 120_000),
        ("container: [side]", 100_000),
    ],
)
@pytest.mark.parametrize("listed", [True, False])
def test_a_rule_switches_a_policy_on(
    match: str, quota_us: int, *, listed: bool
) -> None:
    """For a container that the runtime lists, and for one that is made."""
    node = V1Node(RULES % match)
    pod = pod_at(annotations={"team/app": "web"}, labels={"tier": "web"})
    if listed:
        node.synchronize([container_at()], [pod])
        node.background.work()
    else:
        node.synchronize([], [pod_at(id="p2")])
        node.create(pod=pod)
        node.start()
    node.look()
    node.look()
    assert node.quotas() == (quota_us, quota_us)


def test_a_rule_that_is_gone_takes_the_values_back() -> None:
    """At the reload, for the containers that it matched."""
    node = V1Node(RULES % "labels: {tier: web}")
    pod = pod_at(labels={"tier": "web"})
    node.synchronize([container_at()], [pod])
    node.look()
    node.look()
    assert node.quotas() == (120_000, 120_000)
    configure(node.plugin, RULES % "labels: {tier: db}")
    node.background.work()
    assert node.quotas() == (100_000, 100_000)


def test_without_a_policy_no_new_container_is_kept() -> None:
    """And no journal is opened."""
    node = V1Node("{}")
    node.synchronize([])
    node.create()
    assert len(node.plugin.lifecycle.inventory) == 0
    assert node.opened == 0

"""In-place resizes by a real kubelet, with every handler.

Pods go through all steps without the plugin, and pods with all handlers with it. After
each step kubelet has settled, and the kernel has what `explain` says of the pod as the
API server shows it. At the end kubelet's record of what it allocated and the runtime's
record agree with that, too. kubelet must have called the runtime as often as without
the plugin: it must not try again what it believes to be undone.
"""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from nodes.payload import NEXT_VERSION
from support.bed import FreshNode, on_nodes
from support.cluster import Levels, container_ids, is_settled, keep_looking, wait_for
from support.explained import differing, explain
from support.plugins import running
from support.workloads import container, cpu_memory, pod, resources, spec

if TYPE_CHECKING:
    from pathlib import Path

    from nodes.machine import Machine
    from support.cluster import Cluster

pytestmark = pytest.mark.timeout(3600)
KUBERNETES = FreshNode("kubernetes")
each_node = on_nodes(
    KUBERNETES, long=(FreshNode("kubernetes-systemd"), FreshNode("kubernetes-crio"))
)

CONFIG_FILE = "/etc/nriplugin-resize.yaml"
CONFIG = """
memoryQoS: {enabled: true}
cpuBurst: {enabled: true}
cpuQoS: {enabled: true}
memoryQoSLevel: {enabled: true}
unifiedAnnotations: {enabled: true, allowed: [pids.max]}
"""
# Longer than the test takes, so that only the resize ends it.
BOOST_FILE = "/etc/nriplugin-boost.yaml"
BOOST = "startupBoost: {enabled: true, percent: 300, seconds: 3000}"
OFF = {"memory-qos.cgroup2.nri.io": "off"}
IDLE = "idle"
# A pod without handlers, one with those that go together, and one that is idle.
ANNOTATIONS: dict[str, dict[str, str]] = {
    "plain": OFF,
    # Its memory request is in kubelet's checkpoint, and so is that after each step.
    "handled": {
        "cpu-burst.cgroup2.nri.io": "50%",
        "pids.max.cgroup2.nri.io": "77",
    },
    IDLE: {**OFF, "qos-level.cgroup2.nri.io": "BE"},
}
# A pod whose resources are those of the whole pod; its container has none of its own.
TOGETHER = "together"
NAMES = (*ANNOTATIONS, TOGETHER)
# Pods like these go through all steps without the plugin, under names of their own.
CONTROL = ("plain", TOGETHER)
CONTROL_PREFIX = "control-"
# What the runtime alone makes of the numbers. No handler here changes it, but an idle
# container has no weight.
CONVERTED = ("cpu.weight", "cpu.max", "memory.max")

# kubelet's calls of UpdateContainerResources.
CALLS = re.compile(
    r'^kubelet_runtime_operations_total\{operation_type="update_container"\} (\d+)',
    re.M,
)
# How often kubelet has gone through a pod, to do what is to be done.
LOOKS = re.compile(
    r'^kubelet_pod_worker_duration_seconds_count\{operation_type="(?:sync|update)"\} '
    r"(\d+)",
    re.M,
)
# How often kubelet is to look at all pods when everything is done.
LOOKS_AT_THE_END = 3
# How often kubelet calls the runtime in all steps: once for each of CPU and memory that
# changes, but not for the request of a whole pod alone.
CALLS_OF_CONTAINER, CALLS_OF_POD = 9, 8
ALLOCATED = "/var/lib/kubelet/allocated_pods_state"


class Step(NamedTuple):
    """Requests and limits after a resize."""

    name: str
    requests: dict[str, str]
    limits: dict[str, str]

    @property
    def resources(self) -> dict[str, dict[str, str]]:
        """Return them as a manifest has them."""
        return resources(self.requests, self.limits)


BEGINNING = Step("begin", cpu_memory("50m", "64Mi"), cpu_memory("1", "128Mi"))
STEPS = [
    Step("cpu up", cpu_memory("100m", "64Mi"), cpu_memory("1500m", "128Mi")),
    Step("memory up", cpu_memory("100m", "96Mi"), cpu_memory("1500m", "192Mi")),
    Step("requests only", cpu_memory("80m", "80Mi"), cpu_memory("1500m", "192Mi")),
    Step("cpu down", cpu_memory("25m", "80Mi"), cpu_memory("500m", "192Mi")),
    Step("memory down", cpu_memory("25m", "64Mi"), cpu_memory("500m", "128Mi")),
    Step("both up", cpu_memory("100m", "96Mi"), cpu_memory("1500m", "192Mi")),
    Step("both down", *BEGINNING[1:]),
]
AWAY = Step("away", cpu_memory("60m", "80Mi"), cpu_memory("1200m", "160Mi"))


class Numbers(NamedTuple):
    """What the runtime is told of a step, worked out by hand."""

    shares: int
    quota: int
    memory: int


NUMBERS = {
    "cpu up": Numbers(102, 150_000, 128 << 20),
    "memory up": Numbers(102, 150_000, 192 << 20),
    "both down": Numbers(51, 100_000, 128 << 20),
    "away": Numbers(61, 120_000, 160 << 20),
}


def pod_named(node: str, name: str, prefix: str) -> dict[str, Any]:
    """Return a pod as it begins."""
    given = BEGINNING.resources
    if name == TOGETHER:
        wanted = spec(node, container("app"), resources=given)
    else:
        wanted = spec(node, container("app", given))
    return pod(prefix + name, wanted, ANNOTATIONS.get(name, OFF))


def patch_of(name: str, step: Step) -> dict[str, Any]:
    if name == TOGETHER:
        return {"resources": step.resources}
    return {"containers": [{"name": "app", "resources": step.resources}]}


class Seen(NamedTuple):
    """The cgroups after each step, and how often kubelet called the runtime.

    `later` counts what it has called since, with every look at the pods.
    """

    levels: dict[str, dict[str, Levels]]
    calls: int
    later: int


class Resizes:
    """The pods of one namespace, and what the kernel must hold of them."""

    def __init__(self, cluster: Cluster, config: Path) -> None:
        self.cluster = cluster
        self._config = config
        self._names: tuple[str, ...] = ()
        self._prefix = ""

    def begin(self, names: tuple[str, ...], prefix: str = "") -> None:
        """Make these pods. Those of before stay, and are not looked at any more."""
        self.cluster.apply(
            *(pod_named(self.cluster.node, name, prefix) for name in names)
        )
        self.cluster.running(*(prefix + name for name in names))
        self._names, self._prefix = names, prefix

    def ask_for(self, step: Step) -> None:
        """Ask for a resize of every pod."""
        for name in self._names:
            self.cluster.patch_resize(self._prefix + name, patch_of(name, step))

    def take(self, step: Step) -> None:
        """Resize every pod, and wait until kubelet has settled."""
        self.ask_for(step)
        self.settled()

    def pods(self) -> dict[str, Any]:
        """Return the pods as the API server shows them."""
        found = self.cluster.pods()
        return {name: found[self._prefix + name] for name in self._names}

    def settled(self, *but: str) -> dict[str, Any]:
        """Wait until kubelet reports pods as their specifications ask for."""
        pods: dict[str, Any] = wait_for(
            self.pods,
            lambda pods: all(
                is_settled(each) for name, each in pods.items() if name not in but
            ),
        )
        return pods

    def levels(self) -> dict[str, Levels]:
        """Return the cgroups of all pods."""
        pods = self.settled()
        found = self.cluster.all_levels(list(pods.values()))
        return dict(zip(pods, found, strict=True))

    def expected(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return the files of each pod's container, as `explain` has them."""
        pods = self.settled()
        found = explain(self.cluster.machine, list(pods.values()), self._config)
        expected = dict(zip(pods, found, strict=True))
        # A resize takes the weight away from a container without a request of its own
        # (docs/kubernetes.md), with the plugin and without it.
        expected[TOGETHER]["app"].pop("cpu.weight")
        return expected

    def calls(self) -> int:
        """Return how often kubelet has asked the runtime to update a container."""
        found = CALLS.search(self.cluster.machine.kubelet("metrics"))
        return int(found[1]) if found else 0

    def looks(self) -> int:
        """Return how often kubelet has looked at any pod."""
        found = LOOKS.findall(self.cluster.machine.kubelet("metrics"))
        return sum(map(int, found))

    def have_kubelet_look(self) -> None:
        """Have kubelet look at all pods, because an annotation has changed.

        Those of before are among them.
        """
        before = self.looks()
        told = self.cluster.kubectl(
            *("annotate", "pods", "--all", "--overwrite", f"look={before}")
        )
        pods = len(told.splitlines())
        assert pods >= len(self._names)
        wait_for(self.looks, lambda now: now >= before + pods)

    def allocated(self) -> dict[str, Any]:
        """Return the resources that kubelet has on record as allocated, by pod."""
        text = self.cluster.machine.read([ALLOCATED])[ALLOCATED] or ""
        entries = json.loads(json.loads(text)["data"])["entries"]
        return {
            name: entries[each["metadata"]["uid"]] for name, each in self.pods().items()
        }

    def of_runtime(self) -> dict[str, Any]:
        """Return the resources in the runtime's own specification, by pod."""
        return {
            name: json.loads(
                self.cluster.machine.check(
                    "crictl", "inspect", container_ids(each)["app"]
                )
            )["info"]["runtimeSpec"]["linux"]["resources"]
            for name, each in self.pods().items()
        }


@pytest.fixture(scope="module")
def resizes(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Resizes:
    """The pods, which are made by the first test that wants them."""
    config = tmp_path_factory.mktemp("resize") / "nriplugin.yaml"
    config.write_text(CONFIG)
    cluster.machine.write(CONFIG_FILE, CONFIG)
    return Resizes(cluster, config)


@pytest.fixture(scope="module")
def seen(node: Machine, resizes: Resizes) -> dict[bool, Seen]:
    """All steps, without the plugin (False) and with it (True)."""
    resizes.begin(CONTROL, CONTROL_PREFIX)
    without = through_all(resizes, check=False)
    with running(node, "--config", CONFIG_FILE):
        resizes.begin(NAMES)
        return {False: without, True: through_all(resizes, check=True)}


def through_all(resizes: Resizes, *, check: bool) -> Seen:
    calls, levels = resizes.calls(), {}
    for step in STEPS:
        resizes.take(step)
        levels[step.name] = as_expected(resizes) if check else resizes.levels()
    # What kubelet does once more, it does now.
    resizes.have_kubelet_look()
    done = resizes.calls()
    for _ in range(LOOKS_AT_THE_END):
        resizes.have_kubelet_look()
    later = resizes.calls() - done
    assert all(map(is_settled, resizes.pods().values()))
    return Seen(levels, done - calls, later)


def as_expected(resizes: Resizes) -> dict[str, Levels]:
    """Wait until the kernel has what `explain` says; return the cgroups.

    Some files are written by the plugin itself, after the runtime has answered.
    """
    expected = resizes.expected()

    levels = keep_looking(
        resizes.levels, lambda levels: not differing(levels, expected)
    )
    assert not differing(levels, expected)
    return levels


@each_node
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_containers_have_what_they_have_without_the_plugin(
    seen: dict[bool, Seen], step: Step
) -> None:
    """Every file of a container without handlers; what others have is explained.

    Weight, quota and memory limit of every container with a handler are the same, too.
    """
    without, with_plugin = (seen[which].levels[step.name] for which in (False, True))
    for name in CONTROL:
        assert with_plugin[name].containers == without[name].containers
    for name in ANNOTATIONS:
        for file in CONVERTED[name == IDLE :]:
            held = with_plugin[name].containers["app"][file]
            assert held == without["plain"].containers["app"][file], (name, file)


@each_node
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_kubelets_own_cgroups_are_left_to_it(
    seen: dict[bool, Seen], step: Step
) -> None:
    """A pod's cgroup is as without the plugin, but for its burst."""
    without, with_plugin = (seen[which].levels[step.name] for which in (False, True))
    assert with_plugin[TOGETHER].pod == without[TOGETHER].pod
    expected = without["plain"].pod
    for name in ANNOTATIONS:
        held = with_plugin[name].pod
        if name == "handled":
            held = {**held, "cpu.max.burst": expected["cpu.max.burst"]}
        assert held == expected, name


@each_node
def test_the_pod_bursts_with_its_container(seen: dict[bool, Seen]) -> None:
    """Half of the quota, which the last step has made 100 ms."""
    assert seen[True].levels["both down"]["handled"].pod["cpu.max.burst"] == "50000"


@each_node
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_the_protection_is_the_request_exactly(
    seen: dict[bool, Seen], step: Step
) -> None:
    """Also after a resize of the request alone, about which the runtime hears nothing.

    The requests are in whole mebibytes.
    """
    held = seen[True].levels[step.name]["handled"].containers["app"]
    mebibytes = int(step.requests["memory"].removesuffix("Mi"))
    assert held["memory.low"] == str(mebibytes << 20)


@each_node
def test_128_mebibytes_are_134217728(
    node: Machine, seen: dict[bool, Seen], cluster: Cluster
) -> None:
    """The estimate of so small a request would be another number on every node."""
    given = resources(cpu_memory("10m", "128Mi"), cpu_memory("1", "256Mi"))
    with running(node, "--config", CONFIG_FILE):
        cluster.apply(pod("exact", spec(cluster.node, container("app", given))))
        (made,) = cluster.running("exact").values()

        def becomes(wanted: str) -> None:
            held = keep_looking(
                lambda: cluster.levels(made).containers["app"]["memory.low"],
                lambda low: low == wanted,
            )
            assert held == wanted

        becomes("134217728")
        less = resources(cpu_memory("10m", "96Mi"), cpu_memory("1", "256Mi"))
        cluster.resize("exact", {"containers": [{"name": "app", "resources": less}]})
        becomes(str(96 << 20))


@each_node
def test_a_resize_ends_a_boost(
    node: Machine, seen: dict[bool, Seen], resizes: Resizes, cluster: Cluster
) -> None:
    """kubelet resizes a container and a pod whose quotas the plugin has raised.

    Both then have what kubelet asks for: the plugin puts back no value of before. Until
    then kubelet sees no resize: it reports the limit that was asked for.
    """
    node.write(BOOST_FILE, BOOST)

    def becomes(quota: str) -> None:
        def look() -> tuple[str, str]:
            levels = cluster.levels(made)
            return levels.pod["cpu.max"], levels.containers["app"]["cpu.max"]

        wanted = quota, quota
        assert keep_looking(look, lambda held: held == wanted) == wanted

    given = resources(cpu_memory("10m", "64Mi"), cpu_memory("1", "128Mi"))
    with running(node, "--config", BOOST_FILE):
        cluster.apply(pod("boosted", spec(cluster.node, container("app", given))))
        (made,) = cluster.running("boosted").values()
        becomes("300000 100000")
        calls = resizes.calls()
        resizes.have_kubelet_look()
        shown = cluster.settled("boosted")
        (reported,) = shown["status"]["containerStatuses"]
        assert (reported["resources"], resizes.calls()) == (given, calls)
        becomes("300000 100000")
        more = resources(cpu_memory("10m", "64Mi"), cpu_memory("1500m", "128Mi"))
        cluster.resize("boosted", {"containers": [{"name": "app", "resources": more}]})
        becomes("150000 100000")
    # The end of the plugin puts nothing back either.
    becomes("150000 100000")


@each_node
def test_kubelet_does_not_try_again(seen: dict[bool, Seen]) -> None:
    """It calls the runtime as often as without the plugin.

    kubelet may call once more if it looks at a container before the runtime has
    answered. A kubelet that is never content calls with every look at a pod.
    """
    assert (seen[False].later, seen[True].later) == (0, 0)
    without = CALLS_OF_CONTAINER + CALLS_OF_POD
    assert without <= seen[False].calls <= without + len(CONTROL)
    with_plugin = CALLS_OF_CONTAINER * len(ANNOTATIONS) + CALLS_OF_POD
    assert with_plugin <= seen[True].calls <= with_plugin + len(NAMES)


def of_pods(levels: dict[str, Levels]) -> dict[str, Any]:
    """Return the files of pods and containers, without those of the cgroups above them.

    kubelet renews the weights of QoS classes from time to time, whatever the test does.
    """
    return {name: (held.pod, held.containers) for name, held in levels.items()}


def agree(resizes: Resizes, step: Step) -> None:
    """Check that kubelet's checkpoint and the runtime's specification have a step."""
    for name, entry in resizes.allocated().items():
        if name == TOGETHER:
            assert entry["PodLevelResources"] == step.resources
        else:
            assert entry["ContainerResources"]["app"] == step.resources, name
    numbers = NUMBERS[step.name]
    for name, given in resizes.of_runtime().items():
        assert given["cpu"]["quota"] == numbers.quota, name
        assert given["memory"]["limit"] == numbers.memory, name
        if name != TOGETHER:
            assert given["cpu"]["shares"] == numbers.shares, name


@each_node
def test_all_records_agree_at_the_end(seen: dict[bool, Seen], resizes: Resizes) -> None:
    """kubelet's allocation, the runtime's numbers, and what the last step asked for."""
    agree(resizes, STEPS[-1])


@each_node
def test_the_plugin_is_killed_and_started_between_resizes(
    node: Machine, seen: dict[bool, Seen], resizes: Resizes
) -> None:
    """A plugin that has not made the containers treats their resizes all the same."""
    for step, number in zip(STEPS[:2], (signal.SIGKILL, signal.SIGTERM), strict=True):
        with running(node, "--config", CONFIG_FILE) as plugin:
            resizes.take(step)
            as_expected(resizes)
            agree(resizes, step)
            plugin.end(number)


@each_node
def test_a_resize_while_the_plugin_is_away(
    node: Machine, seen: dict[bool, Seen], resizes: Resizes
) -> None:
    """kubelet settles; and once the plugin is back, the kernel has the new values.

    The kernel refuses the weight of an idle container. kubelet tries again, and is
    through with that when the plugin is back.
    """
    resizes.ask_for(AWAY)
    resizes.settled(IDLE)
    with running(node, "--config", CONFIG_FILE):
        as_expected(resizes)
        agree(resizes, AWAY)
        resizes.take(STEPS[-1])
        as_expected(resizes)


@each_node
def test_kubelet_is_restarted_between_resizes(
    node: Machine, seen: dict[bool, Seen], resizes: Resizes
) -> None:
    """A new kubelet finds nothing to do, and its resizes arrive."""
    with running(node, "--config", CONFIG_FILE):
        before = of_pods(as_expected(resizes))
        node.check("/node/bin/kubernetes", "restart")
        resizes.take(STEPS[0])
        as_expected(resizes)
        resizes.take(STEPS[-1])
        assert of_pods(as_expected(resizes)) == before
        agree(resizes, STEPS[-1])


# pip takes long under emulation, hence one node.
@on_nodes(KUBERNETES)
def test_the_plugin_is_upgraded_between_resizes(
    node: Machine, seen: dict[bool, Seen], resizes: Resizes
) -> None:
    """The next version knows the values of the one before as its own."""
    with running(node, "--config", CONFIG_FILE):
        resizes.take(STEPS[0])
        as_expected(resizes)
    node.check(
        *("/opt/nriplugin/bin/pip", "-q", "install", "--no-index", "--no-deps"),
        *("--find-links", "/node/wheels", f"nriplugin=={NEXT_VERSION}"),
    )
    with running(node, "--config", CONFIG_FILE):
        assert f"nriplugin {NEXT_VERSION}" in node.check("nriplugin", "version")
        as_expected(resizes)
        resizes.take(STEPS[-1])
        as_expected(resizes)
        agree(resizes, STEPS[-1])

"""kubelet's feature MemoryQoS beside the plugin, with and without our memoryQoS.

docs/kubernetes.md has the table of who wins; these tests are where it comes from.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.bed import FreshNode, on_nodes
from support.cluster import keep_looking
from support.explained import explain
from support.plugins import running
from support.workloads import (
    container,
    cpu_memory,
    pod,
    resources,
    runtime_class,
    spec,
)

if TYPE_CHECKING:
    from pathlib import Path

    from nodes.machine import Machine
    from support.cluster import Cluster, Levels

pytestmark = [
    on_nodes(long=(FreshNode("kubernetes"),)),
    pytest.mark.timeout(3600),
]

DROP_IN = "/etc/kubernetes/kubelet.conf.d/50-memory-qos.conf"
CONFIG_FILE = "/etc/nriplugin-memory-qos.yaml"
KIND = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
# Which OCI runtime writes the files does not matter here, and crun is the faster one.
HANDLER = "crun"
MIB = 1 << 20


class Feature(StrEnum):
    """kubelet's feature: on with either policy, or off."""

    NONE = "memoryReservationPolicy: None\nmemoryThrottlingFactor: 0.9"
    TIERED = "memoryReservationPolicy: TieredReservation"
    OFF = "featureGates: {MemoryQoS: false}"


class Ours(StrEnum):
    """The plugin: not there, there by default, with memoryQoS on."""

    ABSENT = "absent"
    DEFAULT = "{}"
    ON = "memoryQoS: {enabled: true, throttlingFactor: 0.8}"


BURSTABLE = resources(cpu_memory("10m", "64Mi"), cpu_memory("1", "128Mi"))
GUARANTEED = resources(limits=cpu_memory("250m", "64Mi"))
RESIZED = resources(cpu_memory("10m", "96Mi"), cpu_memory("1", "192Mi"))

# What these three files of a container hold if neither kubelet nor nriplugin sets them.
NEUTRAL = {"memory.high": "max", "memory.low": "0", "memory.min": "0"}
# What kubelet sets for the Burstable pod and after its resize: nine tenths of the way
# from the request to the limit in whole pages, and the request.
BY_KUBELET: dict[Feature, list[dict[str, str]]] = {
    Feature.NONE: [{"memory.high": "127504384"}, {"memory.high": "191258624"}],
    Feature.TIERED: [{"memory.low": str(64 * MIB)}, {"memory.low": str(96 * MIB)}],
    Feature.OFF: [{}, {}],
}


class Seen(NamedTuple):
    """The cgroups of the pods after their start, and of one after its resize."""

    burstable: Levels
    resized: Levels
    guaranteed: Levels | None
    explained: list[dict[str, str]]  # the Burstable pod after its start and its resize


def qos_files(levels: Levels) -> dict[str, str]:
    """Return the files of the container that kubelet's feature is about."""
    return {file: levels.containers["app"][file] for file in NEUTRAL}


@pytest.fixture(scope="module")
def seen(
    node: Machine, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[Feature, Ours], Seen]:
    """Every combination."""
    config = tmp_path_factory.mktemp("memory-qos") / "nriplugin.yaml"
    config.write_text(Ours.ON)
    cluster.apply(runtime_class(HANDLER, HANDLER))
    found: dict[tuple[Feature, Ours], Seen] = {}
    for feature in Feature:
        node.write(DROP_IN, f"{KIND}{feature}\n")
        node.check("/node/bin/kubernetes", "restart")
        for ours in Ours:
            key = feature, ours
            if ours is Ours.ABSENT:
                found[key] = run_pods(cluster, *key, config)
                continue
            node.write(CONFIG_FILE, ours)
            with running(node, "--config", CONFIG_FILE):
                found[key] = run_pods(cluster, *key, config)
    return found


def run_pods(cluster: Cluster, feature: Feature, ours: Ours, config: Path) -> Seen:
    """Start the pods of a combination. The CPU suffices for some Guaranteed ones."""
    prefix = f"{feature.name}-{ours.name}".lower()
    given = {f"{prefix}-burstable": BURSTABLE}
    if feature is Feature.TIERED:
        given[f"{prefix}-guaranteed"] = GUARANTEED
    cluster.apply(
        *(
            pod(
                name,
                spec(cluster.node, container("app", each), runtimeClassName=HANDLER),
            )
            for name, each in given.items()
        )
    )
    pods = cluster.running(*given)
    burstable = f"{prefix}-burstable"
    explained: list[dict[str, str]] = []

    def as_wanted(*of: Any) -> list[Levels]:
        """Return the cgroups of pods when those of the first one are as they should be.

        A plugin that reads the new request a moment late writes the files itself.
        """
        explained.append(explain(cluster.machine, of[:1], config)[0]["app"])
        by_kubelet = BY_KUBELET[feature][len(explained) - 1]
        wanted = NEUTRAL | by_kubelet
        if ours is Ours.ON:
            wanted = wanted_of(explained[-1], by_kubelet)
        return keep_looking(
            lambda: cluster.all_levels(of), lambda found: qos_files(found[0]) == wanted
        )

    created = as_wanted(*pods.values())
    patch = {"containers": [{"name": "app", "resources": RESIZED}]}
    (resized,) = as_wanted(cluster.resize(burstable, patch))
    guaranteed = created[1] if len(created) > 1 else None
    return Seen(created[0], resized, guaranteed, explained)


def wanted_of(explained: dict[str, str], by_kubelet: dict[str, str]) -> dict[str, str]:
    """Return what the files hold if what kubelet sets wins, and the rest is ours."""
    ours = {file: explained.get(file, NEUTRAL[file]) for file in NEUTRAL}
    return ours | by_kubelet


@pytest.mark.parametrize("feature", Feature, ids=lambda each: each.name)
def test_kubelet_sets_what_it_should(
    seen: dict[tuple[Feature, Ours], Seen], feature: Feature
) -> None:
    """The comparisons below are worth something."""
    alone = seen[feature, Ours.ABSENT]
    created, resized = BY_KUBELET[feature]
    assert qos_files(alone.burstable) == NEUTRAL | created
    assert qos_files(alone.resized) == NEUTRAL | resized
    if alone.guaranteed:
        protected = NEUTRAL | {"memory.min": str(64 * MIB)}
        assert qos_files(alone.guaranteed) == protected


@pytest.mark.parametrize("feature", Feature, ids=lambda each: each.name)
def test_by_default_the_plugin_changes_nothing(
    seen: dict[tuple[Feature, Ours], Seen], feature: Feature
) -> None:
    """Every file of the containers and their pods, after a resize, too."""
    alone, beside = seen[feature, Ours.ABSENT], seen[feature, Ours.DEFAULT]
    for without, with_plugin in zip(alone[:3], beside[:3], strict=True):
        if without and with_plugin:
            assert with_plugin.containers == without.containers
            assert with_plugin.pod == without.pod


@pytest.mark.parametrize("feature", Feature, ids=lambda each: each.name)
def test_what_kubelet_sets_wins_and_the_rest_is_ours(
    seen: dict[tuple[Feature, Ours], Seen], feature: Feature
) -> None:
    """No file is lost: each has kubelet's value or that of our memoryQoS."""
    both = seen[feature, Ours.ON]
    by_kubelet, after_resize = BY_KUBELET[feature]
    created, resized = both.explained
    assert created["memory.high"] != "max"
    assert (created["memory.low"], resized["memory.low"]) == (
        str(64 * MIB),
        str(96 * MIB),
    )
    assert qos_files(both.burstable) == wanted_of(created, by_kubelet)
    # kubelet has the new request in its checkpoint before it asks for the new limit.
    assert qos_files(both.resized) == wanted_of(resized, after_resize)


def test_a_guaranteed_pod_is_protected_by_kubelet_alone(
    seen: dict[tuple[Feature, Ours], Seen],
) -> None:
    """Our memoryQoS changes nothing: a Guaranteed pod has no memory.high."""
    alone = seen[Feature.TIERED, Ours.ABSENT].guaranteed
    beside = seen[Feature.TIERED, Ours.ON].guaranteed
    assert alone
    assert beside
    assert beside.containers == alone.containers


@pytest.mark.parametrize("feature", Feature, ids=lambda each: each.name)
def test_the_pods_cgroup_is_kubelets(
    seen: dict[tuple[Feature, Ours], Seen], feature: Feature
) -> None:
    """Our memoryQoS sets files of containers alone."""
    alone, beside = seen[feature, Ours.ABSENT], seen[feature, Ours.ON]
    assert beside.burstable.pod == alone.burstable.pod
    assert beside.resized.pod == alone.resized.pod

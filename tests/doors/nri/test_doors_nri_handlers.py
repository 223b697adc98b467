"""Every handler with whole NRI messages: requests in, complete answers out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.messages import (
    FILES,
    GIB,
    OURS,
    asking,
    container_at,
    creation,
    existing,
    pod_at,
    seen,
    updating,
)
from doors.nri.messages import unified_of as files_of
from doors.nri.nodes import FACTS, configure, plugin_on
from support.harness import PATIENT, connected, raw_peer

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.doors.nri.plugin import NodePlugin
    from nriplugin.engine.model import NodeFacts

LEVELS = FACTS._replace(files=FACTS.files | {"cpu.qos_level", "memory.qos_level"})
PAGE = 4096

# kubelet's score for two thousandths of the node's memory: an estimate of the request.
SCORE = 998
CAPACITY = FACTS.memory_capacity_bytes or 0
REQUEST = -(-2 * CAPACITY // 1000)
MOST = -(-3 * CAPACITY // 1000) - 1


def high_for(limit: int) -> int:
    """Return memory.high by the formula of the documentation."""
    return (MOST + (limit - MOST) * 9 // 10) // PAGE * PAGE


HIGH = high_for(GIB)

WITHOUT_WEIGHT = {file: FILES[file] for file in ("cpu.max", "memory.max")}
BURST = "cpuBurst: {enabled: true, percent: 50}"
IDLE = "cpuQoS: {enabled: true, level: BE}"
MEMORY = "memoryQoS: {enabled: true, swap: 0, oomGroup: true}"

Case = tuple[str, dict[str, str], "NodeFacts", dict[str, str]]

CASES: dict[str, Case] = {
    "resources": ("", {}, FACTS, FILES),
    "cpuBurst": (BURST, {}, FACTS, {**FILES, "cpu.max.burst": "50000"}),
    "cpuBurst by Volcano": (
        "cpuBurst: {enabled: true}",
        {
            "volcano.sh/enable-quota-burst": "true",
            "volcano.sh/quota-burst-time": "30000",
        },
        FACTS,
        {**FILES, "cpu.max.burst": "30000"},
    ),
    "cpuQoS": (IDLE, {}, FACTS, {**WITHOUT_WEIGHT, "cpu.idle": "1"}),
    "cpuQoS by weight": (
        "cpuQoS: {enabled: true, level: BE, equivalent: weight}",
        {},
        FACTS,
        {**FILES, "cpu.weight": "1"},
    ),
    "cpuQoS by level": (IDLE, {}, LEVELS, {**FILES, "cpu.qos_level": "-1"}),
    "memoryQoS": (
        MEMORY,
        {},
        FACTS,
        {
            **FILES,
            "memory.high": str(HIGH),
            "memory.low": str(REQUEST),
            "memory.swap.max": "0",
            "memory.oom.group": "1",
        },
    ),
    "memoryQoSLevel": (
        "memoryQoSLevel: {enabled: true, level: BE}",
        {},
        FACTS,
        {**FILES, "memory.high": str(GIB * 8 // 10 // PAGE * PAGE)},
    ),
    "memoryQoSLevel by level": (
        "memoryQoSLevel: {enabled: true, level: LS}",
        {},
        LEVELS,
        {**FILES, "memory.qos_level": "0"},
    ),
    "unifiedAnnotations": (
        "unifiedAnnotations: {enabled: true, allowed: [pids.max]}",
        {f"pids.max{OURS}/container.app": "7"},
        FACTS,
        {**FILES, "pids.max": "7"},
    ),
    "a rule": (
        f"rules: [{{match: {{namespace: shop, qosClass: Burstable}}, {BURST}}}]",
        {},
        FACTS,
        {**FILES, "cpu.max.burst": "50000"},
    ),
    "a rule for others": (
        f"rules: [{{match: {{namespace: shop, qosClass: Guaranteed}}, {BURST}}}]",
        {},
        FACTS,
        FILES,
    ),
}
CLEARED = {"cpuQoS"}
NO_SHARES = nri.LinuxResources(cpu=nri.LinuxCPU(shares=nri.OptionalUInt64(value=0)))


@pytest.fixture(params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def plugin_of(config: str, facts: NodeFacts = FACTS) -> NodePlugin:
    plugin = plugin_on(facts)
    configure(plugin, config)
    return plugin


def cleared(resources: nri.LinuxResources) -> bool:
    """Whether the answer sends shares of 0, which clears them."""
    if not resources.cpu.HasField("shares"):
        return False
    assert resources.cpu.shares.value == 0
    resources.ClearField("cpu")
    return True


def test_a_creation_is_answered_with_files_and_nothing_else(
    name: str, tmp_path: Path
) -> None:
    """Except for shares of 0 beside cpu.idle."""
    config, annotations, facts, files = CASES[name]
    pod, app = pod_at(annotations=annotations), container_at(oom_score=SCORE)
    with connected(plugin_of(config, facts), tmp_path) as (runtime, _):
        created = runtime.create_container(pod, app)
    resources = created.adjust.linux.resources
    assert dict(resources.unified) == files
    assert created.updates == []
    resources.ClearField("unified")
    assert cleared(resources) is (name in CLEARED)
    assert set(created.adjust.annotations) == {"managed.cgroup2.nri.io"}
    created.adjust.ClearField("annotations")
    only = nri.ContainerAdjustment()
    only.linux.resources.SetInParent()
    assert created.adjust == only


# Files that the update does not change are not sent again: the runtime keeps them.
ONCE = {
    "cpuQoS by level": {"cpu.qos_level"},
    "memoryQoS": {"memory.oom.group", "memory.swap.max"},
    "memoryQoSLevel by level": {"memory.qos_level"},
    "unifiedAnnotations": {"pids.max"},
}


def test_an_update_is_answered_with_nriplugins_files_alone(name: str) -> None:
    """No other plugin could set a field that the answer repeats."""
    config, annotations, facts, files = CASES[name]
    pod, app = pod_at(annotations=annotations), container_at(oom_score=SCORE)
    asked = asking()
    asked.cpu.cpus = "0-3"
    asked.hugepage_limits.add(page_size="2MB", limit=1 << 21)
    request = nri.UpdateContainerRequest(pod=pod, container=app, linux_resources=asked)
    if name in CLEARED:  # as it was made with us
        app.linux.resources.cpu.ClearField("shares")
        app.linux.resources.unified["cpu.idle"] = "1"
        request.container.CopyFrom(app)
    with raw_peer(plugin_of(config, facts)) as peer:
        peer.begin(runtime_name="containerd", runtime_version="v2.3.0")
        answer = peer.ask("UpdateContainer", request, nri.UpdateContainerResponse)
    (update,) = answer.update
    assert update.container_id == app.id
    sent = update.linux.resources
    assert dict(sent.unified) == {
        file: value for file, value in files.items() if file not in ONCE.get(name, ())
    }
    sent.ClearField("unified")
    assert sent == (NO_SHARES if name in CLEARED else nri.LinuxResources())


def test_the_values_that_the_runtime_applies_after_an_update(tmp_path: Path) -> None:
    """New numbers give new files; other fields of the request stay."""
    pod, app = pod_at(), container_at()
    asked = asking(shares=1024, quota_us=40_000, limit_bytes=2 * GIB)
    asked.cpu.cpus = "1"
    with connected(plugin_of(BURST), tmp_path) as (runtime, _):
        created = runtime.create_container(pod, app)
        app.linux.resources.MergeFrom(created.adjust.linux.resources)
        updated = runtime.update_container(pod, app, asked)
    assert updated.resources.cpu.cpus == "1"
    assert dict(updated.resources.unified) == {
        "cpu.weight": "100",
        "cpu.max": "40000 100000",
        "cpu.max.burst": "20000",
        "memory.max": str(2 * GIB),
    }


@pytest.mark.parametrize(
    ("swap", "kept"), [(3 * GIB, str(2 * GIB)), (-1, "max"), (GIB, None), (0, None)]
)
def test_a_new_limit_does_not_take_the_swap_away(swap: int, kept: str | None) -> None:
    """Runtimes drop the swap with a new limit, so the answer repeats it."""
    app = container_at()
    app.linux.resources.memory.swap.value = swap
    request = updating(pod_at(), app, asking(limit_bytes=2 * GIB))
    plugin = plugin_of("", FACTS._replace(files=FACTS.files | {"memory.swap.max"}))
    response = plugin.update_container(request)
    assert response is not None
    (update,) = response.update
    assert update.linux.resources.unified.get("memory.swap.max") == kept


# nriplugin's files follow from the new numbers; files that others set stay.


def updated(
    plugin: NodePlugin, app: nri.Container, asked: nri.LinuxResources
) -> dict[str, str]:
    response = plugin.update_container(updating(pod_at(), app, asked))
    plugin.post_update_container(b"", seen(view.Container, app))
    assert response is not None
    (update,) = response.update
    return dict(update.linux.resources.unified)


def made_by(plugin: NodePlugin, app: nri.Container) -> None:
    """Create a container; return its explicit values and the answer."""
    answer = plugin.create_container(creation(pod_at(), app))
    app.linux.resources.unified.update(files_of(answer))


DOUBLE: dict[str, Any] = {"shares": 1024, "quota_us": 200_000, "limit_bytes": 2 * GIB}
DOUBLED = {
    "cpu.weight": "100",
    "cpu.max": "200000 100000",
    "cpu.max.burst": "100000",
    "memory.max": str(2 * GIB),
}


@pytest.mark.parametrize("config", [BURST, f"{BURST}\nadopt: {{enabled: true}}"])
def test_explicit_values_win_at_an_update_too(config: str) -> None:
    """Values that the container was created with are not nriplugin's."""
    plugin = plugin_of(config)
    app = container_at(unified={"cpu.weight": "7", "memory.high": "4096"})
    made_by(plugin, app)
    files = updated(plugin, app, asking(**DOUBLE))
    assert files == {k: v for k, v in DOUBLED.items() if k != "cpu.weight"}


@pytest.mark.parametrize("synchronized", [True, False])
def test_after_a_restart_nriplugins_values_are_concluded(synchronized: bool) -> None:
    """No message says who set a value, but kubelet sets none of these files."""
    app = container_at()
    made_by(plugin_of(BURST), app)
    plugin = plugin_of(BURST)
    if synchronized:
        plugin.synchronize(*existing([pod_at()], [app]))
        assert len(plugin.lifecycle.inventory) == 1
    assert updated(plugin, app, asking(**DOUBLE)) == DOUBLED


@pytest.mark.parametrize("synchronized", [True, False])
def test_values_of_an_earlier_configuration_are_nriplugins_as_well(
    synchronized: bool,
) -> None:
    """Else a burst above the new quota would make the kernel refuse the quota."""
    app = container_at()
    made_by(plugin_of("cpuBurst: {enabled: true, percent: 90}"), app)
    plugin = plugin_of(BURST)
    if synchronized:
        plugin.synchronize(*existing([pod_at()], [app]))
    assert updated(plugin, app, asking(**DOUBLE)) == DOUBLED
    again = asking(shares=512, quota_us=20_000)
    assert updated(plugin, app, again)["cpu.max.burst"] == "10000"


@pytest.mark.parametrize("synchronized", [True, False])
@pytest.mark.parametrize("limit", [2 * GIB, GIB // 2])
def test_after_a_resize_without_the_plugin_old_values_are_nriplugins(
    synchronized: bool, limit: int
) -> None:
    """They follow from the old limit, and no other program would end them."""
    app = container_at(oom_score=SCORE)
    made_by(plugin_of(MEMORY), app)
    old = app.linux.resources.unified
    assert old["memory.high"] == str(HIGH)
    app.linux.resources.memory.limit.value = limit
    plugin = plugin_of(MEMORY)
    if synchronized:
        plugin.synchronize(*existing([pod_at()], [app]))
    files = updated(plugin, app, asking(limit_bytes=limit))
    assert files["memory.max"] == str(limit)
    assert files["memory.high"] == str(high_for(limit))
    # A value that nriplugin would set for neither limit is not nriplugin's.
    old["memory.high"] = "4096"
    assert "memory.high" not in updated(
        plugin_of(MEMORY), app, asking(limit_bytes=limit)
    )


@pytest.mark.parametrize("synchronized", [True, False])
def test_values_that_kubelet_may_set_are_not_taken_for_nriplugins(
    synchronized: bool,
) -> None:
    """A memory.high that nriplugin would not set is kubelet's."""
    app = container_at(oom_score=SCORE)
    app.linux.resources.unified.update({"memory.high": "4096", "memory.low": "8192"})
    plugin = plugin_of(MEMORY)
    if synchronized:
        plugin.synchronize(*existing([pod_at()], [app]))
    files = updated(plugin, app, asking(limit_bytes=2 * GIB))
    assert files == {"memory.max": str(2 * GIB)}


def test_a_file_that_an_update_sets_explicitly_is_no_longer_nriplugins() -> None:
    """The next update must not replace the explicit value."""
    plugin = plugin_of(MEMORY)
    app = container_at(oom_score=SCORE)
    made_by(plugin, app)
    assert "memory.high" not in updated(plugin, app, asking({"memory.high": "4096"}))
    app.linux.resources.unified["memory.high"] = "4096"
    assert "memory.high" not in updated(plugin, app, asking(limit_bytes=2 * GIB))


@pytest.mark.parametrize("config", ["", "resources: {enabled: false}"])
def test_earlier_values_do_not_undo_an_update(config: str) -> None:
    """The runtime keeps them under any later configuration."""
    plugin = plugin_of(BURST)
    app = container_at()
    made_by(plugin, app)
    configure(plugin, config)
    assert updated(plugin, app, asking(**DOUBLE)) == {**DOUBLED, "cpu.max.burst": "0"}
    known = plugin.lifecycle.inventory.get("c1")
    assert known is not None
    assert known.files["cpu.max"] == DOUBLED["cpu.max"]


def test_an_inactive_plugin_does_not_answer_for_others_values() -> None:
    """No value of nriplugin's could undo the update."""
    plugin = plugin_of("resources: {enabled: false}")
    app = container_at(unified={"memory.high": "4096"})
    request = updating(pod_at(), app, asking(**DOUBLE))
    assert plugin.update_container(request) is None
    assert len(plugin.lifecycle.inventory) == 0


def test_cri_o_that_drops_unified_gets_no_files_at_updates(tmp_path: Path) -> None:
    """It would drop them silently; the request itself is not changed."""
    behaviour = replace(PATIENT, name="cri-o", version="1.35.2", nri_version="0.11.0")
    asked = asking(shares=1024)
    with connected(plugin_of(BURST), tmp_path, behaviour) as (runtime, _):
        updated = runtime.update_container(pod_at(), container_at(), asked)
    assert updated.resources == asked


def test_cri_o_that_drops_unified_is_not_sent_shares_beside_idle() -> None:
    """It would make a weight of them, which the kernel refuses with the update."""
    app = container_at(quota_us=100_000, unified={"cpu.idle": "1"})
    asked = asking(shares=1024, limit_bytes=2 * GIB)
    request = nri.UpdateContainerRequest(
        pod=pod_at(), container=app, linux_resources=asked
    )
    with raw_peer(plugin_of(IDLE)) as peer:
        peer.begin(runtime_name="cri-o", runtime_version="1.35.2")
        answer = peer.ask("UpdateContainer", request, nri.UpdateContainerResponse)
    (update,) = answer.update
    assert update.linux.resources == NO_SHARES

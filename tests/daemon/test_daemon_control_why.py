"""Why the files of a container hold what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest
from cgroup.kernels import Kernel
from daemon.control_clients import controlled, daemon_of
from doors.nri.messages import APP, asking, container_at, pod_at
from doors.nri.nodes import FACTS, Node, plugin_on
from doors.nri.runtimes import ModelRuntime
from support.checkpoints import checkpoint_text
from support.trees import CONTAINER, POD, UID

from nriplugin.cgroup.types.registry import Type
from nriplugin.daemon.why import NoSuchContainer, why_of
from nriplugin.daemon.withdrawal import withdraw
from nriplugin.kube.allocations import parse_allocations
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.api import control_pb2 as control
    from nriplugin.doors.nri.plugin import NodePlugin

BURST = "cpuBurst: {enabled: true, percent: 50}"


def why(plugin: NodePlugin, what: str = "shop/web/app") -> control.ContainerWhy:
    (one,) = why_of(daemon_of(plugin.lifecycle), what).containers
    return one


def files(one: control.ContainerWhy) -> dict[str, control.FileWhy]:
    return {file.file: file for file in one.files}


def running(tmp_path: Path, config: str, **numbers: int) -> ModelRuntime:
    runtime = ModelRuntime(str(tmp_path))
    runtime.connect(config)
    runtime.create(numbers or APP)
    return runtime


def plugin_in(runtime: ModelRuntime) -> NodePlugin:
    assert runtime.plugin is not None
    return runtime.plugin


def test_a_container_whose_files_are_right(tmp_path: Path) -> None:
    """Kernel and decision agree, and the reason of every file is there."""
    plugin = plugin_in(running(tmp_path, f"{BURST}\ncurve: kep"))
    one = why(plugin)
    assert (one.namespace, one.pod, one.container) == ("shop", "web", "app")
    assert (one.qos_class, one.cgroup, one.state) == ("Burstable", CONTAINER, "managed")
    numbers = "shares 512, quota 100000, period 100000, memory limit 1073741824"
    assert one.numbers == numbers
    assert (one.sent.shares, one.sent.quota_us) == (512, 100_000)
    assert (one.sent.period_us, one.sent.memory_limit_bytes) == (100_000, 1 << 30)
    assert not one.sent.HasField("memory_request_bytes")
    assert one.decided_at > 0
    assert list(one.advice) == []
    found = files(one)
    weight, burst = found["cpu.weight"], found["cpu.max.burst"]
    assert (weight.now, weight.decided, weight.native) == ("20", "20", "59")
    assert (burst.now, burst.decided, burst.native) == ("50000", "50000", "")
    assert (burst.handler, burst.source) == ("cpuBurst", "cpuBurst.percent")
    assert (weight.handler, weight.confidence) == ("resources", "exact")
    assert {file.verdict for file in one.files} == {""}


def test_the_memory_request_that_is_known() -> None:
    """Kubelet's checkpoint has it; in a Guaranteed pod it is the limit."""
    node = Node("memoryQoS: {enabled: true}")
    requests = node.plugin.lifecycle.requests
    requests.publish(parse_allocations(checkpoint_text({UID: {"app": "128Mi"}})))
    node.create()
    assert why(node.plugin).sent.memory_request_bytes == 128 << 20
    node = Node("{}")
    parent = POD.replace("/burstable", "")
    path = CONTAINER.replace("/burstable", "")
    node.create(container_at(path), pod_at(parent))
    assert why(node.plugin).sent.memory_request_bytes == 1 << 30


def test_values_that_another_program_wrote(tmp_path: Path) -> None:
    """Each gets a verdict, and the container one piece of advice."""
    runtime = running(tmp_path, f"{BURST}\ncurve: kep")
    kernel = runtime.kernel
    kernel.files[f"{CONTAINER}/cpu.weight"] = "77"
    kernel.files[f"{CONTAINER}/cpu.max.burst"] = "0"
    one = why(plugin_in(runtime))
    found = files(one)
    assert found["cpu.weight"].verdict == "another program has written '77' since"
    assert found["cpu.max.burst"].verdict.startswith("the kernel's default")
    assert found["memory.max"].verdict == ""
    (advice,) = one.advice
    assert advice.startswith("cpu.max.burst, cpu.weight: with repair.enabled: true")
    kernel.files[f"{CONTAINER}/cpu.weight"] = "59"
    again = files(why(plugin_in(runtime)))["cpu.weight"].verdict
    assert again == "the runtime's own value: it did not write what nriplugin sent"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Its reason is in the answer, and no verdict is made up."""
    runtime = running(tmp_path, "{}")
    del runtime.kernel.files[f"{CONTAINER}/cpu.weight"]
    weight = files(why(plugin_in(runtime)))["cpu.weight"]
    assert (weight.now, weight.verdict) == ("", "")
    assert "cpu.weight" in weight.unreadable_because


def test_before_the_start_nothing_has_drifted() -> None:
    """The runtime has not written the files yet."""
    node = Node("{}")
    node.create()
    verdicts = {file.verdict for file in why(node.plugin).files}
    assert verdicts == {"the runtime has not started the container yet"}


def test_after_a_restart_a_decision_is_made_for_the_answer(tmp_path: Path) -> None:
    """The record has the values; the reasons come from a decision of now."""
    runtime = running(tmp_path, "{}")
    runtime.connect()
    one = why(plugin_in(runtime))
    weight = files(one)["cpu.weight"]
    assert (weight.now, weight.decided, weight.native) == ("59", "59", "59")
    assert weight.handler == "resources"
    assert one.decided_at == 0
    assert any("made for this answer" in advice for advice in one.advice)


def test_without_what_a_decision_needs_it_is_said(tmp_path: Path) -> None:
    """NRI's door keeps no labels, so rules cannot be followed afterwards."""
    runtime = running(tmp_path, "{}")
    runtime.connect()
    plugin = plugin_in(runtime)
    entry = plugin.lifecycle.inventory.get("c1")
    assert entry is not None
    assert entry.decision is None
    runtime.reload("rules: [{match: {namespace: x}, cpuBurst: {enabled: true}}]")
    one = why(plugin)
    weight = files(one)["cpu.weight"]
    assert (weight.decided, weight.handler) == ("59", "")
    assert weight.source == "the record of an earlier decision"
    assert any("made no decision" in advice for advice in one.advice)


def test_a_container_that_was_created_without_nriplugin(tmp_path: Path) -> None:
    """It is missed; what it would get is not claimed to be applied."""
    runtime = ModelRuntime(str(tmp_path))
    runtime.create(APP)
    runtime.connect("{}")
    one = why(plugin_in(runtime))
    assert one.state == "missed"
    assert one.reason
    assert any("adopt.enabled: true" in advice for advice in one.advice)


@pytest.mark.parametrize("config", ["{}", BURST])
def test_what_a_missed_container_would_get(tmp_path: Path, config: str) -> None:
    """Its values and numbers are shown, also where a decision needs the pod."""
    runtime = ModelRuntime(str(tmp_path))
    runtime.create(APP)
    runtime.connect(config)
    one = why(plugin_in(runtime))
    assert one.state == "missed"
    assert "shares 512" in one.numbers
    found = files(one)
    assert found["cpu.weight"].decided == "59"
    assert any("adopt.enabled: true" in advice for advice in one.advice)
    if config == BURST:
        burst = found["cpu.max.burst"]
        assert burst.decided == "50000"
        assert burst.verdict.startswith("not applied")


def drifting(repair: str = "") -> Node:
    """Return a node with a container whose weight another program has changed."""
    node = Node(f"{BURST}\n{repair}")
    node.create()
    node.start()
    for file, value in (why_values(node) or {}).items():
        node.kernel.files[f"{CONTAINER}/{file}"] = value
    node.verify()
    return node


def why_values(node: Node) -> dict[str, str]:
    return {file.file: file.decided for file in why(node.plugin).files}


def test_the_verdict_is_that_of_the_event() -> None:
    """The first comparison has found that the runtime did not write the file."""
    node = Node("{}")
    node.create()
    node.start()
    node.verify()
    weight = files(why(node.plugin))["cpu.weight"]
    assert weight.verdict.startswith("the runtime did not write it")
    noted, _ = node.plugin.lifecycle.events.since(0)
    (event, *_) = [one for one in noted if one.kind is EventKind.DRIFTED]
    assert "cpu.weight" in event.text
    assert "the runtime did not write it" in event.text


def test_a_value_that_was_right_has_been_written_since() -> None:
    """Also if it is the one that the runtime would have written."""
    node = drifting("curve: kep")
    node.kernel.files[f"{CONTAINER}/cpu.weight"] = "59"
    node.verify()
    weight = files(why(node.plugin))["cpu.weight"]
    assert weight.native == "59"
    assert weight.verdict == "the runtime's own value, written since"


def test_repair_that_is_on_is_not_advised() -> None:
    """What it does is said in its place."""
    node = drifting("repair: {enabled: true}")
    lifecycle = node.plugin.lifecycle
    node.kernel.files[f"{CONTAINER}/cpu.weight"] = "77"
    (advice,) = why(node.plugin).advice
    assert advice.startswith("cpu.weight: repair writes them again")
    for _ in range(20):
        node.kernel.files[f"{CONTAINER}/cpu.weight"] = "77"
        node.verify(1800)
    node.kernel.files[f"{CONTAINER}/cpu.weight"] = "77"
    assert lifecycle.verifier.repairs.gave_up("c1", "cpu.weight")
    (advice,) = why(node.plugin).advice
    assert advice.startswith("cpu.weight: repair has given up")


def test_nothing_is_written_again_after_a_withdrawal() -> None:
    """So `repair` is not advised."""
    node = drifting()
    node.kernel.files[f"{CONTAINER}/cpu.weight"] = "77"
    process = daemon_of(node.plugin.lifecycle)
    withdraw(process)
    (one,) = why_of(process, "shop/web/app").containers
    (advice,) = one.advice
    assert advice == (
        "cpu.weight: nriplugin is withdrawn, and does not write them again"
    )


def test_an_earlier_value_that_nothing_asks_for(tmp_path: Path) -> None:
    """After a handler is turned off, its value stays until the next update."""
    runtime = running(tmp_path, BURST)
    runtime.connect("cpuBurst: {enabled: false}\nrepair: {enabled: true}")
    burst = files(why(plugin_in(runtime)))["cpu.max.burst"]
    assert (burst.now, burst.decided) == ("50000", "")
    expected = "an earlier value of nriplugin, which nothing asks for any more"
    assert burst.verdict == expected


def test_values_of_others() -> None:
    """They are shown as such."""
    node = Node("{}")
    node.create(container_at(unified={"memory.high": "4096"}, **APP))
    node.start()
    high = files(why(node.plugin))["memory.high"]
    assert (high.decided, high.native) == ("", "4096")
    assert high.source == "set by another plugin or a user"


def test_what_was_refused() -> None:
    """It is in `skipped`, with its reason."""
    node = Node(BURST)
    node.create(pod=pod_at(annotations={"nonsense.cgroup2.nri.io": "1"}))
    assert any("nonsense" in text for text in why(node.plugin).skipped)


def test_updates_are_followed() -> None:
    """The answer is about the newest decision."""
    node = Node("{}")
    node.create()
    node.start()
    node.update(asking(shares=1024, quota_us=100_000, limit_bytes=1 << 30))
    node.post_update()
    assert files(why(node.plugin))["cpu.weight"].decided == "100"


def several() -> NodePlugin:
    node = Node("{}")
    node.create()
    node.create(container_at("/x/c12", 12))
    other = pod_at(id="p2", name="db", namespace="shop")
    node.create(container_at("/x/d1", 21, pod_id="p2"), other)
    return node.plugin


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("shop/web", ["c1", "c12"]),
        ("shop/web/app", ["c1", "c12"]),
        ("shop/db", ["c21"]),
        ("c2", ["c21"]),
        ("c1", ["c1", "c12"]),  # an ambiguous beginning gives all
    ],
)
def test_how_containers_are_named(what: str, expected: list[str]) -> None:
    """By namespace and pod, with the container, or by the beginning of an ID."""
    found = why_of(daemon_of(several().lifecycle), what).containers
    assert sorted(one.id for one in found) == expected


@pytest.mark.parametrize(
    "what", ["", "x", "shop", "shop/", "shop/none", "shop/web/none", "a/b/c/d", "/"]
)
def test_a_container_that_is_not_there(what: str) -> None:
    """One line says what was expected."""
    with pytest.raises(NoSuchContainer, match=r"no such container, expected NAMESP"):
        why_of(daemon_of(several().lifecycle), what)


def test_over_grpc(tmp_path: Path) -> None:
    """The same over a real socket; an unknown container is NOT_FOUND."""
    with controlled(daemon_of(several().lifecycle), tmp_path) as client:
        assert len(client.why("c1").containers) == 2
        with pytest.raises(grpc.RpcError) as raised:
            client.why("shop/none")
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND
        assert str(raised.value.details()).startswith("'shop/none': no such container")


def test_a_node_whose_cgroups_cannot_be_read() -> None:
    """The decision is shown all the same."""
    node = Node("{}")
    node.create()
    plugin = plugin_on(FACTS)
    entry = node.plugin.lifecycle.inventory.get("c1")
    assert entry is not None
    plugin.lifecycle.inventory.put(entry)
    process = daemon_of(plugin.lifecycle, unreadable_because="no mount")
    (one,) = why_of(process, "c1").containers
    weight = files(one)["cpu.weight"]
    assert (weight.decided, weight.unreadable_because) == ("59", "no mount")


def test_a_container_in_shadow_mode() -> None:
    """Its decided values are shown, and that they are not applied."""
    node = Node("shadow: true\ncpuBurst: {enabled: true, percent: 50}")
    node.create(container_at(**APP))
    node.start()
    one = why(node.plugin)
    assert one.state == "shadowed"
    weight = files(one)["cpu.max"]
    assert weight.decided
    assert any("end shadow mode" in advice for advice in one.advice)


@pytest.mark.parametrize("shadow", [False, True])
def test_on_cgroup_v1_what_a_policy_holds_is_shown(*, shadow: bool) -> None:
    """Under its name of cgroup v2, also where the policy is for show alone."""
    facts = FACTS._replace(cgroup_version=1)
    boost = f"startupBoost: {{enabled: true}}\nshadow: {str(shadow).lower()}"
    node = Node(boost, facts, Kernel(1))
    node.synchronize([])
    for cgroup in (POD, CONTAINER):
        node.kernel.tree.set(Type.CPU_QUOTA, cgroup, 100_000)
    node.create()
    node.start()
    node.background.work()
    file = files(why(node.plugin))["cpu.max"]
    assert (file.now, file.unreadable_because) == (
        "100000 100000" if shadow else "300000 100000",
        "",
    )
    assert (file.hold.policy, file.hold.shown) == ("startupBoost", shadow)

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from doors.cri.fakes import (
    Client,
    FakeRuntime,
    Notes,
    counts,
    create_request,
    pod_config,
    rpc,
    serving,
)
from support.harness import PATIENCE_S, wait_until
from support.trees import POD, QOS, UID, add_v2, make_v2

from nriplugin.api import cri_pb2 as cri
from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.config import parse_config
from nriplugin.convert import Curve
from nriplugin.convert.readers import from_cri
from nriplugin.doors.cri.proxy import DECIDERS
from nriplugin.engine.decide import decide
from nriplugin.engine.model import Container, NodeFacts, Pod
from nriplugin.engine.settings import DEFAULT_CONFIG
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.node.facts import container_files
from nriplugin.state import creation_decision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.doors.cri.door import CRIDoor

RESOURCES: dict[str, Any] = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 1 << 27,
}
# Worked out by hand, with the quadratic curve.
FILES = {
    "cpu.weight": "59",
    "cpu.max": "50000 100000",
    "memory.max": "134217728",
}


def created(fake: FakeRuntime) -> list[cri.CreateContainerRequest]:
    return fake.requests(rpc("CreateContainer"), cri.CreateContainerRequest)


def updated(fake: FakeRuntime) -> list[cri.UpdateContainerResourcesRequest]:
    kind = cri.UpdateContainerResourcesRequest
    return fake.requests(rpc("UpdateContainerResources"), kind)


# Creation


def test_a_container_is_created_with_its_files(
    kubelet: Client, fake: FakeRuntime
) -> None:
    """The runtime sees them as unified keys, next to the numbers that kubelet sent."""
    kubelet.create(kubelet.run_pod(), **RESOURCES)
    (request,) = created(fake)
    got = request.config.linux.resources
    assert dict(got.unified) == FILES
    assert {field: getattr(got, field) for field in RESOURCES} == RESOURCES


@pytest.mark.parametrize(
    "resources",
    [
        RESOURCES,
        {"cpu_shares": 2},
        {"cpu_shares": 262_144, "cpu_quota": -1},
        {"memory_limit_in_bytes": 1 << 40, "memory_swap_limit_in_bytes": 1 << 41},
        {"cpu_quota": 10_000, "cpu_period": 50_000, "unified": {"cpu.max": "1 2"}},
        {},
    ],
)
def test_the_files_are_the_engines(
    kubelet: Client, fake: FakeRuntime, resources: dict[str, Any]
) -> None:
    """Each value is the one that the engine decides, and no other key is added."""
    kubelet.create(kubelet.run_pod(), **resources)
    given = from_cri(cri.LinuxContainerResources(**resources))
    decision = decide(Pod(), Container(resources=given), NodeFacts(), DEFAULT_CONFIG)
    (request,) = created(fake)
    explicit = resources.get("unified", {})
    unified = dict(request.config.linux.resources.unified)
    assert unified == {**decision.files, **explicit}


def unknown(number: int, payload: bytes = b"kept") -> bytes:
    """Return a field, as bytes, that nriplugin's messages do not declare."""
    key, encoded = number << 3 | 2, bytearray()
    while key > 0x7F:
        encoded.append(key & 0x7F | 0x80)
        key >>= 7
    return bytes([*encoded, key, len(payload)]) + payload


def test_unknown_fields_survive_a_creation(kubelet: Client, fake: FakeRuntime) -> None:
    """At every level of the message, for fields of later CRI versions, too."""
    request = create_request(kubelet.run_pod(), **RESOURCES)
    request.sandbox_config.CopyFrom(pod_config())
    config = request.config
    for message in (
        request,
        *(config, config.metadata, config.linux, config.linux.resources),
        *(request.sandbox_config, request.sandbox_config.metadata),
        request.sandbox_config.linux,
    ):
        message.MergeFromString(unknown(1000) + unknown(1000, b"twice"))
    # In CRI: the image, the command (two words), a mount, the security context.
    config.MergeFromString(unknown(2) + unknown(3) + unknown(3, b"2") + unknown(7))
    config.linux.MergeFromString(unknown(2, unknown(4, b"inside")))
    sent = request.SerializeToString(deterministic=True)
    kubelet.raw(rpc("CreateContainer"), sent)
    (got,) = created(fake)
    assert dict(got.config.linux.resources.unified) == FILES
    got.config.linux.resources.unified.clear()
    assert list(got.config.annotations) == ["managed.cgroup2.nri.io"]
    got.config.annotations.clear()
    assert got.SerializeToString(deterministic=True) == sent


def test_unknown_fields_survive_an_update(kubelet: Client, fake: FakeRuntime) -> None:
    """So do the annotations and the part for Windows."""
    container_id = kubelet.create(kubelet.run_pod(), **RESOURCES)
    request = cri.UpdateContainerResourcesRequest(container_id=container_id)
    request.linux.cpu_shares = 1024
    request.MergeFromString(unknown(3) + unknown(4) + unknown(1000))
    request.linux.MergeFromString(unknown(1000))
    sent = request.SerializeToString(deterministic=True)
    kubelet.raw(rpc("UpdateContainerResources"), sent)
    (got,) = updated(fake)
    assert dict(got.linux.unified) == {"cpu.weight": "100"}
    got.linux.unified.clear()
    assert got.SerializeToString(deterministic=True) == sent


def test_a_container_that_is_not_for_linux(kubelet: Client, fake: FakeRuntime) -> None:
    """Its request is forwarded unchanged."""
    sent = b"\x0a\x02p1" + b"\x12" + b"\x06\x0a\x04\x0a\x02ab"
    kubelet.raw(rpc("CreateContainer"), sent)
    assert fake.seen[-1].request == sent


def test_the_pod_comes_with_the_request_or_from_before(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """The request's description wins; without one, the pod's entry counts."""
    config = parse_config(
        """
        rules:
        - match: {annotations: {tier: gold}}
          resources: {enabled: false}
        """,
        "test",
    )
    path = str(tmp_path / "rules.sock")
    with serving(fake, path) as door, Client(path) as kubelet:
        door.apply(config)
        gold = kubelet.run_pod(annotations={"tier": "gold"})
        kubelet.create(gold, **RESOURCES)
        request = create_request(gold, **RESOURCES)
        request.sandbox_config.CopyFrom(pod_config(annotations={"tier": "tin"}))
        kubelet.call("CreateContainer", request, cri.CreateContainerResponse)
    unified = [dict(one.config.linux.resources.unified) for one in created(fake)]
    assert unified == [{}, FILES]


def test_a_rule_by_qos_class_reads_the_pods_cgroup(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """CRI messages do not name the QoS class."""
    config = parse_config(
        """
        rules:
        - match: {qosClass: BestEffort}
          resources: {enabled: false}
        """,
        "test",
    )
    path = str(tmp_path / "rules.sock")
    with serving(fake, path) as door, Client(path) as kubelet:
        door.apply(config)
        for parent in ("/kubepods/besteffort/podu", "kubepods-podu.slice"):
            kubelet.create(kubelet.run_pod(cgroup_parent=parent), **RESOURCES)
    unified = [dict(one.config.linux.resources.unified) for one in created(fake)]
    assert unified == [{}, FILES]


# Updates


def test_an_update_gets_the_files_of_its_own_numbers(
    kubelet: Client, fake: FakeRuntime
) -> None:
    """No other files are added, and kubelet's numbers stay."""
    container_id = kubelet.create(kubelet.run_pod(), **RESOURCES)
    kubelet.update(container_id, cpu_shares=1024)
    kubelet.update(container_id, cpu_quota=20_000, cpu_period=50_000)
    first, second = updated(fake)
    assert (first.linux.cpu_shares, dict(first.linux.unified)) == (
        1024,
        {"cpu.weight": "100"},
    )
    assert dict(second.linux.unified) == {"cpu.max": "20000 50000"}


def test_an_explicit_file_survives_updates(kubelet: Client, fake: FakeRuntime) -> None:
    """A file that kubelet set at the creation is never replaced."""
    container_id = kubelet.create(
        kubelet.run_pod(), cpu_shares=512, unified={"cpu.weight": "7"}
    )
    kubelet.update(container_id, cpu_shares=1024, memory_limit_in_bytes=1 << 27)
    (request,) = updated(fake)
    assert dict(request.linux.unified) == {"memory.max": "134217728"}
    other = kubelet.create(kubelet.run_pod(), cpu_shares=512)
    kubelet.update(other, cpu_shares=1024)
    assert dict(updated(fake)[-1].linux.unified) == {"cpu.weight": "100"}


def test_an_update_uses_the_numbers_of_earlier_ones(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """A burst follows the quota, which this update does not repeat."""
    config = parse_config("cpuBurst: {enabled: true, percent: 50}", "test")
    facts = NodeFacts(files=frozenset({*FILES, "cpu.max.burst"}))
    path = str(tmp_path / "burst.sock")
    with serving(fake, path, facts) as door, Client(path) as kubelet:
        door.apply(config)
        container_id = kubelet.create(kubelet.run_pod(), **RESOURCES)
        kubelet.update(container_id, cpu_quota=80_000, cpu_period=100_000)
        kubelet.update(container_id, cpu_shares=1024)
        known = door.lifecycle.inventory.get(container_id)
        assert known is not None
        assert known.kept is not None
        resources = known.kept.resources
    assert (resources.shares, resources.quota_us) == (1024, 80_000)
    assert resources.memory_limit_bytes == 1 << 27
    assert created(fake)[0].config.linux.resources.unified["cpu.max.burst"] == "25000"


def test_a_failed_update_does_not_change_the_entry(
    kubelet: Client, fake: FakeRuntime, door: CRIDoor
) -> None:
    """The runtime refused it, so the container is unchanged."""
    container_id = kubelet.create(kubelet.run_pod(), **RESOURCES)
    before = door.lifecycle.inventory.get(container_id)

    def refuse(request: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")
        raise AssertionError

    fake.answers[rpc("UpdateContainerResources")] = refuse
    with pytest.raises(grpc.RpcError):
        kubelet.update(container_id, cpu_shares=1024)
    assert door.lifecycle.inventory.get(container_id) == before


# The inventory


def test_pods_and_containers_are_forgotten(kubelet: Client, door: CRIDoor) -> None:
    """Each is dropped when it ends, and containers also with their pod."""
    first, second = kubelet.run_pod(), kubelet.run_pod()
    stopped, removed = kubelet.create(first), kubelet.create(first)
    kubelet.create(second)
    assert counts(door) == (2, 3)
    kubelet.of_container("StopContainer", stopped)
    kubelet.of_container("RemoveContainer", removed)
    assert counts(door) == (2, 1)
    kubelet.of_pod("StopPodSandbox", second)
    kubelet.of_pod("RemovePodSandbox", first)
    assert counts(door) == (0, 0)


def test_a_failed_stop_drops_nothing(
    kubelet: Client, fake: FakeRuntime, door: CRIDoor
) -> None:
    """A container that could not be stopped still exists."""
    container_id = kubelet.create(kubelet.run_pod())

    def refuse(request: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.UNKNOWN, "busy")
        raise AssertionError

    fake.answers[rpc("StopContainer")] = refuse
    with pytest.raises(grpc.RpcError):
        kubelet.of_container("StopContainer", container_id)
    assert door.lifecycle.inventory.get(container_id) is not None


# Direct writes and learned facts


@pytest.fixture
def on_tree(fake: FakeRuntime, tmp_path: Path) -> Iterator[Client]:
    """A proxy that may write, on a cgroup tree of plain files."""
    root = tmp_path / "cgroup"
    root.mkdir()
    tree = make_v2(root, ("/kubepods", QOS, POD))
    (root / POD[1:] / "cpu.max").write_text("200000 100000\n")
    facts = NodeFacts(
        driver="cgroupfs",
        files=container_files(tree, "/kubepods") or frozenset(),
        writable=True,
    )
    path = str(tmp_path / "tree.sock")
    writer = DirectWriter(tree, Executor(tree))
    with (
        serving(fake, path, facts, tree=tree, writer=writer) as door,
        Client(path) as kubelet,
    ):
        door.apply(
            parse_config(
                "{cpuBurst: {enabled: true, percent: 50}, cpuQoS: {enabled: true}}",
                "test",
            )
        )
        yield kubelet


def holds(tmp_path: Path, cgroup: str, file: str) -> str:
    return (tmp_path / "cgroup" / cgroup[1:] / file).read_text().strip()


def test_a_pod_is_ready_before_the_runtime_makes_the_container(
    on_tree: Client, fake: FakeRuntime, tmp_path: Path
) -> None:
    """The kernel refuses a container's burst above that of its pod."""
    seen = []
    create = fake.answers[rpc("CreateContainer")]

    def look(request: bytes, context: Any) -> bytes:
        seen.append(holds(tmp_path, POD, "cpu.max.burst"))
        return create(request, context)

    fake.answers[rpc("CreateContainer")] = look
    on_tree.create(on_tree.run_pod(uid=UID, cgroup_parent=POD), **RESOURCES)
    assert created(fake)[0].config.linux.resources.unified["cpu.max.burst"] == "25000"
    assert seen == ["25000"]


def test_what_needs_the_containers_cgroup_is_written_after_the_start(
    on_tree: Client, tmp_path: Path
) -> None:
    """cpu.idle is written directly for a runtime of an unknown name."""
    sandbox_id = on_tree.run_pod(
        uid=UID,
        cgroup_parent=POD,
        runtime_handler="youki",
        annotations={"volcano.sh/qos-level": "BE"},
    )
    container_id = on_tree.create(sandbox_id, cpu_shares=512)
    add_v2(tmp_path / "cgroup", f"{POD}/{container_id}")
    before = holds(tmp_path, f"{POD}/{container_id}", "cpu.idle")
    on_tree.of_container("StartContainer", container_id)
    after = holds(tmp_path, f"{POD}/{container_id}", "cpu.idle")
    assert (before, after) == ("0", "1")


def test_files_are_known_once_there_are_pods(fake: FakeRuntime, tmp_path: Path) -> None:
    """A proxy started before kubelet's cgroups existed learns from the first pod."""
    root = tmp_path / "cgroup"
    root.mkdir()
    tree = make_v2(root, ())
    path = str(tmp_path / "early.sock")
    with serving(fake, path, tree=tree) as door, Client(path) as kubelet:
        door.apply(parse_config("cpuBurst: {enabled: true, percent: 50}", "test"))
        elsewhere = kubelet.run_pod(uid="other", cgroup_parent="/elsewhere")
        kubelet.create(elsewhere, **RESOURCES)
        make_v2(root, ("/kubepods", QOS, POD))
        # As kubelet leaves it; the cgroups below have all controllers.
        kubelet.create(kubelet.run_pod(uid=UID, cgroup_parent=POD), **RESOURCES)
    before, after = (dict(one.config.linux.resources.unified) for one in created(fake))
    assert before == FILES
    assert after == {**FILES, "cpu.max.burst": "25000"}


def test_a_stuck_engine_does_not_block_the_inventory(
    fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods and containers are added and dropped while every decision hangs."""
    stuck = Broken()
    monkeypatch.setattr(creation_decision, "decide", stuck)
    path = str(tmp_path / "stuck.sock")
    with serving(fake, path, budget_s=0.05) as door, Client(path) as kubelet:
        sandbox_id = kubelet.run_pod()
        ids = [kubelet.create(sandbox_id, f"c{n}") for n in range(DECIDERS + 1)]
        other = kubelet.run_pod(uid="other")
        assert door.lifecycle.inventory.pod(other) is not None
        kubelet.of_container("StopContainer", ids[0])
        kubelet.of_pod("StopPodSandbox", sandbox_id)
        assert door.lifecycle.inventory.pod(sandbox_id) is None
        stuck.release.set()


def test_protection_without_effect_is_logged_and_raised_sums_are_lowered(
    fake: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One log line; sums raised for a container are lowered when it ends."""
    root = tmp_path / "cgroup"
    root.mkdir()
    tree = make_v2(root, ("/kubepods", QOS, POD))
    files = container_files(tree, "/kubepods") or frozenset()
    facts = NodeFacts(files=files, writable=True)
    text = "memoryQoS: {enabled: true, throttlingFactor: null, raiseAncestors: %s}"
    annotations = {"memory-request.cgroup2.nri.io": "64Mi"}
    with (
        Journal(str(tmp_path / "state")) as journal,
        serving(
            fake,
            path := str(tmp_path / "protection.sock"),
            facts,
            tree=tree,
            writer=DirectWriter(tree, Executor(tree, journal=journal, refresh_s=0)),
        ) as door,
        Client(path) as kubelet,
    ):
        pod = kubelet.run_pod(uid=UID, cgroup_parent=POD, annotations=annotations)
        door.apply(parse_config(text % "false", "test"))
        for _ in range(2):
            kubelet.create(pod, memory_limit_in_bytes=1 << 27)
        # The background thread checks in batches.
        wait_until(lambda: "has no effect" in caplog.text)
        assert caplog.text.count("has no effect: /kubepods has memory.low=0") == 1
        door.apply(parse_config(text % "true", "test"))
        container_id = kubelet.create(pod, memory_limit_in_bytes=1 << 27)
        assert caplog.text.count("has no effect") == 1
        assert holds(tmp_path, QOS, "memory.low") == "67108864"
        kubelet.of_container("StopContainer", container_id)
        assert holds(tmp_path, QOS, "memory.low") == "0"


def test_sums_raised_for_a_refused_container_are_lowered(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """Sums for a container that was created outlive its sibling's end."""
    root = tmp_path / "cgroup"
    root.mkdir()
    tree = make_v2(root, ("/kubepods", QOS, POD))
    files = container_files(tree, "/kubepods") or frozenset()
    text = "memoryQoS: {enabled: true, throttlingFactor: null, raiseAncestors: true}"
    annotations = {"memory-request.cgroup2.nri.io": "64Mi"}

    def refuse(request: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.INTERNAL, "no")
        return b""

    with (
        Journal(str(tmp_path / "state")) as journal,
        serving(
            fake,
            path := str(tmp_path / "refused.sock"),
            NodeFacts(files=files, writable=True),
            tree=tree,
            writer=DirectWriter(tree, Executor(tree, journal=journal, refresh_s=0)),
        ) as door,
        Client(path) as kubelet,
    ):
        door.apply(parse_config(text, "test"))
        pod = kubelet.run_pod(uid=UID, cgroup_parent=POD, annotations=annotations)
        create = fake.answers[rpc("CreateContainer")]
        fake.answers[rpc("CreateContainer")] = refuse
        with pytest.raises(grpc.RpcError, match="no"):
            kubelet.create(pod, memory_limit_in_bytes=1 << 27)
        assert holds(tmp_path, QOS, "memory.low") == "0"
        fake.answers[rpc("CreateContainer")] = create
        ids = [kubelet.create(pod, memory_limit_in_bytes=1 << 27) for _ in range(2)]
        assert holds(tmp_path, QOS, "memory.low") == str(2 << 26)
        kubelet.of_container("StopContainer", ids[0])
        assert holds(tmp_path, QOS, "memory.low") == str(1 << 26)
        add_v2(root, f"{POD}/{ids[1]}")
        (root / f"{POD}/{ids[1]}/memory.low".lstrip("/")).write_text(str(1 << 26))
        kubelet.of_container("StartContainer", ids[1])
        kubelet.of_container("StopContainer", ids[1])
        assert holds(tmp_path, QOS, "memory.low") == str(1 << 26)  # it is still there


def idle_container(kubelet: Client) -> str:
    """Return a container that the runtime makes idle, without shares."""
    sandbox_id = kubelet.run_pod(
        uid=UID,
        cgroup_parent=POD,
        runtime_handler="runc",
        annotations={"volcano.sh/qos-level": "BE"},
    )
    return kubelet.create(sandbox_id, cpu_shares=512)


def test_an_idle_container_is_not_idle_while_the_runtime_has_its_update(
    on_tree: Client, fake: FakeRuntime, tmp_path: Path
) -> None:
    """So the runtime gets shares, and the container stays idle through every update."""
    container_id = idle_container(on_tree)
    cgroup = f"{POD}/{container_id}"
    add_v2(tmp_path / "cgroup", cgroup)
    idle = tmp_path / "cgroup" / cgroup[1:] / "cpu.idle"
    idle.write_text("1\n")  # as the runtime was told
    seen = []
    update = fake.answers[rpc("UpdateContainerResources")]

    def look(request: bytes, context: Any) -> bytes:
        seen.append(holds(tmp_path, cgroup, "cpu.idle"))
        return update(request, context)

    fake.answers[rpc("UpdateContainerResources")] = look
    for shares in (1024, 2048):
        on_tree.update(container_id, cpu_shares=shares)
        sent = updated(fake)[-1].linux
        assert (dict(sent.unified), sent.cpu_shares) == ({}, shares)
        wait_until(lambda: holds(tmp_path, cgroup, "cpu.idle") == "1")
    assert seen == ["0", "0"]


def test_cleared_shares_do_not_reach_the_runtime(
    on_tree: Client, fake: FakeRuntime
) -> None:
    """So a container whose cgroup is not found stays idle through every update."""
    container_id = idle_container(on_tree)
    for shares in (1024, 2048):
        on_tree.update(container_id, cpu_shares=shares)
        sent = updated(fake)[-1].linux
        assert (dict(sent.unified), sent.cpu_shares) == ({"cpu.idle": "1"}, 0)


def test_a_burst_that_was_raised_later_is_lowered_before_the_quota(
    on_tree: Client, fake: FakeRuntime, tmp_path: Path
) -> None:
    """The runtime does not know the burst, and the kernel would refuse the quota."""
    sandbox_id = on_tree.run_pod(uid=UID, cgroup_parent=POD)
    container_id = on_tree.create(sandbox_id, **RESOURCES)
    cgroup = f"{POD}/{container_id}"
    add_v2(tmp_path / "cgroup", cgroup)
    seen = []
    update = fake.answers[rpc("UpdateContainerResources")]

    def look(request: bytes, context: Any) -> bytes:
        seen.append(holds(tmp_path, cgroup, "cpu.max.burst"))
        return update(request, context)

    fake.answers[rpc("UpdateContainerResources")] = look
    for quota in (400_000, 100_000):
        on_tree.update(container_id, cpu_quota=quota, cpu_period=100_000)
    assert seen == ["0", "50000"]


# Failure


class Broken:
    """An engine that raises, or that never returns."""

    def __init__(self, error: Exception | None = None) -> None:
        self.release = threading.Event()
        self._error = error

    def __call__(self, *args: Any) -> Any:
        if self._error is not None:
            raise self._error
        assert self.release.wait(PATIENCE_S)
        return decide(*args)


@pytest.mark.parametrize("policy", ["ignore", "fail"])
@pytest.mark.parametrize("error", [RuntimeError("a defect"), None], ids=["bug", "slow"])
def test_an_engine_that_fails_or_is_slow(
    fake: FakeRuntime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    policy: str,
    error: Exception | None,
) -> None:
    """`ignore` forwards the request unchanged; `fail` does not forward it."""
    broken = Broken(error)
    monkeypatch.setattr(creation_decision, "decide", broken)
    path = str(tmp_path / "broken.sock")
    # An error that comes later than that would be reported as late.
    budget_s = PATIENCE_S if error else 0.1
    with serving(fake, path, budget_s=budget_s) as door, Client(path) as kubelet:
        door.apply(parse_config(f"failurePolicy: {policy}", "test"))
        sent = create_request(kubelet.run_pod(), **RESOURCES).SerializeToString()
        if policy == "ignore":
            kubelet.raw(rpc("CreateContainer"), sent)
            assert fake.seen[-1].request == sent
        else:
            with pytest.raises(grpc.RpcError) as caught:
                kubelet.raw(rpc("CreateContainer"), sent)
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert str(caught.value.details()).startswith("nriplugin: ")
            assert created(fake) == []
        broken.release.set()
    assert ("a defect" if error else "late") in caplog.text


def test_a_handler_that_must_not_fail_fails_the_call(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """The status has the handler's reason in one line, and kubelet tries again."""
    config = parse_config("resources: {failurePolicy: fail}", "test")
    path = str(tmp_path / "fail.sock")
    with serving(fake, path) as door, Client(path) as kubelet:
        door.apply(config)
        sandbox_id = kubelet.run_pod()
        with pytest.raises(grpc.RpcError) as caught:
            kubelet.create(
                sandbox_id,
                memory_limit_in_bytes=1 << 27,
                memory_swap_limit_in_bytes=1 << 20,
            )
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert str(caught.value.details()).startswith("nriplugin: resources: memory.swap")
    assert created(fake) == []


def test_refusals_are_noted(fake: FakeRuntime, tmp_path: Path) -> None:
    """The log names the container and the reason; the container is created."""
    notes = Notes()
    path = str(tmp_path / "noted.sock")
    with serving(fake, path) as door, Client(path) as kubelet:
        door.lifecycle.log = notes  # type: ignore[assignment] # all that is called
        kubelet.create(
            kubelet.run_pod(),
            memory_limit_in_bytes=1 << 27,
            memory_swap_limit_in_bytes=1 << 20,
        )
        assert counts(door) == (1, 1)
    ((who, decision),) = notes.noted
    assert who == "default/web/app"
    assert [one.reason.value for one in decision.refused] == ["conversion"]
    assert dict(created(fake)[0].config.linux.resources.unified) == {}


def test_an_unreadable_request_is_the_runtimes_to_refuse(
    kubelet: Client, fake: FakeRuntime
) -> None:
    """It is forwarded unchanged."""
    fake.answers[rpc("CreateContainer")] = lambda request, context: b""
    kubelet.raw(rpc("CreateContainer"), b"\xff\xff\xff")
    assert fake.seen[-1].request == b"\xff\xff\xff"


def test_a_strange_answer_reaches_the_caller(
    kubelet: Client, fake: FakeRuntime
) -> None:
    """kubelet gets an answer that the proxy cannot parse."""
    fake.answers[rpc("RunPodSandbox")] = lambda request, context: b"\xff\xff"
    assert kubelet.raw(rpc("RunPodSandbox"), b"") == b"\xff\xff"


def test_a_curve_that_is_learned_later_counts_from_then_on(
    kubelet: Client, fake: FakeRuntime, door: CRIDoor
) -> None:
    """Facts may be replaced while the proxy serves."""
    sandbox_id = kubelet.run_pod()
    kubelet.create(sandbox_id, cpu_shares=512)
    door.lifecycle.plans.learn({"curve": Curve.KEP})
    kubelet.create(sandbox_id, cpu_shares=512)
    weights = [
        one.config.linux.resources.unified["cpu.weight"] for one in created(fake)
    ]
    assert weights == ["59", "20"]

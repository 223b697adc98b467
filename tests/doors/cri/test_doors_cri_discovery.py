from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from doors.cri.fakes import Client, FakeRuntime, counts, rpc, serving
from support.harness import PATIENCE_S, wait_until
from support.trees import POD, QOS, UID, add_v2, make_v2

from nriplugin.api import cri_pb2 as cri
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.config import parse_config
from nriplugin.convert import Curve
from nriplugin.engine.model import NodeFacts
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.node.facts import container_files

if TYPE_CHECKING:
    from pathlib import Path

RESOURCES: dict[str, Any] = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 1 << 27,
}
BURSTS = NodeFacts(
    files=frozenset({"cpu.weight", "cpu.max", "memory.max", "cpu.max.burst"})
)


@pytest.mark.parametrize("repeats", [True, False], ids=["status", "spec"])
def test_a_new_proxy_knows_what_the_old_one_knew(
    fake: FakeRuntime, tmp_path: Path, repeats: bool
) -> None:
    """It reads each status, or the OCI spec if the status has no resources."""
    fake.repeats_resources = repeats
    path = str(tmp_path / "proxy.sock")
    with serving(fake, path) as door, Client(path) as kubelet:
        sandbox_id = kubelet.run_pod(
            annotations={"a": "1"}, runtime_handler="crun", cgroup_parent=POD
        )
        container_id = kubelet.create(sandbox_id, oom_score_adj=999, **RESOURCES)
        before = door.lifecycle.inventory.get(container_id)
        pod_before = door.lifecycle.inventory.pod(sandbox_id)
    with serving(fake, path) as door:
        assert door.lifecycle.inventory.pod(sandbox_id) == pod_before
        after = door.lifecycle.inventory.get(container_id)
        assert before is not None
        assert after is not None
        assert after.pod.id == sandbox_id
        old, new = before.kept, after.kept
        assert old is not None
        assert new is not None
        assert (new.name, new.id, new.oom_score_adj) == ("app", container_id, 999)
        for field in ("shares", "quota_us", "memory_limit_bytes", "unified"):
            assert getattr(new.resources, field) == getattr(old.resources, field)


def test_an_update_after_a_restart_is_as_one_before(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """The burst follows a quota that only the previous process has seen."""
    config = parse_config("cpuBurst: {enabled: true, percent: 50}", "test")
    path = str(tmp_path / "proxy.sock")
    with serving(fake, path, BURSTS) as door, Client(path) as kubelet:
        door.apply(config)
        one = kubelet.create(kubelet.run_pod(), **RESOURCES)
        kubelet.update(one, cpu_quota=80_000, cpu_period=100_000)
    with serving(fake, path, BURSTS) as door, Client(path) as kubelet:
        door.apply(config)
        kubelet.update(one, cpu_quota=80_000, cpu_period=100_000)
    kind = cri.UpdateContainerResourcesRequest
    first, second = fake.requests(rpc("UpdateContainerResources"), kind)
    assert dict(first.linux.unified)["cpu.max"] == "80000 100000"
    assert first == second


def test_a_container_created_without_the_proxy(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """An update of an unknown container makes the door ask the runtime."""
    config = parse_config(
        "rules: [{match: {annotations: {tier: gold}}, resources: {enabled: false}}]",
        "test",
    )
    path = str(tmp_path / "proxy.sock")
    with (
        serving(fake, path) as door,
        Client(path) as kubelet,
        Client(fake.path) as someone,
    ):
        door.apply(config)
        gold = someone.create(someone.run_pod(annotations={"tier": "gold"}))
        plain = someone.create(someone.run_pod())
        assert counts(door) == (0, 0)
        for one in (gold, plain):
            kubelet.update(one, cpu_shares=512)
        assert counts(door) == (2, 2)
    kind = cri.UpdateContainerResourcesRequest
    unified = [
        dict(one.linux.unified)
        for one in fake.requests(rpc("UpdateContainerResources"), kind)
    ]
    assert unified == [{}, {"cpu.weight": "59"}]


def test_a_runtime_that_starts_after_the_proxy(
    fake: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Calls get UNAVAILABLE and the log says why; the proxy learns later."""
    fake.stop()
    path = str(tmp_path / "proxy.sock")
    with serving(fake, path) as door, Client(path) as kubelet:
        with pytest.raises(grpc.RpcError) as caught:
            kubelet.run_pod()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "runtime: does not answer: Version: " in caplog.text
        fake.pods["p1"] = cri.RunPodSandboxRequest()
        fake.start()
        wait_until(lambda: counts(door) == (1, 0))
        facts = door.lifecycle.plan.facts
        assert (facts.runtime, facts.runtime_version) == ("fake", "1.2.3")


def test_a_runtime_that_was_away_is_asked_again(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """Containers that it lost are dropped; entries of the others stay."""
    path = str(tmp_path / "proxy.sock")
    with serving(fake, path) as door, Client(path) as kubelet:
        sandbox_id = kubelet.run_pod()
        kept, lost = kubelet.create(sandbox_id), kubelet.create(sandbox_id)
        before = door.lifecycle.inventory.get(kept)
        fake.stop()
        with pytest.raises(grpc.RpcError):
            kubelet.update(kept, cpu_shares=512)
        del fake.containers[lost]
        fake.start()
        wait_until(lambda: door.lifecycle.inventory.get(lost) is None)
        assert door.lifecycle.inventory.get(kept) == before


@pytest.mark.parametrize("method", ["ListContainers", "ContainerStatus"])
def test_an_error_while_learning_is_not_an_empty_answer(
    fake: FakeRuntime, tmp_path: Path, method: str
) -> None:
    """Learning is repeated until the runtime has answered every question."""
    with Client(fake.path) as someone:
        one = someone.create(someone.run_pod(), **RESOURCES)
    answer, tries = fake.answers[rpc(method)], []

    def sick(request: bytes, context: Any) -> bytes:
        tries.append(request)
        if len(tries) < 3:
            context.abort(grpc.StatusCode.INTERNAL, "not now")
        return answer(request, context)

    fake.answers[rpc(method)] = sick
    with serving(fake, str(tmp_path / "proxy.sock")) as door:
        wait_until(lambda: door.lifecycle.inventory.get(one))
    assert len(tries) == 3


def test_a_container_that_ends_during_the_listing(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """The container is left out, and everything else is learned."""
    with Client(fake.path) as someone:
        sandbox_id = someone.run_pod()
        gone, there = someone.create(sandbox_id), someone.create(sandbox_id)
    status = fake.answers[rpc("ContainerStatus")]

    def going(request: bytes, context: Any) -> bytes:
        fake.containers.pop(gone, None)
        return status(request, context)

    fake.answers[rpc("ContainerStatus")] = going
    with serving(fake, str(tmp_path / "proxy.sock")) as door:
        assert door.lifecycle.inventory.get(gone) is None
        assert door.lifecycle.inventory.get(there) is not None


def on_tree(tmp_path: Path, *containers: tuple[str, int]) -> Any:
    root = tmp_path / "cgroup"
    root.mkdir()
    tree = make_v2(root, ("/kubepods", QOS, POD))
    for container_id, weight in containers:
        add_v2(root, f"{POD}/{container_id}")
        path = root / POD[1:] / container_id / "cpu.weight"
        path.write_text(f"{weight}\n")
    return tree


ID = "0123456789abcdef" * 4


@pytest.mark.parametrize("restart", [False, True])
def test_what_kubelet_set_explicitly_stays_its_own(
    fake: FakeRuntime, tmp_path: Path, restart: bool
) -> None:
    """A new process leaves kubelet's file, and updates the ones of nriplugin."""
    facts = NodeFacts(
        files=frozenset({"cpu.weight", "cpu.max", "memory.max", "memory.high"}),
        kernel=(6, 1),
    )
    config = parse_config("memoryQoS: {enabled: true}", "test")
    path = str(tmp_path / "proxy.sock")
    pod = {
        "cgroup_parent": POD,
        "annotations": {"memory-request.cgroup2.nri.io": "64Mi"},
    }
    explicit = {"memory.high": str(100 << 20)}

    def updated(kubelet: Client, container_id: str) -> str | None:
        kubelet.update(container_id, memory_limit_in_bytes=1 << 28)
        kind = cri.UpdateContainerResourcesRequest
        sent = fake.requests(rpc("UpdateContainerResources"), kind)[-1].linux.unified
        assert sent["memory.max"] == str(1 << 28)
        return dict(sent).get("memory.high")

    with serving(fake, path, facts) as door, Client(path) as kubelet:
        door.apply(config)
        sandbox_id = kubelet.run_pod(**pod)
        theirs = kubelet.create(sandbox_id, "theirs", **RESOURCES, unified=explicit)
        ours = kubelet.create(sandbox_id, "ours", **RESOURCES)
        if not restart:
            assert updated(kubelet, theirs) is None
            assert updated(kubelet, ours) is not None
    if restart:
        with serving(fake, path, facts) as door, Client(path) as kubelet:
            door.apply(config)
            assert updated(kubelet, theirs) is None
            assert updated(kubelet, ours) is not None


def test_writes_at_the_start_survive_a_restart_of_the_proxy(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """A container that another process created is decided about once more."""
    root = tmp_path / "cgroup"
    root.mkdir()
    tree = make_v2(root, ("/kubepods", QOS, POD))
    facts = NodeFacts(files=container_files(tree, POD) or frozenset(), writable=True)
    writer = DirectWriter(tree, Executor(tree, refresh_s=0))
    config = parse_config("cpuQoS: {enabled: true, level: BE}", "test")
    path = str(tmp_path / "proxy.sock")
    for restart in (False, True):
        with (
            serving(fake, path, facts, tree=tree, writer=writer) as door,
            Client(path) as kubelet,
        ):
            door.apply(config)
            # A runtime of an unknown name may not take cpu.idle.
            pod = kubelet.run_pod(cgroup_parent=POD, runtime_handler="youki")
            container_id = kubelet.create(pod, **RESOURCES)
            add_v2(root, f"{POD}/{container_id}")
            if not restart:
                kubelet.of_container("StartContainer", container_id)
        if restart:
            with (
                serving(fake, path, facts, tree=tree, writer=writer) as door,
                Client(path) as kubelet,
            ):
                door.apply(config)
                kubelet.of_container("StartContainer", container_id)
        idle = root / POD[1:] / container_id / "cpu.idle"
        assert idle.read_text().strip() == "1", restart


def test_a_pods_own_containers_count_before_the_nodes(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """A pod keeps the curve of its own containers: weights compare siblings."""
    root = tmp_path / "cgroup"
    root.mkdir()
    tree = make_v2(root, ("/kubepods", QOS, POD))
    path = str(tmp_path / "proxy.sock")
    with Client(fake.path) as behind:
        other = behind.run_pod(uid="other", cgroup_parent=f"{QOS}/podother")
        pod = behind.run_pod(uid=UID, cgroup_parent=POD)
        made = [(other, f"{QOS}/podother", 59)] * 3 + [(pod, POD, 20)]
        for number, (sandbox_id, parent, weight) in enumerate(made):
            container_id = behind.create(sandbox_id, f"c{number}", cpu_shares=512)
            add_v2(root, f"{parent}/{container_id}")
            file = root / parent[1:] / container_id / "cpu.weight"
            file.write_text(f"{weight}\n")
    with serving(fake, path, tree=tree) as door, Client(path) as kubelet:
        assert door.lifecycle.plan.facts.curve is Curve.QUADRATIC
        for sandbox_id, expected in ((other, "59"), (pod, "20")):
            kubelet.create(sandbox_id, "new", cpu_shares=512)
            sent = fake.requests(rpc("CreateContainer"), cri.CreateContainerRequest)
            assert sent[-1].config.linux.resources.unified["cpu.weight"] == expected


def test_a_runtime_that_hangs_does_not_delay_serving_or_stopping(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """The proxy serves after `first_contact_s`, and stops while it waits."""
    release = threading.Event()
    answer = fake.answers[rpc("ContainerStatus")]

    def slow(request: bytes, context: Any) -> bytes:
        release.wait(PATIENCE_S)
        return answer(request, context)

    fake.answers[rpc("ContainerStatus")] = slow
    with Client(fake.path) as behind:
        behind.create(behind.run_pod(), **RESOURCES)
    path = str(tmp_path / "proxy.sock")
    with serving(fake, path, first_contact_s=0.05) as door, Client(path) as kubelet:
        kubelet.run_pod()
        assert counts(door) == (1, 0)
    release.set()


def test_unavailable_for_another_reason_does_not_restart_discovery(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """A runtime also answers UNAVAILABLE for a registry that it cannot reach."""

    def unavailable(request: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.UNAVAILABLE, "registry unavailable")
        return b""

    method = "/runtime.v1.ImageService/PullImage"
    fake.answers[method] = unavailable
    path = str(tmp_path / "proxy.sock")
    with serving(fake, path), Client(path) as kubelet:
        kubelet.create(kubelet.run_pod(), **RESOURCES)
        asked = len(fake.requests(rpc("Version"), cri.VersionRequest))
        listed = len(fake.requests(rpc("ListContainers"), cri.ListContainersRequest))
        with pytest.raises(grpc.RpcError, match="registry unavailable"):
            kubelet.raw(method, b"")
        wait_until(
            lambda: len(fake.requests(rpc("Version"), cri.VersionRequest)) > asked
        )
        now = len(fake.requests(rpc("ListContainers"), cri.ListContainersRequest))
        assert now == listed


@pytest.mark.parametrize(
    ("weight", "unified", "curve"),
    [
        (20, {}, Curve.KEP),
        (59, {}, Curve.QUADRATIC),
        (50, {}, Curve.PROPORTIONAL),
        # Set by nriplugin before a restart.
        (20, {"cpu.weight": "20"}, Curve.KEP),
        # Set explicitly: no curve gives this weight for these shares.
        (77, {"cpu.weight": "77"}, Curve.QUADRATIC),
    ],
)
def test_the_runtimes_own_curve_is_recognised(
    fake: FakeRuntime,
    tmp_path: Path,
    weight: int,
    unified: dict[str, str],
    curve: Curve,
) -> None:
    """The weight of a container created without nriplugin shows the curve."""
    with Client(fake.path) as someone:
        sandbox_id = someone.run_pod(uid=UID, cgroup_parent=POD)
        made = someone.create(sandbox_id, cpu_shares=512, unified=unified)
    fake.containers[ID] = fake.containers.pop(made)
    tree = on_tree(tmp_path, (ID, weight))
    path = str(tmp_path / "proxy.sock")
    with serving(fake, path, tree=tree) as door, Client(path) as kubelet:
        assert door.lifecycle.plan.facts.curve is curve
        kubelet.create(sandbox_id, cpu_shares=1024)
    expected = {Curve.KEP: "39", Curve.QUADRATIC: "100", Curve.PROPORTIONAL: "100"}
    request = fake.requests(rpc("CreateContainer"), cri.CreateContainerRequest)[-1]
    assert request.config.linux.resources.unified["cpu.weight"] == expected[curve]


def test_the_runtimes_weights_count_before_nriplugins(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """One container of the runtime's outweighs two with nriplugin's weight."""
    with Client(fake.path) as someone:
        sandbox_id = someone.run_pod(uid=UID, cgroup_parent=POD)
        ids = [f"{number}{ID[1:]}" for number in range(3)]
        for one in ids:
            own = one == ids[0]
            unified = {} if own else {"cpu.weight": "59"}
            made = someone.create(sandbox_id, cpu_shares=512, unified=unified)
            fake.containers[one] = fake.containers.pop(made)
    tree = on_tree(tmp_path, (ids[0], 20), (ids[1], 59), (ids[2], 59))
    with serving(fake, str(tmp_path / "proxy.sock"), tree=tree) as door:
        assert door.lifecycle.plan.facts.curve is Curve.KEP


def test_a_curve_stays_when_there_is_nothing_left_to_learn_from(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """The curve is kept when all containers that showed it are gone."""
    with Client(fake.path) as someone:
        sandbox_id = someone.run_pod(uid=UID, cgroup_parent=POD)
        made = someone.create(sandbox_id, cpu_shares=512)
    fake.containers[ID] = fake.containers.pop(made)
    path = str(tmp_path / "proxy.sock")
    tree = on_tree(tmp_path, (ID, 20))
    with serving(fake, path, tree=tree) as door, Client(path) as kubelet:
        fake.stop()
        with pytest.raises(grpc.RpcError):
            kubelet.create(sandbox_id)
        fake.containers.clear()
        fake.start()
        wait_until(lambda: counts(door) == (1, 0))
        assert door.lifecycle.plan.facts.curve is Curve.KEP


def test_a_slow_runtime_does_not_delay_serving(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """Calls are forwarded while the door still tries to learn."""
    release = threading.Event()
    version = fake.answers[rpc("Version")]

    def slow(request: bytes, context: Any) -> bytes:
        if request:
            release.wait(PATIENCE_S)
        return version(request, context)

    fake.answers[rpc("Version")] = slow
    path = str(tmp_path / "proxy.sock")
    with serving(fake, path, timeout_s=1) as door, Client(path) as kubelet:
        assert kubelet.raw(rpc("Status"), b"x") == b"echo:x"
        release.set()
        wait_until(lambda: door.lifecycle.plan.facts.runtime)

"""Updates whose decision is late or fails, of containers with values from nriplugin.

A runtime keeps these values and writes them again at the end of every update. So an
update that is forwarded unchanged would end with nriplugin's old values, and kubelet
would take it for done.
"""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from doors.cri.fakes import Client, FakeRuntime, create_request, rpc, serving
from support.harness import PATIENCE_S
from support.trees import POD, QOS, UID, add_v2, make_v2

from nriplugin.api import cri_pb2 as cri
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.config import parse_config
from nriplugin.doors.cri import immediate
from nriplugin.engine.decide import decide_update
from nriplugin.engine.model import NodeFacts
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.node.facts import container_files
from nriplugin.state import lifecycle
from nriplugin.state.lifecycle import Lifecycle
from nriplugin.state.pending_updates import PendingUpdates

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
BIGGER: dict[str, Any] = {
    "cpu_shares": 1024,
    "cpu_quota": 80_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 1 << 28,
}
# Worked out by hand, with the quadratic curve.
FILES = {"cpu.weight": "100", "cpu.max": "80000 100000", "memory.max": "268435456"}


# How long a call waits for a decision that hangs, and only such a call.
SHORT_S = 0.5


class Trouble:
    """Replaces a part of the decision; it hangs or raises."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.release = threading.Event()

    def __call__(self, *args: Any) -> Any:
        if self._kind == "bug":
            raise RuntimeError("a defect")
        assert self.release.wait(PATIENCE_S)


class SlowOnce:
    """Replaces `PendingUpdates.begin`; its first call hangs, others are as usual."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self._calls = itertools.count()
        self._begin = PendingUpdates.begin

    def __get__(self, updates: PendingUpdates, owner: object) -> Any:
        return partial(self, updates)

    def __call__(self, updates: PendingUpdates, *args: Any) -> Any:
        if next(self._calls) == 0:
            return self._trouble()
        return self._begin(updates, *args)


@contextmanager
def troubled(
    fake: FakeRuntime, path: str, policy: str = "", **options: Any
) -> Iterator[tuple[CRIDoor, Client]]:
    """A proxy whose decisions a test makes fail or late (`SHORT_S`)."""
    options.setdefault("config", f"failurePolicy: {policy}" if policy else "")
    config = parse_config(options.pop("config"), "test")
    with (
        serving(fake, path, **options) as door,
        Client(path) as kubelet,
    ):
        door.apply(config)
        yield door, kubelet


def kept(fake: FakeRuntime, container_id: str) -> dict[str, str]:
    """Return the files that the runtime writes last at every update."""
    return dict(fake.containers[container_id].config.linux.resources.unified)


def updates(fake: FakeRuntime) -> int:
    kind = cri.UpdateContainerResourcesRequest
    return len(fake.requests(rpc("UpdateContainerResources"), kind))


@pytest.mark.parametrize("kind", ["bug", "slow"])
def test_an_update_takes_effect_without_its_decision(
    fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Earlier values follow the new numbers, also at the next update."""
    trouble = Trouble(kind)
    with troubled(fake, str(tmp_path / "p.sock")) as (door, kubelet):
        container_id = kubelet.create(kubelet.run_pod(), **RESOURCES)
        with monkeypatch.context() as patch:
            patch.setattr(lifecycle, "decide_update", trouble)
            patch.setattr(door._proxy, "_budget_s", SHORT_S)
            kubelet.update(container_id, **BIGGER)
            trouble.release.set()
        assert kept(fake, container_id) == FILES
        known = door.lifecycle.inventory.get(container_id)
        assert known is not None
        assert known.kept is not None
        assert known.kept.resources.memory_limit_bytes == 1 << 28
        assert known.ours == FILES


@pytest.mark.parametrize("kind", ["bug", "slow"])
def test_with_policy_fail_the_call_ends(
    fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The update fails, and the runtime does not get it."""
    trouble = Trouble(kind)
    with troubled(fake, str(tmp_path / "p.sock"), "fail") as (door, kubelet):
        container_id = kubelet.create(kubelet.run_pod(), **RESOURCES)
        monkeypatch.setattr(lifecycle, "decide_update", trouble)
        monkeypatch.setattr(door._proxy, "_budget_s", SHORT_S)
        with pytest.raises(grpc.RpcError) as caught:
            kubelet.update(container_id, **BIGGER)
        trouble.release.set()
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert updates(fake) == 0


def test_values_of_handlers_follow_too(
    fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is that of the ordinary decision."""
    trouble = Trouble("slow")
    facts = NodeFacts(files=frozenset({*FILES, "memory.high"}), kernel=(6, 1))
    text = "memoryQoS: {enabled: true, protection: false, throttlingFactor: 0.5}"
    path = str(tmp_path / "p.sock")
    with troubled(fake, path, facts=facts, config=text) as (door, kubelet):
        annotations = {"memory-request.cgroup2.nri.io": "64Mi"}
        sandbox_id = kubelet.run_pod(annotations=annotations)
        container_id = kubelet.create(sandbox_id, **RESOURCES)
        # Half way from the request to the limit.
        assert kept(fake, container_id)["memory.high"] == str(96 << 20)
        with monkeypatch.context() as patch:
            patch.setattr(Lifecycle, "use_of", trouble)
            patch.setattr(door._proxy, "_budget_s", SHORT_S)
            kubelet.update(container_id, **BIGGER)
            trouble.release.set()
        assert kept(fake, container_id) == {**FILES, "memory.high": str(160 << 20)}


def test_a_container_without_values_from_nriplugin_gets_the_request_unchanged(
    fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No value of nriplugin's could undo the update."""
    path = str(tmp_path / "p.sock")
    with troubled(fake, path, config="resources: {enabled: false}") as (_, kubelet):
        container_id = kubelet.create(kubelet.run_pod(), **RESOURCES)
        monkeypatch.setattr(lifecycle, "decide_update", Trouble("bug"))
        asked = cri.UpdateContainerResourcesRequest(container_id=container_id)
        asked.linux.cpu_shares = 1024
        sent = asked.SerializeToString()
        kubelet.raw(rpc("UpdateContainerResources"), sent)
        assert fake.seen[-1].request == sent


def test_an_unreadable_update_is_the_runtimes_to_refuse(
    kubelet: Client, fake: FakeRuntime
) -> None:
    """It is forwarded unchanged."""
    fake.answers[rpc("UpdateContainerResources")] = lambda request, context: b""
    kubelet.raw(rpc("UpdateContainerResources"), b"\xff\xff\xff")
    assert fake.seen[-1].request == b"\xff\xff\xff"


def test_an_unknown_container_may_have_values_from_nriplugin(
    fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the runtime has listed its containers, kubelet gets UNAVAILABLE."""
    pod = fake.answers[rpc("RunPodSandbox")](b"", None)
    sandbox_id = cri.RunPodSandboxResponse.FromString(pod).pod_sandbox_id
    with troubled(fake, str(tmp_path / "p.sock")) as (door, kubelet):
        made = create_request(sandbox_id, cpu_shares=512, unified={"cpu.weight": "59"})
        answer = fake.answers[rpc("CreateContainer")](made.SerializeToString(), None)
        container_id = cri.CreateContainerResponse.FromString(answer).container_id
        release, listed = threading.Event(), fake.answers[rpc("ListContainers")]

        def slow(request: bytes, context: Any) -> bytes:
            release.wait(PATIENCE_S)
            return listed(request, context)

        fake.answers[rpc("ListContainers")] = slow
        with monkeypatch.context() as patch:
            patch.setattr(door._proxy, "_budget_s", SHORT_S)
            with pytest.raises(grpc.RpcError) as caught:
                kubelet.update(container_id, cpu_shares=1024)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert str(caught.value.details()).startswith("nriplugin: ")
        assert updates(fake) == 0
        release.set()
        fake.answers[rpc("ListContainers")] = listed
        kubelet.update(container_id, cpu_shares=1024)
        assert kept(fake, container_id) == {"cpu.weight": "100"}


def writing(tmp_path: Path) -> dict[str, Any]:
    """Return the options of a proxy that may write to a tree of plain files."""
    root = tmp_path / "cgroup"
    root.mkdir()
    tree = make_v2(root, ("/kubepods", QOS, POD))
    (root / POD[1:] / "cpu.max").write_text("200000 100000\n")
    files = container_files(tree, "/kubepods") or frozenset()
    return {
        "facts": NodeFacts(files=files, writable=True, driver="cgroupfs"),
        "tree": tree,
        "writer": DirectWriter(tree, Executor(tree)),
    }


@pytest.mark.parametrize("kept_shares", [False, True])
def test_an_idle_container_needs_a_write_first_only_beside_shares(
    fake: FakeRuntime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept_shares: bool,
) -> None:
    """Shares are cleared; if the runtime keeps some already, kubelet tries again."""
    trouble = Trouble("slow")
    options = writing(tmp_path)
    with troubled(
        fake,
        str(tmp_path / "p.sock"),
        config="cpuQoS: {enabled: true, level: BE}",
        **options,
    ) as (door, kubelet):
        sandbox_id = kubelet.run_pod(uid=UID, cgroup_parent=POD, runtime_handler="runc")
        container_id = kubelet.create(sandbox_id, **RESOURCES)
        add_v2(tmp_path / "cgroup", f"{POD}/{container_id}")
        if kept_shares:
            kubelet.update(container_id, **RESOURCES)
        before = updates(fake)
        with monkeypatch.context() as patch:
            patch.setattr(PendingUpdates, "begin", SlowOnce(trouble))
            patch.setattr(door._proxy, "_budget_s", SHORT_S)
            if kept_shares:
                with pytest.raises(grpc.RpcError) as caught:
                    kubelet.update(container_id, **BIGGER)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            else:
                kubelet.update(container_id, **BIGGER)
            trouble.release.set()
        assert updates(fake) - before == (0 if kept_shares else 1)
        if not kept_shares:
            kind = cri.UpdateContainerResourcesRequest
            sent = fake.requests(rpc("UpdateContainerResources"), kind)[-1].linux
            assert sent.cpu_shares == 0
            assert kept(fake, container_id)["cpu.idle"] == "1"


def test_an_update_that_needs_a_write_first(
    fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel would refuse the quota, so kubelet gets UNAVAILABLE."""
    trouble = Trouble("slow")
    with troubled(
        fake,
        str(tmp_path / "p.sock"),
        config="cpuBurst: {enabled: true, percent: 50}",
        **writing(tmp_path),
    ) as (door, kubelet):
        sandbox_id = kubelet.run_pod(uid=UID, cgroup_parent=POD)
        container_id = kubelet.create(sandbox_id, **RESOURCES)
        assert kept(fake, container_id)["cpu.max.burst"] == "25000"
        with monkeypatch.context() as patch:
            patch.setattr(PendingUpdates, "begin", trouble)
            patch.setattr(door._proxy, "_budget_s", SHORT_S)
            with pytest.raises(grpc.RpcError) as caught:
                kubelet.update(container_id, **BIGGER)
            trouble.release.set()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert updates(fake) == 0
        kubelet.update(container_id, **BIGGER)
        assert kept(fake, container_id) == {**FILES, "cpu.max.burst": "40000"}


class Defective:
    """An engine that raises while a handler is on, or always."""

    def __init__(self, *, always: bool = False) -> None:
        self._always = always

    def __call__(self, *args: Any) -> Any:
        config = args[4]
        if self._always or config.base.active:
            raise RuntimeError("a defect")
        return decide_update(*args)


def test_with_a_defect_old_values_still_follow_the_numbers(
    fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversion decides alone, and values of handlers are taken back."""
    facts = NodeFacts(files=frozenset({*FILES, "memory.high"}), kernel=(6, 1))
    text = "memoryQoS: {enabled: true, protection: false, throttlingFactor: 0.5}"
    path = str(tmp_path / "p.sock")
    with troubled(fake, path, facts=facts, config=text) as (_, kubelet):
        annotations = {"memory-request.cgroup2.nri.io": "64Mi"}
        sandbox_id = kubelet.run_pod(annotations=annotations)
        container_id = kubelet.create(sandbox_id, **RESOURCES)
        assert "memory.high" in kept(fake, container_id)
        for module in (lifecycle, immediate):
            monkeypatch.setattr(module, "decide_update", Defective())
        kubelet.update(container_id, **BIGGER)
        assert kept(fake, container_id) == {**FILES, "memory.high": "max"}


def test_with_a_greater_defect_kubelet_is_told_to_try_again(
    fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that is only seemingly done would be worse."""
    with troubled(fake, str(tmp_path / "p.sock")) as (_, kubelet):
        container_id = kubelet.create(kubelet.run_pod(), **RESOURCES)
        for module in (lifecycle, immediate):
            monkeypatch.setattr(module, "decide_update", Defective(always=True))
        with pytest.raises(grpc.RpcError) as caught:
            kubelet.update(container_id, **BIGGER)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert updates(fake) == 0


def test_with_policy_ignore_the_update_is_forwarded_anyway(
    fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An explicit `failurePolicy: ignore` holds for updates, too."""
    with troubled(fake, str(tmp_path / "p.sock"), "ignore") as (_, kubelet):
        container_id = kubelet.create(kubelet.run_pod(), **RESOURCES)
        for module in (lifecycle, immediate):
            monkeypatch.setattr(module, "decide_update", Defective(always=True))
        kubelet.update(container_id, **BIGGER)
    assert updates(fake) == 1

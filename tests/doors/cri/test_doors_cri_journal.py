"""The journal's rows while sandboxes of a pod are stopped and created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doors.cri.fakes import Client, FakeRuntime, serving
from support.trees import POD, QOS, UID, make_v2

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.journal.restore import restore
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.config import parse_config
from nriplugin.engine.model import NodeFacts
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.node.facts import container_files

if TYPE_CHECKING:
    from pathlib import Path


def test_the_next_sandbox_of_a_pod_is_in_the_same_cgroup(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """A late stop of the old sandbox drops no journal rows of the pod's cgroup."""
    root = tmp_path / "cgroup"
    root.mkdir()
    tree = make_v2(root, ("/kubepods", QOS, POD))
    burst = root / POD[1:] / "cpu.max.burst"
    (root / POD[1:] / "cpu.max").write_text("200000 100000")
    files = container_files(tree, "/kubepods") or frozenset()
    with (
        Journal(str(tmp_path / "state")) as journal,
        serving(
            fake,
            path := str(tmp_path / "journal.sock"),
            NodeFacts(files=files, writable=True),
            tree=tree,
            writer=DirectWriter(tree, Executor(tree, journal=journal, refresh_s=0)),
        ) as door,
        Client(path) as kubelet,
    ):
        door.apply(parse_config("cpuBurst: {enabled: true, percent: 50}", "test"))
        old = kubelet.run_pod(uid=UID, cgroup_parent=POD)
        new = kubelet.run_pod(uid=UID, cgroup_parent=POD)
        kubelet.create(new, cpu_quota=100000, cpu_period=100000)
        assert burst.read_text() == "50000"
        kubelet.of_pod("StopPodSandbox", old)
        kubelet.of_pod("RemovePodSandbox", old)
    with Journal(str(tmp_path / "state")) as journal:
        restore(tree, journal)
    assert burst.read_text() == "0"

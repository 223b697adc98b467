"""The facts about a node, and their defaults where they cannot be found out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.trees import CGROUPS, POD, V2_FILES, add_v1, make

from nriplugin.cgroup.locate.detect import detect_node
from nriplugin.cgroup.locate.paths import Driver
from nriplugin.cgroup.types.tree import Tree
from nriplugin.engine.allowed_files import ALLOWABLE
from nriplugin.engine.model import CORE_FILES
from nriplugin.node import facts
from nriplugin.node.facts import container_files, facts_of_pod, node_facts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nriplugin.engine.model import NodeFacts

KUBEPODS = "/kubepods"
MEMINFO = "MemTotal:        1024 kB\nMemFree: 5 kB\n"


@pytest.fixture(autouse=True)
def meminfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "meminfo"
    file.write_text(MEMINFO)
    monkeypatch.setattr(facts, "_MEMINFO", str(file))
    return file


class CgroupIdentity:
    """A node whose cgroups are a directory of plain files."""

    def __init__(self, root: Path, version: int, cgroups: Iterable[str]) -> None:
        self.root = root / "cgroup"
        make(version, self.root, cgroups).files.close()  # type: ignore[attr-defined]
        environ = {"CGROUP_DRIVER": "cgroupfs"}
        self.node = detect_node(environ, str(root), str(self.root))

    def write(self, file: str, content: str) -> None:
        (self.root / file.strip("/")).write_text(content)

    def remove(self, file: str) -> None:
        (self.root / file.strip("/")).unlink()

    def facts(self) -> NodeFacts:
        with self.node.open_files() as files:
            return node_facts(self.node, Tree(files, self.node.version.number))


def v2(tmp_path: Path, cgroups: Iterable[str] = CGROUPS) -> CgroupIdentity:
    return CgroupIdentity(tmp_path, 2, cgroups)


def test_a_node_of_version_2(tmp_path: Path) -> None:
    """The facts come from its kernel, its mounts and its kubelet."""
    place = v2(tmp_path)
    place.write(f"{KUBEPODS}/memory.max", "524288\n")
    found = place.facts()
    assert (found.cgroup_version, found.driver) == (2, Driver.CGROUPFS)
    assert "plain directory" in found.cgroup_evidence
    assert found.files == (ALLOWABLE & set(V2_FILES))
    assert found.page_bytes == os.sysconf("SC_PAGE_SIZE")
    assert found.memory_capacity_bytes == 1024 * 1024
    assert found.memory_allocatable_bytes == 512 * 1024
    assert found.kernel is not None
    assert found.kernel > (3, 0)
    assert found.writable


def test_a_node_of_version_1(tmp_path: Path) -> None:
    """Only files count that handlers set there; memory is read."""
    place = CgroupIdentity(tmp_path, 1, CGROUPS)
    found = place.facts()
    assert (found.cgroup_version, found.writable) == (1, True)
    assert found.direct_only
    assert found.files == {"cpu.cfs_burst_us"}
    assert found.memory_allocatable_bytes == found.memory_capacity_bytes


def test_a_node_of_version_1_without_pods(tmp_path: Path) -> None:
    """No file is known, and the first pod shows them; cgroup v2's never count."""
    place = CgroupIdentity(tmp_path, 1, ())
    assert place.facts().files == frozenset()
    add_v1(place.root, POD)
    with place.node.open_files() as files:
        found = facts_of_pod(Tree(files, 1), POD)
    assert found["files"] == {"cpu.cfs_burst_us"}


def test_without_a_tree(tmp_path: Path) -> None:
    """As in a container that does not see the node's cgroups."""
    found = node_facts(v2(tmp_path).node, None)
    assert (found.files, found.writable) == (CORE_FILES, False)
    assert found.memory_allocatable_bytes == found.memory_capacity_bytes == 1024 * 1024


def test_before_there_are_pods(tmp_path: Path) -> None:
    """The files are those of every node; the mount may still be writable."""
    found = v2(tmp_path, ()).facts()
    assert (found.files, found.writable) == (CORE_FILES, True)
    assert found.memory_allocatable_bytes == found.memory_capacity_bytes


def test_a_kernel_without_burst(tmp_path: Path) -> None:
    """Containers lack the files that kubepods lacks."""
    place = v2(tmp_path)
    place.remove(f"{KUBEPODS}/cpu.max.burst")
    found = place.facts()
    assert "cpu.max.burst" not in found.files
    assert found.files > CORE_FILES


def test_a_kernel_with_more(tmp_path: Path) -> None:
    """Such as openEuler's levels, and files of only some builds."""
    place = v2(tmp_path)
    more = {"cpu.qos_level", "memory.qos_level", "cpu.uclamp.max", "memory.zswap.max"}
    for file in more:
        place.write(f"{KUBEPODS}/{file}", "0\n")
    assert more < place.facts().files


@pytest.mark.parametrize("missing", ["cpu", "memory", "io", "pids"])
def test_a_controller_that_is_not_enabled_for_children(
    missing: str, tmp_path: Path
) -> None:
    """kubepods has its files, and its containers do not."""
    place = v2(tmp_path)
    others = {"cpu", "memory", "io", "pids"} - {missing}
    place.write(f"{KUBEPODS}/cgroup.subtree_control", " ".join(others) + "\n")
    found = place.facts().files
    assert {file.partition(".")[0] for file in found} == others


def test_before_any_controller_is_enabled_for_children(tmp_path: Path) -> None:
    """kubelet has only just created kubepods."""
    place = v2(tmp_path)
    place.write(f"{KUBEPODS}/cgroup.subtree_control", "\n")
    assert place.facts().files == CORE_FILES


def test_unknown_files_are_not_the_same_as_no_files(tmp_path: Path) -> None:
    """None and an empty set mean different things."""
    place = v2(tmp_path)
    with place.node.open_files() as files:
        tree = Tree(files, 2)
        assert container_files(tree, "/gone") is None
        assert container_files(tree, f"{KUBEPODS}/../..") is None
        assert container_files(tree, KUBEPODS)
        assert container_files(Tree(files, 1), KUBEPODS) is None
        place.write(f"{KUBEPODS}/cgroup.subtree_control", "hugetlb\n")
        assert container_files(tree, KUBEPODS) == frozenset()


@pytest.mark.parametrize("limit", ["max\n", "0\n", "much\n", ""])
def test_allocatable_is_everything_where_the_kubelet_sets_no_limit(
    limit: str, tmp_path: Path
) -> None:
    """The same holds for a limit that makes no sense."""
    place = v2(tmp_path)
    place.write(f"{KUBEPODS}/memory.max", limit)
    assert place.facts().memory_allocatable_bytes == 1024 * 1024


@pytest.mark.parametrize(
    "content", ["", "MemTotal: 5 MB\n", "MemTotal: much kB\n", "MemTotal:\n", "é\n"]
)
def test_an_odd_meminfo(content: str, tmp_path: Path, meminfo: Path) -> None:
    """The capacity is then not known."""
    meminfo.write_text(content)
    assert v2(tmp_path).facts().memory_capacity_bytes is None


def test_no_meminfo(tmp_path: Path, meminfo: Path) -> None:
    """The capacity is not known; kubelet's limit still is."""
    meminfo.unlink()
    place = v2(tmp_path)
    place.write(f"{KUBEPODS}/memory.max", "4096\n")
    found = place.facts()
    assert found.memory_capacity_bytes is None
    assert found.memory_allocatable_bytes == 4096


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """On any machine there are facts, and no exception."""
    monkeypatch.undo()
    found = node_facts(detect_node({}), None)
    assert found.memory_capacity_bytes
    assert found.kernel

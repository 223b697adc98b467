"""The same typed answers from v1 and v2."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from support.trees import POD, make

from nriplugin.cgroup.types.formats import Pressure, Stall
from nriplugin.cgroup.types.reader import (
    CpuStat,
    CpuUsage,
    IoStat,
    MemoryEvents,
    MemoryStat,
    Pids,
    Reader,
)
from nriplugin.cgroup.types.registry import Type
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.cgroup.types.tree import Tree


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return make(request.param, tmp_path / "cgroup")


def test_both_versions_give_the_same_answers(tree: Tree) -> None:
    """Two trees that describe the same use on v1 and v2 give equal answers."""
    reader = Reader(tree)
    assert reader.cpu_quota(POD) == -1
    assert reader.cpu_period(POD) == 100_000
    assert reader.cpu_usage(POD) == CpuUsage(
        3_000_000_000, 2_000_000_000, 1_000_000_000
    )
    assert reader.cpu_stat(POD) == CpuStat(10, 2, 5_000_000, 1, 7000)
    assert reader.memory_limit(POD) == -1
    assert reader.memory_usage(POD) == 1 << 20
    assert reader.memory_stat(POD) == MemoryStat(
        anon=4096,
        file=8192,
        shmem=0,
        mapped=4096,
        dirty=0,
        writeback=0,
        inactive_anon=0,
        active_anon=4096,
        inactive_file=4096,
        active_file=4096,
        unevictable=0,
        page_faults=12,
        major_page_faults=1,
    )
    assert reader.pids(POD) == Pids(3, -1)
    assert reader.io_stat(POD) == [IoStat("8:0", 4096, 8192, 1, 2)]


def test_what_v1_does_not_count_is_none(tree: Tree) -> None:
    """A number that v1 does not count is None and not zero."""
    events = Reader(tree).memory_events(POD)
    if tree.version == 1:
        assert events == MemoryEvents(None, None, 2, None, 1)
    else:
        assert events == MemoryEvents(0, 3, 2, 1, 1)


@pytest.mark.parametrize(
    ("v1", "v2", "quota"),
    [
        ("-1", "max 100000", -1),
        ("100000", "100000 100000", 100_000),
        ("25000\n", "25000 50000\n", 25_000),
    ],
)
def test_the_quota(tree: Tree, v1: str, v2: str, quota: int) -> None:
    """No quota is -1 on both versions."""
    content = v1 if tree.version == 1 else v2
    tree.files.write(tree.path(Type.CPU_QUOTA, POD), content)
    assert Reader(tree).cpu_quota(POD) == quota


@pytest.mark.parametrize("content", ["", "x", "1 2 3", "max", "100000.5"])
def test_a_quota_that_makes_no_sense_is_an_error(tree: Tree, content: str) -> None:
    """On v2 cpu.max needs two words; on v1 `max` is no number."""
    tree.files.write(tree.path(Type.CPU_QUOTA, POD), content)
    with pytest.raises(CgroupError, match=r"^parse /.*cpu\."):
        Reader(tree).cpu_quota(POD)


def test_memory_limits(tree: Tree) -> None:
    """v1 shows no limit as a very large number."""
    reader = Reader(tree)
    tree.set(Type.MEMORY_LIMIT, POD, 1 << 30)
    assert reader.memory_limit(POD) == 1 << 30
    tree.set(Type.MEMORY_LIMIT, POD, -1)
    assert reader.memory_limit(POD) == -1


def test_pressure_is_none_where_it_is_not_measured(tree: Tree) -> None:
    """v1 has no pressure files, which gives None; a missing cgroup is an error."""
    reader = Reader(tree)
    for resource in ("cpu", "memory", "io"):
        found = reader.pressure(POD, resource)
        if tree.version == 1:
            assert found is None
        else:
            assert found == Pressure(
                Stall(0.0, 0.5, 1.25, 4711), Stall(0.0, 0.0, 0.0, 42)
            )
    with pytest.raises(CgroupError, match="ENOENT"):
        reader.pressure("/kubepods/podgone", "cpu")


def test_pressure_that_was_turned_off_is_none(tmp_path: Path) -> None:
    """With psi=0 the files exist and cannot be read, which gives None."""
    tree = make(2, tmp_path)
    read = tree.files.read

    def refusing(path: str) -> str:
        if path.endswith(".pressure"):
            raise CgroupError("read", path, None, errno.EOPNOTSUPP)
        return read(path)

    tree.files.read = refusing  # type: ignore[method-assign] # a kernel with psi=0
    assert Reader(tree).pressure(POD, "memory") is None


def test_v1_pressure_of_a_vendors_kernel_is_read(tmp_path: Path) -> None:
    """Anolis has all three pressure files in the hierarchy of cpuacct."""
    tree = make(1, tmp_path)
    text = "some avg10=1.00 avg60=0.00 avg300=0.00 total=9\n"
    (tmp_path / "cpuacct" / POD[1:] / "memory.pressure").write_text(text)
    expected = Pressure(Stall(1.0, 0.0, 0.0, 9), None)
    assert Reader(tree).pressure(POD, "memory") == expected


def test_cpu_stat_of_an_older_kernel_or_with_the_controller_off(tmp_path: Path) -> None:
    """v2 then shows the use only; bursts are not counted before Linux 5.14."""
    tree = make(2, tmp_path)
    reader = Reader(tree)
    path = tree.path(Type.CPU_STAT, POD)
    tree.files.write(path, "usage_usec 5\nuser_usec 3\nsystem_usec 2\n")
    assert reader.cpu_stat(POD) == CpuStat(0, 0, 0, None, None)
    assert reader.cpu_usage(POD) == CpuUsage(5000, 3000, 2000)


def test_a_cgroup_that_is_gone_is_an_error_with_its_path(tree: Tree) -> None:
    """No method returns a made-up answer for a missing cgroup."""
    reader = Reader(tree)
    for ask in (
        reader.cpu_quota,
        reader.cpu_period,
        reader.cpu_usage,
        reader.cpu_stat,
        reader.memory_limit,
        reader.memory_usage,
        reader.memory_stat,
        reader.memory_events,
        reader.pids,
        reader.io_stat,
    ):
        with pytest.raises(CgroupError) as caught:
            ask("/kubepods/podgone")
        assert caught.value.errno == errno.ENOENT
        assert "/kubepods/podgone/" in caught.value.path

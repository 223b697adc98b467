"""The same calls on trees of both versions."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from support.trees import CGROUPS, CONTAINER, CONTAINER_ID, POD, QOS, UID, make, make_v2

from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.locate.detect import detect_node
from nriplugin.cgroup.locate.walk import find, walk
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.types.tree import Tree
from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return make(request.param, tmp_path / "cgroup")


@pytest.mark.parametrize(
    ("kind", "value", "then"),
    [
        (Type.CPU_QUOTA, 50_000, 50_000),
        (Type.CPU_QUOTA, "max", -1),
        (Type.CPU_PERIOD, 50_000, 50_000),
        (Type.CPU_BURST, 10_000, 10_000),
        (Type.CPUSET_CPUS, "4-5,1", "1,4-5"),
        (Type.MEMORY_LIMIT, 1 << 30, 1 << 30),
        (Type.MEMORY_LIMIT, "max", -1),
        (Type.PIDS_MAX, 100, 100),
        (Type.HUGETLB_2MB, 1 << 21, 1 << 21),
    ],
)
def test_what_is_set_is_got(
    tree: Tree, kind: Type, value: object, then: object
) -> None:
    """The same calls set and get a value on both versions."""
    assert isinstance(value, int | str)
    tree.set(kind, POD, value)
    assert tree.get(kind, POD) == then
    assert tree.get(kind, QOS) != then or then == -1


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Type.CPU_USAGE, 3_000_000_000),
        (Type.CPU_ACCT, {"user": 200, "system": 100}),
        (Type.CPUSET_CPUS_EFFECTIVE, "0-7"),
        (Type.CPUSET_MEMS_EFFECTIVE, "0"),
        (Type.MEMORY_USAGE, 1 << 20),
        (Type.PIDS_CURRENT, 3),
        (Type.CGROUP_PROCS, ()),
    ],
)
def test_what_is_read_only_is_the_same_on_both(
    tree: Tree, kind: Type, value: object
) -> None:
    """Both versions give v1's units."""
    assert tree.get(kind, POD) == value


def test_block_io_is_known_on_v2_too(tree: Tree) -> None:
    """v2 has traffic and limits by the same types as v1."""
    for kind, read, write in (
        (Type.IO_BYTES, 4096, 8192),
        (Type.IO_OPERATIONS, 1, 2),
    ):
        traffic = tree.get(kind, POD)["8:0"]
        assert (traffic["read"], traffic["write"]) == (read, write)
    tree.set(Type.IO_READ_BPS, POD, "8:0 1048576")
    assert tree.get(Type.IO_READ_BPS, POD) == {"8:0": 1_048_576}


def test_cpu_stat_without_usage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """On v2 three types are read from cpu.stat."""
    tree = make_v2(tmp_path)
    tree.files.write(f"{POD}/cpu.stat", "nr_periods 1\n")
    with pytest.raises(CgroupError, match=rf"^parse {POD}/cpu\.stat: "):
        tree.get(Type.CPU_USAGE, POD)


def test_quota_and_period_share_a_file_and_keep_each_other(tree: Tree) -> None:
    """Each may be set first."""
    tree.set(Type.CPU_QUOTA, POD, 20_000)
    tree.set(Type.CPU_PERIOD, POD, 50_000)
    tree.set(Type.CPU_QUOTA, POD, 30_000)
    assert tree.get(Type.CPU_QUOTA, POD) == 30_000
    assert tree.get(Type.CPU_PERIOD, POD) == 50_000
    if tree.version == 2:
        assert tree.read(Type.CPU_QUOTA, POD) == "30000 50000"


def test_an_invalid_value_is_refused_before_anything_is_read(tree: Tree) -> None:
    """An invalid value is refused even if the cgroup does not exist."""
    with pytest.raises(ConfigError, match=r"cpu\.cfs_quota_us: 5, expected"):
        tree.set(Type.CPU_QUOTA, "/nowhere", 5)
    with pytest.raises(CgroupError, match="ENOENT"):
        tree.set(Type.CPU_QUOTA, "/nowhere", 5000)


def test_what_makes_no_sense_is_named_with_its_path(tree: Tree) -> None:
    """A text that cannot be parsed is an error with the path of its file."""
    path = tree.path(Type.MEMORY_LIMIT, POD)
    tree.files.write(path, "lots\n")
    with pytest.raises(CgroupError) as caught:
        tree.get(Type.MEMORY_LIMIT, POD)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"parse {path}: 'lots\\n': ")


def test_children_are_the_same_on_both_versions(tree: Tree) -> None:
    """On v1 the names come from the hierarchy of cpu."""
    assert tree.children("/") == ["kubepods"]
    assert tree.children("/kubepods") == ["burstable"]
    assert tree.children(CONTAINER) == []


def test_memory_min_is_supported_where_the_kernel_has_it(tmp_path: Path) -> None:
    """Every v2 kernel has memory.min, and some vendors' v1 kernels."""
    v2 = make(2, tmp_path / "v2")
    assert v2.supported(Type.MEMORY_MIN, POD)
    upstream = make(1, tmp_path / "v1")
    support = upstream.supported(Type.MEMORY_MIN, POD)
    assert not support
    assert support.reason.endswith(
        "is not there, it needs an Anolis kernel, or cgroup v2"
    )
    anolis = make(1, tmp_path / "anolis")
    (tmp_path / "anolis/memory" / POD[1:] / "memory.min").write_text("0\n")
    assert anolis.supported(Type.MEMORY_MIN, POD)
    anolis.set(Type.MEMORY_MIN, POD, 4096)
    assert anolis.get(Type.MEMORY_MIN, POD) == 4096


@pytest.mark.parametrize("kind", [Type.CPU_QOS_LEVEL, Type.MEMORY_QOS_LEVEL])
def test_a_vendors_file_that_is_absent_is_unsupported_not_an_error(
    tree: Tree, kind: Type
) -> None:
    """The answer is false, with what the file needs."""
    support = tree.supported(kind, POD)
    assert not support
    assert "openEuler" in support.reason


class Counting(LocalFiles):
    """Files that count how often they are looked for."""

    looks = 0

    def exists(self, path: str) -> bool:
        self.looks += 1
        return super().exists(path)


def test_support_is_asked_once_per_type(tmp_path: Path) -> None:
    """Support is a property of the kernel, so one cgroup answers for all."""
    make_v2(tmp_path)
    files = Counting(str(tmp_path), magics=None)
    tree = Tree(files, 2)
    for cgroup in CGROUPS:
        assert tree.supported(Type.CPU_BURST, cgroup)
    assert files.looks == 1
    assert not tree.supported(Type.CPU_QOS_LEVEL, POD)
    looks = files.looks
    assert not tree.supported(Type.CPU_QOS_LEVEL, QOS)
    assert files.looks == looks


def test_what_is_only_missing_here_is_not_remembered(tmp_path: Path) -> None:
    """A missing cgroup, or one with its controller off, says nothing of the kernel."""
    tree = make_v2(tmp_path)
    gone = tree.supported(Type.CPU_BURST, "/kubepods/podgone")
    assert not gone
    assert gone.reason == "/kubepods/podgone is not there"
    pod = tmp_path / POD[1:]
    (pod / "cpu.max.burst").unlink()
    (pod / "cgroup.controllers").write_text("memory pids\n")
    off = tree.supported(Type.CPU_BURST, POD)
    assert off.reason == f"controller cpu is off in {POD}"
    assert not tree.supported(Type.CPU_BURST, "/")  # which has no limits at all
    assert tree.supported(Type.CPU_BURST, QOS)


def test_the_kubelets_part_is_walked_from_the_top(tree: Tree) -> None:
    """Each cgroup comes with its depth and what it is."""
    found = list(walk(tree, "/kubepods"))
    assert [one.cgroup for one in found] == list(CGROUPS)
    assert [one.depth for one in found] == [0, 1, 2, 3]
    assert [one.identity.level for one in found] == [
        "kubepods",
        "qos",
        "pod",
        "container",
    ]
    with pytest.raises(CgroupError):
        list(walk(tree, "/kubepods.slice"))


def test_what_a_container_does_below_itself_is_not_walked(tmp_path: Path) -> None:
    """Cgroups inside of a container, or outside of pods, are left out."""
    inner = f"{CONTAINER}/container"
    deep = f"{inner}/system.slice/x.service"
    tree = make_v2(tmp_path, [*CGROUPS, inner, deep])
    found = [one.cgroup for one in walk(tree, "/kubepods")]
    assert found == [*CGROUPS, inner]
    assert list(walk(tree, "/")) == []


def test_an_unreadable_cgroup_is_an_error(tmp_path: Path) -> None:
    """An error other than "gone" is raised."""
    tree = make_v2(tmp_path)
    listed = tree.files.children

    def children(path: str) -> list[str]:
        if path == QOS:
            raise CgroupError("list", path, None, errno.EACCES)
        return listed(path)

    tree.files.children = children  # type: ignore[method-assign] # no permission
    with pytest.raises(CgroupError, match="EACCES"):
        list(walk(tree, "/kubepods"))


def test_a_cgroup_that_goes_away_meanwhile_is_left_out(tmp_path: Path) -> None:
    """A pod that ends during the walk is no error."""
    tree = make_v2(tmp_path)
    listed = tree.files.children

    def children(path: str) -> list[str]:
        return [*listed(path), "gone"] if path == QOS else listed(path)

    tree.files.children = children  # type: ignore[method-assign] # a race, on demand
    assert [one.cgroup for one in walk(tree, "/kubepods")] == list(CGROUPS)


@pytest.mark.parametrize(
    ("wanted", "cgroup"),
    [
        (UID, POD),
        (UID[:4], POD),
        (CONTAINER_ID, CONTAINER),
        (CONTAINER_ID[:12], CONTAINER),
    ],
)
def test_pods_and_containers_are_found_by_name(
    tree: Tree, wanted: str, cgroup: str
) -> None:
    """The beginning of a UID or ID is enough."""
    assert [one.cgroup for one in find(tree, "/kubepods", wanted)] == [cgroup]
    for unknown in ("", "zzz", "/kubepods", "../kubepods"):
        assert find(tree, "/kubepods", unknown) == []


def test_a_node_opens_a_tree_that_was_named(tmp_path: Path) -> None:
    """A named tree may be a copy in ordinary directories, of either version."""
    make(1, tmp_path / "one")
    make(2, tmp_path / "two")
    for name, version in (("one", 1), ("two", 2)):
        node = detect_node({}, str(tmp_path), str(tmp_path / name))
        assert (node.version.number, node.plain) == (version, True)
        assert "memory" in node.controllers()
        assert node.open_tree().get(Type.CPU_PERIOD, POD) == 100_000
    assumed = {"NRIPLUGIN_CGROUP_VERSION": "1"}
    assert detect_node(assumed, cgroup_root=str(tmp_path / "two")).version.number == 1


def test_a_real_tree_is_never_taken_for_a_plain_one() -> None:
    """The kernel's files are never written as ordinary files are."""
    node = detect_node({}, cgroup_root="/sys/fs/cgroup/")
    assert not node.plain
    assert node.cgroup_root == "/sys/fs/cgroup"
    assert node.open_tree().supported(Type.CGROUP_PROCS, "/")


def test_an_unmarked_directory_is_not_opened_by_default(tmp_path: Path) -> None:
    """The host's tree has to be a cgroup file system."""
    (tmp_path / "sys/fs").mkdir(parents=True)
    make_v2(tmp_path / "sys/fs/cgroup")
    node = detect_node({"NRIPLUGIN_CGROUP_VERSION": "2"}, str(tmp_path))
    with pytest.raises(CgroupError, match="file system type"):
        node.open_tree()
    assert node.controllers() == []


def test_systemd_is_asked_where_it_owns_the_cgroups(tmp_path: Path) -> None:
    """A copy in ordinary directories has no writer."""
    environ = {"CGROUP_DRIVER": "systemd"}
    assert detect_node(environ).writer() is not None
    assert detect_node({"CGROUP_DRIVER": "cgroupfs"}).writer() is None
    make_v2(tmp_path / "copy")
    assert detect_node(environ, cgroup_root=str(tmp_path / "copy")).writer() is None

"""The one door: what it lets through, and that nothing else gets past it."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nriplugin.cgroup import files as door
from nriplugin.cgroup import syscalls
from nriplugin.cgroup.files import CGROUP2_MAGIC, PROC_MAGIC, LocalFiles
from nriplugin.cgroup.locate.node_paths import NodePaths
from nriplugin.cgroup.locate.paths import Driver, RuntimeName
from nriplugin.cgroup.types.tree import Tree
from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OPENERS = [syscalls.resolving_opener, syscalls.walking_opener]
OUTSIDE = "not yours"


@pytest.fixture(params=OPENERS, ids=["openat2", "walk"])
def opener(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], syscalls.Opener]:
    """Everything holds for both ways of opening."""
    monkeypatch.setattr(door, "best_opener", lambda: request.param)
    found: Callable[[int], syscalls.Opener] = request.param
    return found


@pytest.fixture
def files(tmp_path: Path, opener: object) -> Iterator[LocalFiles]:
    """A tree beside a directory that must never be reached from it."""
    (tmp_path / "secret").write_text(OUTSIDE)
    pod = tmp_path / "root" / "kubepods" / "pod1"
    pod.mkdir(parents=True)
    (pod / "cpu.max").write_text("max 100000\n")
    (pod.parent / "pod0").mkdir()
    with LocalFiles(str(tmp_path / "root"), magics=None) as local:
        yield local


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_reads_writes_and_lists(files: LocalFiles, tmp_path: Path) -> None:
    """Paths are absolute below the root."""
    before = open_descriptors()
    assert files.read("/kubepods/pod1/cpu.max") == "max 100000\n"
    files.write("/kubepods/pod1/cpu.max", "1000 2000")
    file = tmp_path / "root/kubepods/pod1/cpu.max"
    assert file.read_text() == "1000 2000"
    files.write("/kubepods/pod1/cpu.max", "5")
    assert file.read_text() == "5"
    assert files.children("/kubepods") == ["pod0", "pod1"]
    assert files.children("/") == ["kubepods"]
    assert files.exists("/")
    assert files.exists("/kubepods/pod1")
    assert not files.exists("/kubepods/pod1/cpu.weight")
    assert not files.exists("/kubepods/pod1/cpu.max/x")
    assert files.identity("/kubepods/pod1/cpu.max") == file.stat().st_ino
    assert open_descriptors() == before


def test_a_long_file_is_read_to_its_end(files: LocalFiles, tmp_path: Path) -> None:
    """The kernel returns a long file in pieces, and all are read."""
    content = "".join(f"{pid}\n" for pid in range(50_000))
    (tmp_path / "root" / "kubepods" / "cgroup.procs").write_text(content)
    assert files.read("/kubepods/cgroup.procs") == content


def test_nothing_is_ever_created(files: LocalFiles, tmp_path: Path) -> None:
    """A write to a file that does not exist is an error and makes none."""
    with pytest.raises(CgroupError) as caught:
        files.write("/kubepods/pod1/cpu.weight", "100")
    error = caught.value
    assert (error.operation, error.path) == ("write", "/kubepods/pod1/cpu.weight")
    assert (error.value, error.errno) == ("100", errno.ENOENT)
    assert str(error) == (
        "write /kubepods/pod1/cpu.weight: '100': No such file or directory (ENOENT)"
    )
    assert not (tmp_path / "root/kubepods/pod1/cpu.weight").exists()


def test_an_error_of_a_read_has_no_value(files: LocalFiles) -> None:
    """The error is one line with the name of the errno."""
    with pytest.raises(CgroupError) as caught:
        files.read("/kubepods/nope")
    assert caught.value.value is None
    expected = "read /kubepods/nope: No such file or directory (ENOENT)"
    assert str(caught.value) == expected
    with pytest.raises(CgroupError, match=r"^list /kubepods/nope: "):
        files.children("/kubepods/nope")


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/kubepods/../../secret",
        "/kubepods/pod1/../../../secret",
        "/out/secret",
        "/link",
        "/kubepods/link",
        "/kubepods/up/secret",
        "/kubepods/absolute",
        "//kubepods/../../secret",
        "secret",
        "",
        "/link\0",
        "/\ud800",
    ],
)
def test_no_way_leads_out(files: LocalFiles, tmp_path: Path, path: str) -> None:
    """Neither `..` nor a symlink leads out of the root."""
    root = tmp_path / "root"
    (root / "out").symlink_to("..")
    (root / "link").symlink_to("../secret")
    (root / "kubepods" / "link").symlink_to("../../secret")
    (root / "kubepods" / "up").symlink_to("../..")
    (root / "kubepods" / "absolute").symlink_to(tmp_path / "secret")
    with pytest.raises(CgroupError):
        files.read(path)
    with pytest.raises(CgroupError):
        files.write(path, "mine")
    with pytest.raises(CgroupError):
        files.children(path)
    with contextlib.suppress(CgroupError):
        assert not files.exists(path)
    assert (tmp_path / "secret").read_text() == OUTSIDE


def test_not_even_a_way_back_in_is_taken(files: LocalFiles) -> None:
    """A path with `..` is refused even if it ends below the root."""
    with pytest.raises(CgroupError, match="leads out of its directory") as caught:
        files.read("/kubepods/pod0/../pod1/cpu.max")
    assert caught.value.errno == errno.EXDEV
    assert not files.exists("/kubepods/..pod")


def test_not_even_a_symlink_inside_is_followed(
    files: LocalFiles, tmp_path: Path
) -> None:
    """A cgroup file system has no symlinks, so none is followed."""
    (tmp_path / "root" / "same").symlink_to("kubepods/pod1")
    for path in ("/same/cpu.max", "/same"):
        assert not files.exists(path)
    with pytest.raises(CgroupError) as caught:
        files.read("/same/cpu.max")
    assert caught.value.errno == errno.ELOOP
    assert files.children("/") == ["kubepods"]


def test_only_regular_files_are_written(files: LocalFiles, tmp_path: Path) -> None:
    """Neither a directory nor a pipe is opened for writing."""
    os.mkfifo(tmp_path / "root" / "pipe")
    reader = os.open(tmp_path / "root" / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(CgroupError, match="not a regular file") as caught:
            files.write("/pipe", "1")
        assert caught.value.errno == errno.EINVAL
    finally:
        os.close(reader)
    with pytest.raises(CgroupError) as caught:
        files.write("/pipe", "1")
    assert caught.value.errno == errno.ENXIO
    with pytest.raises(CgroupError) as caught:
        files.write("/kubepods", "1")
    assert caught.value.errno == errno.EISDIR
    with pytest.raises(CgroupError, match="EISDIR"):
        files.read("/kubepods")


def test_a_write_that_was_not_taken_whole_is_an_error(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short write is not continued by a second one."""
    monkeypatch.setattr(os, "write", lambda fd, content: len(content) - 1)
    with pytest.raises(CgroupError, match="8 of 9 bytes were taken") as caught:
        files.write("/kubepods/pod1/cpu.max", "1000 2000")
    assert caught.value.errno == errno.EIO


def test_a_root_is_a_path() -> None:
    """A root with a NUL byte is refused."""
    with pytest.raises(CgroupError, match="not a path"):
        LocalFiles("/proc\0/x", magics=None)


def test_identity_of_what_is_not_there(files: LocalFiles) -> None:
    """The identity of a missing file is an error."""
    with pytest.raises(CgroupError, match="ENOENT"):
        files.identity("/kubepods/nope")


def test_a_descriptor_is_not_inherited(files: LocalFiles) -> None:
    """Neither the root nor a file that is open for a moment is inherited."""
    assert not os.get_inheritable(files._fd)
    name = b"kubepods/pod1/cpu.max"
    for way in (files._reading, files._writing, files._looking):
        fd = way(name, files._fd)
        assert not os.get_inheritable(fd)
        os.close(fd)


def test_the_file_system_has_to_be_of_the_right_type(tmp_path: Path) -> None:
    """A root of another file system type is refused when it is opened."""
    before = open_descriptors()
    with pytest.raises(CgroupError, match=r"file system type 0x\w+, expected 0x63677"):
        LocalFiles(str(tmp_path), magics=(CGROUP2_MAGIC,))
    with pytest.raises(CgroupError, match="ENOENT"):
        LocalFiles(str(tmp_path / "nope"))
    with pytest.raises(CgroupError, match="ENOTDIR"):
        LocalFiles("/proc/meminfo")
    with pytest.raises(CgroupError, match="no cgroup v1 controller is mounted"):
        LocalFiles(str(tmp_path), hierarchies={})
    assert open_descriptors() == before


def test_a_file_system_of_the_kernels(opener: object) -> None:
    """In /proc, symlinks are not followed either."""
    with LocalFiles("/proc", magics=(PROC_MAGIC,)) as proc:
        assert proc.read("/meminfo").startswith("MemTotal:")
        assert "self" not in proc.children("/")
        with pytest.raises(CgroupError, match="ELOOP"):
            proc.read("/self/status")


def test_another_mount_is_not_entered(opener: object) -> None:
    """A file system that is mounted below the root cannot be reached."""
    with LocalFiles("/", magics=None) as everything:
        with pytest.raises(CgroupError) as caught:
            everything.read("/proc/meminfo")
        assert caught.value.errno == errno.EXDEV


def test_each_v1_controller_is_a_root_of_its_own(
    tmp_path: Path, opener: object
) -> None:
    """The directory of `cpu` is given, because `cpu` may be a symlink."""
    joint = tmp_path / "cpu,cpuacct"
    (joint / "kubepods").mkdir(parents=True)
    (joint / "kubepods" / "cpu.shares").write_text("1024\n")
    (joint / "kubepods" / "cpuacct.usage").write_text("1\n")
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    with LocalFiles(str(tmp_path), magics=None) as plain:
        assert not plain.exists("/cpu/kubepods/cpu.shares")
    mounted = {"cpu": str(joint), "cpuacct": str(joint)}
    with LocalFiles(str(tmp_path), magics=None, hierarchies=mounted) as files:
        assert files.read("/cpu/kubepods/cpu.shares") == "1024\n"
        assert files.read("/cpuacct/kubepods/cpuacct.usage") == "1\n"
        assert files.children("/") == ["cpu", "cpuacct"]
        assert files.children("/cpu") == ["kubepods"]
        assert not files.exists("/memory/kubepods")
        with pytest.raises(CgroupError, match="no such controller is mounted"):
            files.read("/memory/kubepods/memory.stat")
        with pytest.raises(CgroupError):
            files.read("/cpu/../cpu/kubepods/cpu.shares")
        with pytest.raises(CgroupError):
            files.read("/cpu//kubepods/../../x")


def test_after_close_nothing_is_reachable(files: LocalFiles) -> None:
    """Every call fails after close, and closing twice is allowed."""
    files.close()
    files.close()
    with pytest.raises(CgroupError, match="EBADF"):
        files.read("/kubepods/pod1/cpu.max")


def test_kernels_without_openat2_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fallback is used for ENOSYS (before Linux 5.6) and EPERM (seccomp)."""
    assert syscalls.best_opener() is syscalls.resolving_opener
    for number in (errno.ENOSYS, errno.EPERM):

        def refusing(flags: int, number: int = number) -> syscalls.Opener:
            def refuse(path: bytes, directory: int) -> int:
                raise OSError(number, "refused")

            return refuse

        monkeypatch.setattr(syscalls, "resolving_opener", refusing)
        assert syscalls.best_opener() is syscalls.walking_opener


HOSTILE = st.one_of(
    st.text(max_size=40),
    st.text("./\\\0\n-_a1:", max_size=40),
    st.lists(
        st.sampled_from(["..", ".", "", "kubepods", "pod1", "out", "secret", "\0"])
    ).map("/".join),
)


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with every way out that a file system has."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text(OUTSIDE)
    (outside / "cpu.max").write_text(OUTSIDE)
    root = outside / "root"
    (root / "kubepods" / "pod1").mkdir(parents=True)
    for directory in (root, root / "kubepods", root / "kubepods" / "pod1"):
        (directory / "out").symlink_to(outside)
        (directory / "secret").symlink_to(outside / "secret")
        (directory / "cpu.max").write_text("max 100000\n")
    return root


SLOW_FIXTURE = settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("way", OPENERS, ids=["openat2", "walk"])
@SLOW_FIXTURE
@given(path=HOSTILE)
def test_no_path_escapes(
    trap: Path, way: Callable[[int], syscalls.Opener], path: str
) -> None:
    """No text of a path reads or writes a file outside of the root."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "best_opener", lambda: way)
        with LocalFiles(str(trap), magics=None) as files:
            for one in (path, f"/{path}", f"/kubepods/{path}/cpu.max"):
                with contextlib.suppress(CgroupError):
                    assert OUTSIDE not in files.read(one)
                with contextlib.suppress(CgroupError):
                    files.write(one, "max 100000\n")
    assert (trap.parent / "secret").read_text() == OUTSIDE
    assert (trap.parent / "cpu.max").read_text() == OUTSIDE


@SLOW_FIXTURE
@given(uid=HOSTILE, container_id=HOSTILE, driver=st.sampled_from(Driver))
def test_no_pod_uid_or_container_id_escapes(
    trap: Path, uid: str, container_id: str, driver: Driver
) -> None:
    """A UID or ID is refused when the path is built, or stays below the root."""
    layout = NodePaths(2, driver)
    with LocalFiles(str(trap), magics=None) as files:
        tree = Tree(files, 2)
        built = []
        with contextlib.suppress(ConfigError):
            built.append(layout.pod("Burstable", uid))
        with contextlib.suppress(ConfigError):
            runtime = RuntimeName.CONTAINERD
            built.append(layout.container("Guaranteed", "1", container_id, runtime))
        for cgroup in built:
            assert ".." not in cgroup.split("/")
            with contextlib.suppress(CgroupError):
                assert OUTSIDE not in tree.read("cpu.cfs_quota_us", cgroup)


@SLOW_FIXTURE
@given(value=st.text(max_size=60))
def test_no_value_lands_anywhere_else(trap: Path, value: str) -> None:
    """A valid value is one write to one file, and an invalid one is none."""
    with LocalFiles(str(trap), magics=None) as files:
        tree = Tree(files, 2)
        for kind in ("cpu.cfs_quota_us", "cpu.cfs_period_us"):
            try:
                tree.set(kind, "/kubepods", value)
            except ConfigError:
                continue
            except CgroupError:
                raise AssertionError(value) from None
            assert "\n" not in tree.read(kind, "/kubepods").strip()
    assert (trap.parent / "cpu.max").read_text() == OUTSIDE

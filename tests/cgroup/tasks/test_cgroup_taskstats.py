"""Task states of cgroup v1, counted by this machine's kernel; nothing is written."""

from __future__ import annotations

import os
from errno import EINVAL, ELOOP, ENOENT, EXDEV
from pathlib import Path

import pytest
from support.needs import need

from nriplugin.cgroup.locate.mounts import MOUNTINFO, parse_mountinfo
from nriplugin.cgroup.tasks.taskstats import CgroupStats
from nriplugin.errors import CgroupError


@pytest.fixture(scope="module")
def hierarchy() -> str:
    """A directory in which a v1 hierarchy is mounted."""
    hierarchies = parse_mountinfo(Path(MOUNTINFO).read_text()).hierarchies
    if not hierarchies:
        need("cgroup-v1", "no v1 hierarchy is mounted")
    return hierarchies.get("cpu") or next(iter(hierarchies.values()))


def test_the_kernel_counts_this_process(hierarchy: str) -> None:
    """This process runs while the kernel counts it."""
    controllers = Path("/proc/self/cgroup").read_text().splitlines()
    name = Path(hierarchy).name
    own = next(line.split(":")[2] for line in controllers if f":{name}:" in line)
    with CgroupStats(hierarchy) as stats:
        states = stats.states(own)
    assert states.running >= 1
    assert states.unseen == 0


@pytest.mark.parametrize(
    ("cgroup", "errno"),
    [
        ("/nonexistent", ENOENT),
        ("/../memory", EXDEV),
        ("/a/../..", EXDEV),
        ("relative", EINVAL),
        ("", EINVAL),
        ("/a\0b", EINVAL),
        ("/$(id)'\"\n", ENOENT),
    ],
)
def test_only_what_is_in_the_hierarchy(hierarchy: str, cgroup: str, errno: int) -> None:
    """The error names the cgroup and the reason."""
    with CgroupStats(hierarchy) as stats, pytest.raises(CgroupError) as caught:
        stats.states(cgroup)
    assert caught.value.errno == errno
    assert caught.value.path == cgroup


def test_what_is_no_cgroup_of_version_1_is_refused(tmp_path: Path) -> None:
    """The kernel refuses, and the call does not wait for ever."""
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("/")
    with CgroupStats(str(tmp_path)) as stats:
        with pytest.raises(CgroupError) as caught:
            stats.states("/a")
        assert caught.value.errno == EINVAL
        with pytest.raises(CgroupError) as caught:
            stats.states("/link")
        assert caught.value.errno == ELOOP


def test_no_hierarchy_is_an_error(tmp_path: Path) -> None:
    """The error names the directory."""
    with pytest.raises(CgroupError, match="/none: No such file"):
        CgroupStats(str(tmp_path / "none"))


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """Socket and directories are closed, also after an error."""

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    with CgroupStats(str(tmp_path)):
        pass
    before = descriptors()
    for _ in range(3):
        with CgroupStats(str(tmp_path)) as stats, pytest.raises(CgroupError):
            stats.states("/")
        with pytest.raises(CgroupError):
            CgroupStats(str(tmp_path / "none"))
    assert descriptors() == before

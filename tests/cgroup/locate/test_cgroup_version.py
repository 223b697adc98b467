from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from nriplugin.cgroup import syscalls
from nriplugin.cgroup.files import CGROUP2_MAGIC
from nriplugin.cgroup.locate.mounts import parse_mountinfo
from nriplugin.cgroup.locate.version import (
    ENV_VERSION,
    ENV_VOLCANO_VERSION,
    detect_version,
)
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

TMPFS_MAGIC = 0x1021994


@pytest.fixture
def unified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The directories that statfs says are cgroup2; everything else is tmpfs."""
    found: set[str] = set()

    def magic(fd: int) -> int:
        here = os.readlink(f"/proc/self/fd/{fd}")
        return CGROUP2_MAGIC if here in found else TMPFS_MAGIC

    monkeypatch.setattr(syscalls, "filesystem_magic", magic)
    return found


def test_the_unified_hierarchy_is_recognised_by_its_type(
    tmp_path: Path, unified: set[str]
) -> None:
    """By the type of the file system alone, not by what is in it."""
    (tmp_path / "cgroup.controllers").touch()
    version = detect_version({}, str(tmp_path))
    assert (version.number, version.hybrid) == (1, "")
    assert f"type {TMPFS_MAGIC:#x}, not 0x63677270" in version.evidence
    unified.add(str(tmp_path))
    version = detect_version({}, str(tmp_path))
    assert (version.number, version.hybrid) == (2, "")
    assert "type 0x63677270 (cgroup2)" in version.evidence


def test_a_hybrid_node_is_v1_and_says_so(tmp_path: Path, unified: set[str]) -> None:
    """Its controllers are v1's; the unified hierarchy is beside them."""
    (tmp_path / "unified").mkdir()
    unified.add(str(tmp_path / "unified"))
    version = detect_version({}, str(tmp_path))
    assert version.number == 1
    assert version.hybrid == f"{tmp_path}/unified is cgroup2"


def test_this_machines_own_root_can_be_asked() -> None:
    """statfs really is called, and gives one of the two."""
    version = detect_version({})
    assert version.number in (1, 2)
    assert "type 0x" in version.evidence


def test_a_root_that_cannot_be_asked_is_taken_for_v1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while looking gives v1 and raises nothing."""
    version = detect_version({}, str(tmp_path / "nope"))
    assert version.number == 1
    assert version.evidence.endswith("its type: No such file or directory")

    def failing(fd: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(syscalls, "filesystem_magic", failing)
    version = detect_version({}, str(tmp_path))
    assert (version.number, version.hybrid) == (1, "")
    assert version.evidence.endswith("its type: Input/output error")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("number", [1, 2])
def test_the_environment_wins(tmp_path: Path, number: int) -> None:
    """A version in the environment is used without looking at the node."""
    environ = {ENV_VERSION: str(number)}
    assert detect_version(environ, str(tmp_path)).number == number


@pytest.mark.parametrize(
    ("value", "number"), [("v1", 1), ("v2", 2), ("1", 1), ("2", 2)]
)
def test_volcanos_variable_is_understood(value: str, number: int) -> None:
    """All four of its values are read; nriplugin's own variable wins over it."""
    version = detect_version({ENV_VOLCANO_VERSION: value})
    assert version == (number, "VOLCANO_TEST_CGROUP_VERSION is set", "")
    other = {ENV_VOLCANO_VERSION: value, ENV_VERSION: str(3 - number)}
    assert detect_version(other).number == 3 - number


def test_a_wrong_environment_is_refused() -> None:
    """The error names the variable, the value and what was expected."""
    with pytest.raises(ConfigError, match=f"{ENV_VERSION}: 'v2', expected 1 or 2"):
        detect_version({ENV_VERSION: "v2"})
    with pytest.raises(ConfigError, match=f"{ENV_VOLCANO_VERSION}: 'v3', expected 1 o"):
        detect_version({ENV_VOLCANO_VERSION: "v3"})


HYBRID = """\
31 23 0:28 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:30 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd
34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:16 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw shared:17 - cgroup cgroup rw,memory
36 31 0:33 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
37 31 0:34 / /mnt/my\\040cgroups/pids rw - cgroup cgroup rw,pids
38 31 0:35 / /sys/fs/cgroupish rw - cgroup2 cgroup2 rw
39 31 0:36 / / rw - ext4 /dev/vda rw
not a line of mountinfo
"""


def test_controllers_are_found_where_they_are_mounted() -> None:
    """Two in one directory, by option; named hierarchies are no controllers."""
    mounts = parse_mountinfo(HYBRID, "/sys/fs/cgroup")
    joint = "/sys/fs/cgroup/cpu,cpuacct"
    assert mounts.hierarchies == {
        "cpu": joint,
        "cpuacct": joint,
        "memory": "/sys/fs/cgroup/memory",
    }
    assert mounts.unified == ("/sys/fs/cgroup/unified",)


def test_only_mounts_below_the_root_count() -> None:
    """Mounts elsewhere are left out; blanks in names are unescaped."""
    everywhere = parse_mountinfo(HYBRID)
    assert everywhere.hierarchies["pids"] == "/mnt/my cgroups/pids"
    assert len(everywhere.unified) == 2
    pure = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
    assert parse_mountinfo(pure, "/sys/fs/cgroup").unified == ("/sys/fs/cgroup",)
    assert parse_mountinfo(pure, "/host").unified == ()


@pytest.mark.parametrize("turned", [False, True])
def test_a_whole_hierarchy_is_preferred_to_a_containers_part(turned: bool) -> None:
    """The mount of a whole hierarchy counts, in whichever order they are mounted."""
    lines = HYBRID.splitlines()[4:6]
    lines[1] = lines[1].replace("/sys/fs/cgroup/memory", "/sys/fs/cgroup/mine")
    text = "\n".join(reversed(lines) if turned else lines)
    assert parse_mountinfo(text).hierarchies == {"memory": "/sys/fs/cgroup/memory"}

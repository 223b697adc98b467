"""The findings about cgroups and the kernel."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from support.hosts import FakeHost

from nriplugin.cgroup.files import LocalFiles
from nriplugin.daemon.doctor import kernel
from nriplugin.daemon.doctor.cgroups import check
from nriplugin.daemon.doctor.mount_options import parse_mount

if TYPE_CHECKING:
    from pathlib import Path

MOUNT = "30 24 0:26 / /sys/fs/cg\\040roup {} shared:9 - cgroup2 cgroup2 {}\n"


def test_cgroup_v2_is_fine(host: FakeHost) -> None:
    assert host.one(check, "cgroup-version")[0] == "ok"
    assert host.one(check, "controllers")[0] == "ok"
    assert host.one(check, "delegation")[0] == "ok"
    assert host.find(check, "cgroup-root") == []


def test_cgroup_v1_is_a_warning(tmp_path: Path) -> None:
    """The controllers are looked at all the same, cpuacct among them."""
    host = FakeHost(tmp_path, version=1)
    level, text, advice = host.one(check, "cgroup-version")
    assert level == "warning"
    assert "direct writes only on such a node" in text
    assert "systemd.unified_cgroup_hierarchy=1" in advice
    assert host.one(check, "controllers")[0] == "ok"
    assert host.find(check, "delegation") == []
    shutil.rmtree(host.cgroups / "cpuacct")
    level, text, _ = host.one(check, "controllers")
    assert level == "problem"
    assert "cpuacct are missing" in text


def test_cgroups_that_cannot_be_read_are_a_problem(host: FakeHost) -> None:
    shutil.rmtree(host.cgroups)
    level, _, advice = host.one(check, "cgroup-root")
    assert level == "problem"
    assert "--cgroup-root" in advice
    assert host.find(check, "controllers") == []


def test_missing_controllers_are_a_problem(host: FakeHost) -> None:
    host.write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io pids\n")
    level, text, _ = host.one(check, "controllers")
    assert level == "problem"
    assert "The controllers memory are missing" in text
    host.write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory pids\n")
    level, text, _ = host.one(check, "controllers")
    assert level == "note"
    assert "It lacks hugetlb." in text


@pytest.mark.parametrize("cgroup", ["", "kubepods/"])
def test_controllers_have_to_be_handed_down(host: FakeHost, cgroup: str) -> None:
    """The advice names the file and what to write to it."""
    file = host.write(f"/sys/fs/cgroup/{cgroup}cgroup.subtree_control", "cpuset cpu\n")
    level, text, advice = host.one(check, "delegation")
    assert level == "problem"
    assert text.startswith("/kubepods does not" if cgroup else "/ does not")
    assert f"echo '+memory' > {file}" in advice


def test_a_node_without_pods_has_nothing_to_hand_down(host: FakeHost) -> None:
    shutil.rmtree(host.cgroups / "kubepods")
    level, text, _ = host.one(check, "delegation")
    assert level == "note"
    assert "no cgroup /kubepods" in text


def test_a_delegation_that_cannot_be_read(host: FakeHost) -> None:
    (host.cgroups / "kubepods/cgroup.subtree_control").unlink()
    assert host.one(check, "delegation")[0] == "warning"


def test_the_driver_and_its_evidence(host: FakeHost) -> None:
    level, text, _ = host.one(check, "cgroup-driver")
    assert level == "ok"
    assert "cgroupfs, by file system" in text
    host.kubelet("cgroupDriver: systemd\n")
    level, text, advice = host.one(check, "cgroup-driver")
    assert level == "warning"
    assert "/kubepods is there, which the other driver makes" in text
    assert "CGROUP_DRIVER=cgroupfs" in advice
    (host.cgroups / "kubepods.slice").mkdir()
    assert host.one(check, "cgroup-driver")[0] == "ok"


def test_the_system_bus(host: FakeHost) -> None:
    """Only with systemd as the driver is it of use."""
    assert host.find(check, "system-bus") == []
    host.kubelet("cgroupDriver: systemd\n")
    level, text, advice = host.one(check, "system-bus")
    assert level == "note"
    assert "it does not exist" in text
    assert "component systemd" in advice
    with host.listening(f"{host.root}/run/dbus/system_bus_socket"):
        assert host.one(check, "system-bus")[0] == "ok"


def test_a_driver_without_evidence_is_a_note(host: FakeHost) -> None:
    shutil.rmtree(host.cgroups / "kubepods")
    level, _, advice = host.one(check, "cgroup-driver")
    assert level == "note"
    assert "CGROUP_DRIVER" in advice


@pytest.mark.parametrize(
    ("options", "super_options"), [("rw", "rw,nsdelegate"), ("ro,nosuid", "rw")]
)
def test_the_options_of_a_mount(options: str, super_options: str) -> None:
    """The last mount at a directory covers the others."""
    text = MOUNT.format("noexec", "none") + MOUNT.format(options, super_options)
    found = parse_mount(f"{text}nonsense\n", "/sys/fs/cg roup")
    assert found is not None
    assert found.options == set(options.split(","))
    assert found.super_options == set(super_options.split(","))
    assert parse_mount(text, "/sys/fs") is None


@pytest.mark.parametrize("delegated", [True, False])
def test_nsdelegate(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, delegated: bool
) -> None:
    """Without it, a container may change its own limits."""
    options = "rw,nsdelegate" if delegated else "rw"
    line = f"30 24 0:26 / {host.cgroups} rw - cgroup2 cgroup2 {options}\n"
    host.write("/proc/self/mountinfo", line)
    assert host.find(check, "nsdelegate") == []  # a plain directory is not the kernel's
    seen = host.examined()
    seen.node = seen.node._replace(plain=False)
    # It claims to be the kernel's, so the files have to be opened as what they are.
    plain = host.examined().node
    monkeypatch.setattr(
        type(plain), "open_files", lambda _: LocalFiles(plain.cgroup_root, magics=None)
    )
    monkeypatch.setattr(type(seen.node), "controllers", lambda _: ["cpu"])
    (found,) = [one for one in check(seen) if one.check == "nsdelegate"]
    assert str(found.level) == ("ok" if delegated else "note")
    assert ("remount,nsdelegate" in found.advice) is not delegated


def test_cgroups_that_may_not_be_written(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only mount, as in the DaemonSet, is only a note."""
    assert host.one(check, "cgroup-writes")[0] == "ok"
    allowed = os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode, **more: (
            not str(path).startswith(str(host.cgroups)) and allowed(path, mode, **more)
        ),
    )
    assert host.one(check, "cgroup-writes")[0] == "warning"
    line = f"30 24 0:26 / {host.cgroups} ro - cgroup2 cgroup2 rw\n"
    host.write("/proc/self/mountinfo", line)
    seen = host.examined()
    files = seen.node.open_files()
    seen.node = seen.node._replace(plain=False)
    monkeypatch.setattr(type(seen.node), "open_files", lambda _: files)
    (found,) = [one for one in check(seen) if one.check == "cgroup-writes"]
    assert str(found.level) == "note"
    assert "mounted read-only" in found.text
    assert "cgroup-writes" in found.advice


@pytest.mark.parametrize(
    ("release", "level", "words"),
    [
        ("6.1.0-amd64", "ok", "6.1.0-amd64"),
        ("5.14.0", "note", "no cpu.idle"),
        ("5.8.1", "note", "no a reliable memory.high, no cpu.max.burst"),
        ("4.18.0-rhel", "warning", "older than 5.8"),
    ],
)
def test_the_kernel(
    host: FakeHost,
    monkeypatch: pytest.MonkeyPatch,
    release: str,
    level: str,
    words: str,
) -> None:
    now = os.uname()
    changed = os.uname_result((now[0], now[1], release, now[3], now[4]))
    monkeypatch.setattr(os, "uname", lambda: changed)
    found = host.one(kernel.check, "kernel")
    assert found[0] == level
    assert words in found[1]


def test_systemd_by_the_name_of_its_library(host: FakeHost) -> None:
    assert host.find(kernel.check, "systemd") == []
    host.kubelet("cgroupDriver: systemd\n")
    assert host.one(kernel.check, "systemd")[0] == "note"
    host.write("/run/systemd/system/x", "")
    level, text, _ = host.one(kernel.check, "systemd")
    assert level == "ok"
    assert "cannot be read" in text
    old = host.write("/usr/lib/systemd/libsystemd-shared-239.so", "")
    assert host.one(kernel.check, "systemd")[0] == "warning"
    old.unlink()
    host.write("/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-252.19.so", "")
    assert host.one(kernel.check, "systemd") == (
        *("ok", "The node runs systemd 252."),
        "",
    )


def test_pressure_and_swap(host: FakeHost) -> None:
    assert host.one(kernel.check, "pressure")[0] == "note"
    assert host.one(kernel.check, "swap")[0] == "note"
    host.write("/proc/pressure/memory", "")
    host.write("/proc/swaps", "Filename\n/dev/sda2\n/dev/sdb2\n")
    assert host.one(kernel.check, "pressure")[0] == "ok"
    assert host.one(kernel.check, "swap")[:2] == (
        *("ok", "The node has swap (2 areas)."),
    )

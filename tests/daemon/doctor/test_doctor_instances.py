"""The findings about nriplugin that is there more than once."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.hosts import IN_A_POD, daemon_answering

from nriplugin.daemon.doctor.conflicts import check
from nriplugin.daemon.doctor.instances import lock_owners
from nriplugin.daemon.instance_lock import InstanceLock, lock_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.hosts import FakeHost

RUN = "/opt/bin/python3 /opt/bin/nriplugin run"


@contextmanager
def locked(host: FakeHost, door: str = "nri") -> Iterator[int]:
    """Hold a lock in the host's state directory; yields the inode of its file."""
    path = lock_path(str(host.state), door, "/run/runtime.sock")
    with InstanceLock(path) as lock:
        assert lock.attempt()
        yield os.stat(path).st_ino


def flocks(host: FakeHost, *pairs: tuple[int, int]) -> None:
    """Write the host's list of locks, from pairs of a PID and an inode."""
    lines = ["1: POSIX  ADVISORY  WRITE 7 00:16:28457 0 EOF"]
    for pid, inode in pairs:
        lines += [
            f"2: FLOCK  ADVISORY  WRITE {pid} 08:01:{inode} 0 EOF",
            f"2: -> FLOCK  ADVISORY  WRITE 4 08:01:{inode} 0 EOF",
        ]
    host.write("/proc/locks", "\n".join(lines))


def test_nriplugin_is_there_only_once(host: FakeHost) -> None:
    assert "No other nriplugin" in host.one(check, "instances")[1]
    host.process(9, RUN)
    host.process(10, "/opt/bin/nriplugin doctor")
    host.process(11, "nriplugin-run run")
    host.process(12, "sudo nriplugin run")
    host.process(13, "python3 -u")
    level, text, _ = host.one(check, "instances")
    assert level == "ok"
    assert "once: process 9 (nriplugin run)" in text


@pytest.mark.parametrize("second", ["run", "pod", "cri-proxy", "launched"])
def test_nriplugin_twice_is_a_problem(host: FakeHost, second: str) -> None:
    """A service and a DaemonSet, or one of them and a file of the runtime's."""
    host.process(9, RUN)
    if second == "launched":
        host.executable("/opt/nri/plugins/99-nriplugin")
    elif second == "pod":
        host.process(12, "nriplugin run", cgroup=IN_A_POD)
    else:
        host.process(12, f"nriplugin {second}")
    level, text, advice = host.one(check, "instances")
    assert level == "problem"
    assert "2 times: process 9 (nriplugin run), " in text
    assert "Keep one way" in advice


def test_a_launched_process_is_the_one_of_its_file(host: FakeHost) -> None:
    host.executable("/opt/nri/plugins/99-nriplugin")
    host.process(9, RUN, NRI_PLUGIN_SOCKET="3")
    assert host.one(check, "instances")[0] == "ok"


def test_the_process_that_holds_the_lock_is_counted_once(host: FakeHost) -> None:
    """Also one that the runtime has launched, which is counted by its file."""
    host.process(9, RUN)
    with locked(host) as inode:
        flocks(host, (9, inode))
        level, text, _ = host.one(check, "instances")
        assert level == "ok"
        assert "once: process 9 (nriplugin run)" in text
        host.process(9, RUN, NRI_PLUGIN_SOCKET="3")
        host.executable("/opt/nri/plugins/99-nriplugin")
        level, text, _ = host.one(check, "instances")
        assert level == "ok"
        assert "once: /opt/nri/plugins/99-nriplugin" in text


def test_a_daemon_elsewhere_for_which_this_one_waits_is_seen_by_its_lock(
    host: FakeHost,
) -> None:
    """As in the pod of a DaemonSet whose node has the service as well."""
    host.process(1, RUN)
    with locked(host) as inode:
        flocks(host, (1, inode + 1))
        level, text, advice = host.one(check, "instances")
        assert level == "problem"
        assert "2 times: process 1 (nriplugin run), process " in text
        assert f"process {os.getpid()} (on " in text
        assert "Keep one way" in advice
    assert host.one(check, "instances")[0] == "ok"


def test_a_daemon_that_is_seen_by_its_lock_alone(host: FakeHost) -> None:
    """The lock of a daemon that answers on the control socket is no second one."""
    flocks(host)
    with locked(host), daemon_answering(host.control):
        level, text, _ = host.one(check, "instances")
        assert level == "ok"
        assert f"once: process {os.getpid()} (on " in text
        with locked(host, "cri"):
            assert host.one(check, "instances")[0] == "problem"


def test_the_lock_of_a_launched_process_that_is_not_to_be_seen(host: FakeHost) -> None:
    flocks(host)
    host.executable("/opt/nri/plugins/99-nriplugin")
    with locked(host):
        assert host.one(check, "instances")[0] == "ok"
        with locked(host, "cri"):
            assert host.one(check, "instances")[0] == "problem"


@pytest.mark.parametrize("text", [None, "2: FLOCK  ADVISORY  WRITE ? ? 0 EOF"])
def test_without_a_list_of_locks_a_process_counts_as_the_holder(
    host: FakeHost, text: str | None
) -> None:
    host.process(9, RUN)
    if text is not None:
        host.write("/proc/locks", text)
    with locked(host):
        assert host.one(check, "instances")[0] == "ok"
        with locked(host, "cri"):
            assert host.one(check, "instances")[0] == "problem"


def test_the_kernel_lists_who_holds_a_lock(host: FakeHost) -> None:
    with locked(host) as inode:
        assert os.getpid() in lock_owners(Path("/proc/locks").read_text())[inode]

"""Two processes of nriplugin never serve the same runtime at the same time."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.harness import PATIENCE_S, PATIENT, container, pod, wait_until
from support.processes import Place

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.daemon.instance_lock import InstanceLock, holders, lock_path
from nriplugin.nri.launch import DEFAULT_SOCKET
from nriplugin.nri.testing.runtime import EmbeddedRuntime
from nriplugin.state.connection import RuntimeConnection
from nriplugin.stopping import StopFlag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.state.connection import EarlierProcess


@contextmanager
def taken(path: str) -> Iterator[None]:
    """Hold a lock as another process would: the kernel's lock is the descriptor's."""
    with InstanceLock(path) as other:
        assert other.attempt()
        yield


class Waiter:
    """Counts how often a process is told that it waits."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.stopping = StopFlag()

    def acquire(self, lock: InstanceLock, limit_s: float | None = None) -> bool:
        return lock.acquire(self.stopping, self.texts.append, limit_s)


def test_a_free_lock_is_taken_at_once(tmp_path: Path) -> None:
    """The directory is made, and the file says who has the lock."""
    path = lock_path(str(tmp_path / "state"), "nri", "/run/nri.sock")
    waiter = Waiter()
    with InstanceLock(path) as lock:
        assert waiter.acquire(lock)
        assert waiter.texts == []
        assert holders(str(tmp_path / "state")) == [lock.holder()]
        assert lock.holder().startswith(f"process {os.getpid()} (on ")
    assert holders(str(tmp_path / "state")) == []


def test_each_door_and_runtime_has_a_lock_of_its_own(tmp_path: Path) -> None:
    """Two runtimes on one node may each have a process; a link is the same runtime."""
    os.symlink("/run/a.sock", tmp_path / "link")
    paths = [
        lock_path("/state", "nri", "/run/a.sock"),
        lock_path("/state", "nri", "/run/b.sock"),
        lock_path("/state", "cri", "/run/a.sock"),
    ]
    assert len(set(paths)) == 3
    assert lock_path("/state", "nri", str(tmp_path / "link")) == paths[0]


def test_the_wait_names_the_holder_and_ends_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The process goes on as soon as the other one has gone."""
    path, waiter = str(tmp_path / "instance.lock"), Waiter()
    other = InstanceLock(path)
    assert other.attempt()

    def waits(text: str) -> None:
        waiter.texts.append(text)
        other.__exit__()

    with InstanceLock(path) as lock, caplog.at_level("INFO"):
        assert lock.acquire(waiter.stopping, waits)
        assert lock.held
    name = f"process {os.getpid()} (on "
    assert [text.startswith(f"waits for {name}") for text in waiter.texts] == [True]
    assert name in caplog.text
    assert "has ended after" in caplog.text


def test_the_wait_ends_when_the_process_is_told_to_stop(tmp_path: Path) -> None:
    """SIGTERM must not have to wait for the other process."""
    path, waiter = str(tmp_path / "instance.lock"), Waiter()
    waiter.stopping.set()
    with taken(path), InstanceLock(path) as lock:
        assert not waiter.acquire(lock)
        assert not lock.held


def test_a_wait_may_have_a_limit(tmp_path: Path) -> None:
    """A plugin that the runtime has launched cannot wait for long."""
    path, waiter = str(tmp_path / "instance.lock"), Waiter()
    with taken(path), InstanceLock(path) as lock:
        assert not waiter.acquire(lock, limit_s=0.0)
        assert not waiter.stopping.is_set()


@pytest.mark.parametrize("kind", ["directory", "link", "below a file"])
def test_without_a_lock_the_process_goes_on_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """A state directory that cannot be used must not keep containers from starting."""
    path = tmp_path / "instance.lock"
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("elsewhere")
    else:
        path.write_text("")
        path = path / "instance.lock"
    with InstanceLock(str(path)) as lock:
        assert Waiter().acquire(lock)
        assert not lock.held
    assert "without this lock" in caplog.text


@pytest.mark.parametrize("text", [b"", b"\xff\xfe\0", b"no number", b"1 \x1b[31m"])
def test_a_text_that_is_not_a_holders_is_not_shown(tmp_path: Path, text: bytes) -> None:
    """The lock holds, whatever the file says."""
    path, waiter = tmp_path / "instance.lock", Waiter()
    with taken(str(path)), InstanceLock(str(path)) as lock:
        path.write_bytes(text)
        assert not waiter.acquire(lock, limit_s=0.0)
    assert waiter.texts == ["waits for another process of nriplugin to end"]


def test_a_node_without_a_state_directory_has_no_lock() -> None:
    """A copy of a node's cgroups is nobody's to lock."""
    with InstanceLock(None) as lock:
        assert Waiter().acquire(lock)


# Real processes


def test_a_process_that_waits_can_be_stopped(tmp_path: Path) -> None:
    """It registers with nobody, and ends with exit code 0."""
    place = Place(tmp_path)
    with (
        taken(lock_path(str(place.state), "nri", place.socket)),
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        place.daemon() as daemon,
    ):
        daemon.wait_for("still serves this runtime: waiting for its end")
        assert daemon.end() == 0
        assert runtime.registrations == []
    assert f"process {os.getpid()} (on " in daemon.log


def test_a_mistake_in_the_configuration_is_found_without_a_wait(tmp_path: Path) -> None:
    """An upgrade with a wrong configuration fails while the old process serves."""
    place = Place(tmp_path)
    config = tmp_path / "config.yaml"
    config.write_text("curve: round\n")
    with (
        taken(lock_path(str(place.state), "nri", place.socket)),
        place.daemon("--config", str(config)) as daemon,
    ):
        assert daemon.process.wait(PATIENCE_S) == 2
    assert "curve" in daemon.log


def test_a_launched_plugin_is_silent_while_another_process_serves(
    tmp_path: Path,
) -> None:
    """It registers in time, sets no key twice, and answers when the other has gone."""
    place = Place(tmp_path)
    path = lock_path(str(place.state), "nri", DEFAULT_SOCKET)
    arguments = place.arguments()
    arguments = [one for one in arguments if one not in ("--nri-socket", place.socket)]
    behaviour = replace(PATIENT, registration_timeout_s=PATIENCE_S)
    with EmbeddedRuntime(behaviour=behaviour) as runtime:
        with taken(path):
            launched = ("-m", "nriplugin", *arguments)
            pid = runtime.launch(sys.executable, *launched, name="nriplugin", idx="99")
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            app = container(1, shares=512)
            created = runtime.create_container(pod(), app)
            assert not created.adjust.HasField("linux")
            app.linux.resources.unified["cpu.weight"] = "59"
            wanted = container(shares=1024).linux.resources
            updated = runtime.update_container(pod(), app, wanted)
            assert not updated.resources.unified

        def answers() -> bool:
            created = runtime.create_container(pod(2), container(2, shares=512))
            return created.adjust.linux.resources.unified["cpu.weight"] == "59"

        wait_until(answers)
        # The value of the container from before is recognised, and follows a resize.
        updated = runtime.update_container(pod(), app, wanted)
        assert updated.resources.unified["cpu.weight"] == "100"
    assert os.waitpid(pid, 0)[1] == 0


def test_a_journal_that_begins_during_the_wait_is_opened(tmp_path: Path) -> None:
    """The process that waits has to know the direct writes of the one before it."""
    place = Place(tmp_path)
    path = lock_path(str(place.state), "nri", place.socket)
    with EmbeddedRuntime(place.socket, PATIENT) as runtime:
        other = ExitStack()
        other.enter_context(taken(path))
        with other, place.daemon() as daemon:
            wait_until(lambda: "waiting" in daemon.log)
            assert "direct writes:" not in daemon.log
            Journal(str(place.state)).close()
            other.close()
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            assert "direct writes: on" in daemon.log


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    """Also one that was killed leaves nothing behind that would hold up the next."""
    place = Place(tmp_path)
    with EmbeddedRuntime(place.socket, PATIENT) as runtime:
        with place.daemon() as daemon:
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            assert len(holders(str(place.state))) == 1
        with place.daemon(name="next") as daemon:
            runtime.wait_for_plugin(2, timeout_s=PATIENCE_S)
            assert "waiting" not in daemon.log


def test_the_lock_is_not_inherited(tmp_path: Path) -> None:
    """A child of the process must not hold the lock when its parent has gone."""
    with InstanceLock(str(tmp_path / "instance.lock")) as lock:
        assert lock.attempt()
        assert lock._file is not None
        assert fcntl.fcntl(lock._file, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


# The end of the process before


def connected(since: float | None, began: float = 0.0) -> RuntimeConnection:
    """Return a connection that was there once, and is or has ended."""
    connection = RuntimeConnection(lambda: began)
    connection.synchronized(0)
    connection.since, connection.began = since, began
    return connection


def earlier(path: str) -> EarlierProcess:
    """Take the lock, and return what is known of the process that had it before."""
    with InstanceLock(path) as lock:
        assert lock.attempt()
        assert lock.earlier is not None
        return lock.earlier


def test_a_killed_process_is_known_by_its_last_sign_of_life(tmp_path: Path) -> None:
    """A process gives signs only while it is connected."""
    path = str(tmp_path / "instance.lock")
    with InstanceLock(path) as killed:
        assert killed.attempt()
        assert killed.earlier is None  # nobody had the lock before
        os.utime(path, (1000, 1000))
        killed.give_sign_of_life(connected(None))
        assert os.stat(path).st_mtime == 1000
        began = time.time()
        killed.give_sign_of_life(connected(1.0))
        assert os.stat(path).st_mtime >= began - 1
        os.utime(path, (1000, 1000))
    found = earlier(path)
    assert found.last_seen == 1000
    assert found.reason.startswith(f"process {os.getpid()} (on ")
    end = "was killed or crashed; last sign of life at 1970-01-01T00:16:40Z"
    assert found.reason.endswith(end)


def test_a_process_that_ends_in_order_says_so(tmp_path: Path) -> None:
    """Its last sign of life is the end of its connection."""
    path = str(tmp_path / "instance.lock")
    with InstanceLock(path) as lock:
        assert lock.attempt()
        lock.note_end(connected(None, began=2000.0))
    found = earlier(path)
    assert found.last_seen == 2000
    assert found.reason.endswith("ended; it was connected until 1970-01-01T00:33:20Z")


def test_a_process_that_never_connected_leaves_the_earlier_time(tmp_path: Path) -> None:
    """The gap goes on, however many processes come and go in it."""
    path = str(tmp_path / "instance.lock")
    with InstanceLock(path) as lock:
        assert lock.attempt()
        os.utime(path, (1000, 1000))
    with InstanceLock(path) as lock:
        assert lock.attempt()
        assert os.stat(path).st_mtime == 1000
        lock.note_end(RuntimeConnection())
    assert earlier(path).last_seen == 1000


def test_a_sign_of_life_in_the_future_is_not_believed(tmp_path: Path) -> None:
    """The clock was set back since, so nobody knows when the process ended."""
    path, future = str(tmp_path / "instance.lock"), time.time() + 86400
    with InstanceLock(path) as lock:
        assert lock.attempt()
        os.utime(path, (future, future))
    found = earlier(path)
    assert found.last_seen < future - 3600
    assert found.reason.endswith("was killed or crashed; the clock was set since")


@pytest.mark.parametrize("text", [b"", b"\xff\0", b"12\n", b"x on host\n"])
def test_a_file_of_somebody_else_says_nothing(tmp_path: Path, text: bytes) -> None:
    """Without the text of a process, the time of the file means nothing."""
    path = tmp_path / "instance.lock"
    path.write_bytes(text)
    with InstanceLock(str(path)) as lock:
        assert lock.attempt()
        assert lock.earlier is None


def test_signs_of_life_are_given_only_with_the_lock() -> None:
    """Without a state directory there is nothing to write to."""
    with InstanceLock(None) as lock:
        assert lock.attempt()
        lock.give_sign_of_life(connected(1.0))
        lock.note_end(connected(1.0))

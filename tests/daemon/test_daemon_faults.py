"""Real processes on a damaged node answer the runtime's requests all the same."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from support.harness import PATIENCE_S, PATIENT, container, pod
from support.needs import need
from support.processes import Asking, Place, sent

from nriplugin.daemon.instance_lock import lock_path
from nriplugin.nri.testing.runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.processes import Daemon

# A handler that needs direct writes, and so the journal.
BURST = "cpuBurst:\n  enabled: true\n"


def works(runtime: EmbeddedRuntime, daemon: Daemon) -> None:
    """A creation and an update are answered, and the process ends well."""
    runtime.wait_for_plugin(timeout_s=PATIENCE_S)
    app = container(7, shares=512)
    created = runtime.create_container(pod(7), app)
    assert created.adjust.linux.resources.unified["cpu.weight"] == "59"
    app.linux.resources.unified.update(created.adjust.linux.resources.unified)
    wanted = container(7, shares=1024).linux.resources
    updated = runtime.update_container(pod(7), app, wanted)
    assert updated.resources.unified["cpu.weight"] == "100"
    assert daemon.end() == 0
    assert "Traceback" not in daemon.log


@contextmanager
def mounted(directory: Path, options: str) -> Iterator[None]:
    """A small file system at a directory, if this process may make one."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(directory)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        need("mount", done.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def configured(place: Place) -> list[str]:
    """Return the option with a configuration that needs direct writes."""
    config = place.directory / "config.yaml"
    config.write_text(BURST)
    return ["--config", str(config)]


def test_a_state_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """Lock, journal and records are missing; the log says what that means."""
    place = Place(tmp_path)
    (tmp_path / "file").write_text("")
    state = tmp_path / "file" / "state"
    with (
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        place.daemon(*configured(place), state=state) as daemon,
    ):
        works(runtime, daemon)
    assert "without this lock" in daemon.log
    assert "direct writes are off" in daemon.log
    assert "not remembered across restarts" in daemon.log


def test_a_read_only_state_directory(tmp_path: Path) -> None:
    """As above, with a file system that is read-only."""
    place = Place(tmp_path)
    with (
        mounted(place.state, "ro,size=64k"),
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        place.daemon(*configured(place)) as daemon,
    ):
        works(runtime, daemon)
    assert "Read-only file system: without this lock" in daemon.log
    assert "direct writes are off" in daemon.log


def test_a_full_disk(tmp_path: Path) -> None:
    """The lock holds without its text; journal and records cannot be written."""
    place = Place(tmp_path)
    with (
        mounted(place.state, "size=64k"),
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
    ):
        with open(place.state / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass
        with place.daemon(*configured(place)) as daemon:
            works(runtime, daemon)
    assert "without this lock" not in daemon.log
    assert "No space left on device" in daemon.log


def test_a_journal_that_is_no_database(tmp_path: Path) -> None:
    """A new one begins, and the file is kept for whoever wants to look at it."""
    place = Place(tmp_path)
    place.state.mkdir()
    journal = place.state / "journal.db"
    journal.write_bytes(b"this is not a database" * 100)
    with (
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        place.daemon(*configured(place)) as daemon,
    ):
        works(runtime, daemon)
    assert "the journal is damaged" in daemon.log
    assert "direct writes are off" not in daemon.log
    aside = place.state / "journal.db.damaged"
    assert aside.read_bytes().startswith(b"this is not a database")


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    """The values are then recognised by the annotation, or by comparison."""
    place = Place(tmp_path)
    records = place.state / "managed"
    records.mkdir(parents=True)
    (records / "c1").write_bytes(b"\xff\xfe\0\0 cpu.weight=")
    (records / "c2").write_text("cpu.weight=1;cpu.weight")
    (records / "c3").mkdir()
    (records / "c4.new").write_text("half of a rec")
    with EmbeddedRuntime(place.socket, PATIENT) as runtime:
        for number in (1, 2, 3, 4):
            app = container(number, shares=512)
            app.linux.resources.unified["cpu.weight"] = "59"
            runtime.pods[f"p{number}"] = pod(number)
            runtime.containers[f"c{number}"] = app
        with place.daemon() as daemon:
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            for number in (1, 2, 3, 4):
                app = runtime.containers[f"c{number}"]
                wanted = container(number, shares=1024).linux.resources
                updated = runtime.update_container(pod(number), app, wanted)
                assert updated.resources.unified["cpu.weight"] == "100"
            works(runtime, daemon)


def test_a_lock_file_that_cannot_be_locked(tmp_path: Path) -> None:
    """A directory in its place is a warning; a file with any text is locked."""
    place = Place(tmp_path)
    path = lock_path(str(place.state), "nri", place.socket)
    os.makedirs(path)
    with EmbeddedRuntime(place.socket, PATIENT) as runtime:
        with place.daemon(name="first") as daemon:
            works(runtime, daemon)
        assert "Is a directory: without this lock" in daemon.log
    os.rmdir(path)
    with open(path, "wb") as file:
        file.write(b"\xff\0 4711\n" * 100)
    with EmbeddedRuntime(place.socket, PATIENT) as runtime:
        with place.daemon(name="second") as daemon:
            works(runtime, daemon)
        assert "without this lock" not in daemon.log


def test_a_process_that_is_stopped_for_a_while(tmp_path: Path) -> None:
    """The runtime drops it and goes on; it registers again when it may run again."""
    place = Place(tmp_path)
    with (
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        place.daemon() as daemon,
    ):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        daemon.send(signal.SIGSTOP)
        runtime.behaviour = replace(PATIENT, request_timeout_s=1.0)
        runtime.run_pod_sandbox(pod())
        created = runtime.create_container(pod(), container(shares=512))
        assert not created.adjust.HasField("linux")
        assert len(runtime.dropped) == 1
        runtime.behaviour = PATIENT
        daemon.send(signal.SIGCONT)
        runtime.wait_for_plugin(2, timeout_s=PATIENCE_S)
        works(runtime, daemon)


def test_a_stop_that_is_shorter_than_the_timeout(tmp_path: Path) -> None:
    """The request waits, and is answered as any other."""
    place = Place(tmp_path)
    with (
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        place.daemon() as daemon,
    ):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        daemon.send(signal.SIGSTOP)
        request_sent = sent(runtime)
        app = container(shares=512)
        asking = Asking(lambda: runtime.create_container(pod(), app))
        assert request_sent.wait(PATIENCE_S)
        daemon.send(signal.SIGCONT)
        unified = asking.result().adjust.linux.resources.unified
        assert unified["cpu.weight"] == "59"
        works(runtime, daemon)

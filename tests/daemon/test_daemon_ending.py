"""The end of a process: requests are answered and records stored before it."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.harness import PATIENCE_S, PATIENT, container, pod
from support.processes import Asking, Place, sent

from nriplugin.nri.testing.runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.processes import Daemon


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_that_has_arrived_is_answered(tmp_path: Path, number: int) -> None:
    """The signal comes while the request waits in the socket; the exit code is 0."""
    place = Place(tmp_path)
    with EmbeddedRuntime(place.socket, PATIENT) as runtime, place.daemon() as daemon:
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        daemon.send(signal.SIGSTOP)
        request_sent = sent(runtime)
        asking = Asking(lambda: runtime.create_container(pod(), container(shares=512)))
        assert request_sent.wait(PATIENCE_S)
        daemon.send(number)
        daemon.send(signal.SIGCONT)
        created = asking.result()
        assert created.adjust.linux.resources.unified["cpu.weight"] == "59"
        assert daemon.process.wait(PATIENCE_S) == 0
    assert "containers that keep values of nriplugin: 1" in daemon.log
    assert daemon.log.count("stopped after ") == 1


@contextmanager
def storing(directory: Path, containers: int = 1) -> Iterator[tuple[Daemon, Path]]:
    """A daemon whose background thread stores the record of the first container.

    The thread waits at a pipe, `c1.new` in the directory of the records, until it is
    read. The updates of all containers are answered.
    """
    place = Place(directory)
    records = place.state / "managed"
    records.mkdir(parents=True)
    os.mkfifo(records / "c1.new")
    with EmbeddedRuntime(place.socket, PATIENT) as runtime, place.daemon() as daemon:
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        for number in range(1, containers + 1):
            app = container(number, shares=512)
            runtime.create_container(pod(number), app)
            wanted = container(number, shares=1024).linux.resources
            runtime.update_container(pod(number), app, wanted)
        yield daemon, records


def test_records_that_wait_are_stored(tmp_path: Path) -> None:
    """The record of an update that was answered is on disk when the process is gone."""
    with storing(tmp_path, containers=2) as (daemon, records):
        assert not (records / "c2").exists()
        daemon.send(signal.SIGTERM)
        daemon.wait_for("INFO stopping")
        with open(records / "c1.new") as pipe:
            pipe.read()
        assert daemon.process.wait(PATIENCE_S) == 0
    assert (records / "c2").read_text().startswith("cpu.weight=100;")


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    """An operator who does not want to wait for a background job need not."""
    with storing(tmp_path) as (daemon, _):
        daemon.send(signal.SIGTERM)
        daemon.wait_for("INFO stopping")
        assert daemon.end(signal.SIGTERM) == -signal.SIGTERM


def test_a_job_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """The process ends after a few seconds, and says that a job does not."""
    with storing(tmp_path) as (daemon, _):
        assert daemon.end() == 0
    assert "a background job does not end" in daemon.log

"""Upgrade in place: the new process starts while the old one serves."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from support.harness import PATIENCE_S, PATIENT, container, pod, wait_until
from support.processes import Place

from nriplugin.nri.testing.runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes import Daemon

FILES = {"cpu.weight": "59", "memory.max": "268435456"}


class Stream:
    """Creates one container after the other, and keeps what the runtime keeps.

    A key that two plugins set would fail the creation with RequestRejected.
    """

    def __init__(self, runtime: EmbeddedRuntime) -> None:
        self._runtime = runtime
        self.created: list[int] = []
        self.without_values: list[int] = []

    def create(self) -> None:
        number = len(self.created) + 1
        app = container(number, shares=512, limit_bytes=1 << 28)
        self._runtime.run_pod_sandbox(pod(number))
        adjust = self._runtime.create_container(pod(number), app).adjust
        app.linux.resources.unified.update(adjust.linux.resources.unified)
        app.annotations.update(adjust.annotations)
        self.created.append(number)
        if not adjust.linux.resources.unified:
            self.without_values.append(number)
        else:
            assert dict(adjust.linux.resources.unified) == FILES

    def create_until(self, daemon: Daemon, text: str) -> None:
        """Create containers until a process has logged a text, and one more."""

        def logged() -> bool:
            self.create()
            return text in daemon.log

        wait_until(logged)
        self.create()


def test_no_container_is_failed_or_lost(tmp_path: Path) -> None:
    """The old process serves until it is told to end; then the new one registers.

    A container that is created between the two gets no values, and the new process
    learns of it at Synchronize.
    """
    place = Place(tmp_path)
    with EmbeddedRuntime(place.socket, PATIENT) as runtime:
        stream = Stream(runtime)
        with place.daemon(name="old") as old:
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            stream.create()
            with place.daemon(name="new") as new:
                stream.create_until(new, "waiting for its end")
                assert f"process {old.process.pid} " in new.log
                assert stream.without_values == []
                assert len(runtime.registrations) == 1
                old.send(signal.SIGTERM)
                stream.create_until(new, "synchronized: ")
                assert old.process.wait(PATIENCE_S) == 0
                before = len(stream.without_values)
                for _ in range(5):
                    stream.create()
                assert len(stream.without_values) == before
                assert len(runtime.registrations) == 2
                self_said = new.wait_for("synchronized: ")
                assert new.end() == 0
    # Everything that the old process did not see is in the new one's list.
    line = next(one for one in self_said.splitlines() if "synchronized: " in one)
    listed = int(line.rpartition("pods, ")[2].split()[0])
    assert all(number <= listed for number in stream.without_values)
    assert "stopped after" in old.log
    # The old process had gone before the new one registered.
    assert new.log.index("has ended after") < new.log.index("registered with")


def test_an_update_across_the_upgrade_is_followed(tmp_path: Path) -> None:
    """The new process knows which values the old one has set."""
    place = Place(tmp_path)
    with EmbeddedRuntime(place.socket, PATIENT) as runtime:
        stream = Stream(runtime)
        with place.daemon(name="old") as old:
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            stream.create()
            with place.daemon(name="new") as new:
                new.wait_for("waiting for its end")
                assert old.end() == 0
                runtime.wait_for_plugin(2, timeout_s=PATIENCE_S)
                app = runtime.containers["c1"]
                wanted = container(shares=1024).linux.resources
                updated = runtime.update_container(pod(), app, wanted)
                assert updated.resources.unified["cpu.weight"] == "100"

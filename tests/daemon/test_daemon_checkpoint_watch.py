"""The thread that watches kubelet's checkpoint, with real files and real renames."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.checkpoints import checkpoint_text, replace
from support.harness import wait_until
from support.trees import UID

from nriplugin.daemon import checkpoint_watch
from nriplugin.daemon.checkpoint_watch import CheckpointWatch
from nriplugin.node import directory_events
from nriplugin.node.kubelet_checkpoint import KubeletCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATH = "/kubelet/allocated_pods_state"
MIB = 1 << 20


class Published:
    """What the watch has published, and the watch."""

    def __init__(self, root: Path) -> None:
        self.file = root / PATH[1:]
        self.file.parent.mkdir()
        self.all: list[Any] = []
        self.watch = CheckpointWatch(str(root), self.all.append)

    def write(self, memory: str) -> None:
        replace(self.file, checkpoint_text({UID: {"app": memory}}))

    def wait_for(self, mib: int) -> None:
        wait_until(lambda: self.all and self.all[-1] == {UID: {"app": mib * MIB}})


@pytest.fixture
def published(tmp_path: Path) -> Iterator[Published]:
    result = Published(tmp_path)
    yield result
    result.watch.stop()
    wait_until(lambda: "checkpoint" not in {t.name for t in threading.enumerate()})


def test_what_is_there_is_published_before_anything_is_decided(
    published: Published,
) -> None:
    """`configure` waits for the first look, and the path is below the host root."""
    published.write("128Mi")
    published.watch.configure(PATH)
    assert published.all[-1] == {UID: {"app": 128 * MIB}}


def test_a_rename_is_seen(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By inotify alone: the thread does not look by itself within the test."""
    monkeypatch.setattr(checkpoint_watch, "INTERVAL_S", 3600.0)
    published.watch.configure(PATH)
    assert published.all == [{}]
    for mib in (64, 96, 128):
        published.write(f"{mib}Mi")
        published.wait_for(mib)
    published.file.unlink()
    wait_until(lambda: published.all[-1] == {})


def test_without_inotify_the_thread_looks_by_itself(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node may have no inotify instance left."""
    monkeypatch.setattr(checkpoint_watch, "INTERVAL_WITHOUT_EVENTS_S", 0.01)
    monkeypatch.setattr(directory_events._libc, "inotify_init1", lambda flags: -1)
    published.watch.configure(PATH)
    published.write("64Mi")
    published.wait_for(64)


def test_the_directory_may_come_later_and_be_another_one(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubelet may be installed after nriplugin, or again."""
    monkeypatch.setattr(checkpoint_watch, "INTERVAL_S", 0.01)
    monkeypatch.setattr(checkpoint_watch, "INTERVAL_WITHOUT_EVENTS_S", 0.01)
    published.file.parent.rmdir()
    published.watch.configure(PATH)
    published.file.parent.mkdir()
    published.write("64Mi")
    published.wait_for(64)
    published.file.parent.rename(published.file.parent.with_name("old"))
    published.file.parent.mkdir()
    published.write("96Mi")
    published.wait_for(96)


def test_a_file_that_cannot_be_used_is_said_once(
    published: Published,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However often it is looked at; and so is that it can be used again."""
    monkeypatch.setattr(checkpoint_watch, "INTERVAL_S", 0.01)
    monkeypatch.setattr(checkpoint_watch, "REST_S", 0.0)
    with caplog.at_level(logging.INFO, checkpoint_watch.__name__):
        replace(published.file, b"garbage")
        published.watch.configure(PATH)
        looks = threading.Semaphore(0)
        checkpoint = published.watch.checkpoint
        assert checkpoint is not None
        look = checkpoint.look

        def counted() -> bool:
            looks.release()
            return look()

        monkeypatch.setattr(checkpoint, "look", counted)
        for _ in range(5):
            assert looks.acquire(timeout=30)
        assert checkpoint.failures == 1
        published.write("64Mi")
        published.wait_for(64)
        wait_until(lambda: len(caplog.records) == 2)
    levels = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert levels[0][0] == "WARNING"
    assert "cannot be used: JSON is malformed" in levels[0][1]
    assert levels[1][0] == "INFO"
    assert "memory requests are taken from it" in levels[1][1]


def test_a_disk_that_hangs_delays_nobody_but_the_thread(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither `configure` nor `stop` waits for it, and a late look is not published."""
    monkeypatch.setattr(checkpoint_watch, "FIRST_LOOK_S", 0.01)
    hanging, ends = threading.Event(), threading.Event()

    def look(self: object) -> bool:
        hanging.set()
        ends.wait()
        return True

    monkeypatch.setattr(KubeletCheckpoint, "look", look)
    published.watch.configure(PATH)
    assert hanging.wait(30)
    published.watch.configure(None)
    before = list(published.all)
    ends.set()
    wait_until(lambda: "checkpoint" not in {t.name for t in threading.enumerate()})
    assert published.all == before


def test_another_path_and_no_path(published: Published) -> None:
    """The requests of the earlier path do not stay."""
    published.write("64Mi")
    published.watch.configure(PATH)
    published.watch.configure(PATH)
    assert published.all == [{}, {UID: {"app": 64 * MIB}}]
    published.watch.configure("/kubelet/other")
    assert published.all[2:] == [{}]
    published.watch.configure(PATH)
    published.wait_for(64)
    published.watch.configure(None)
    assert published.all[-1] == {}
    assert published.watch.checkpoint is None

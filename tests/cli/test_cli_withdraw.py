"""`nriplugin withdraw`, with a real daemon and without one."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from doors.nri.messages import container_at, pod_at
from support.harness import PATIENCE_S, PATIENT
from support.journals import journalled_tree
from support.processes import Place
from support.trees import POD, QOS

from nriplugin.cgroup.types.registry import Type
from nriplugin.cli.main import main
from nriplugin.daemon.instance_lock import InstanceLock, lock_path
from nriplugin.nri.testing.runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.cgroup.types.tree import Tree

BURST = "cpuBurst:\n  enabled: true\n  percent: 50\n"


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose sockets have short enough names."""
    with TemporaryDirectory() as made:
        yield Path(made)


def control_of(directory: Path) -> list[str]:
    return ["--control", f"unix://{directory}/c.sock"]


def test_the_daemon_withdraws(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """First a dry run, then in earnest; the burst of the pod goes back."""
    place = Place(directory)
    (directory / "config.yaml").write_text(BURST)
    burst = directory / "cgroup" / POD.strip("/") / "cpu.max.burst"
    (burst.parent / "cpu.max").write_text("400000 100000\n")
    options = ["--config", str(directory / "config.yaml"), *control_of(directory)]
    with (
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        place.daemon(*options) as daemon,
    ):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        app = container_at()
        runtime.create_container(pod_at(), app)
        runtime.start_container(pod_at(), app)
        held = burst.read_text().strip()
        assert held != "0"
        assert main(["withdraw", "--dry-run", *control_of(directory)]) == 0
        page = capsys.readouterr().out
        assert "would be restored" in page
        assert "shop/web/app: the runtime writes cpu.max=100000 100000" in page
        assert max(map(len, page.splitlines())) <= 80
        assert burst.read_text().strip() == held
        command = ["withdraw", "-o", "json", *control_of(directory)]
        assert main(command) == 0
        answer = json.loads(capsys.readouterr().out)
        assert {one["status"] for one in answer["files"]} == {"restored"}
        assert [one["pod"] for one in answer["carrying"]] == ["web"]
        assert burst.read_text().strip() == "0"
        created = runtime.create_container(pod_at(), container_at(number=2))
        assert not created.adjust.HasField("linux")
        assert main(["withdraw", *control_of(directory)]) == 0  # again: nothing to do
        page = capsys.readouterr().out
        assert "The daemon decides nothing any more" in page
        assert "There are no direct writes to put back." in page
        assert daemon.end() == 0
    assert "withdrawn: nothing is decided any more" in daemon.log


@pytest.fixture
def tree(directory: Path) -> Tree:
    return journalled_tree(directory)


def alone(directory: Path, *options: str) -> int:
    """Withdraw where no daemon is."""
    where = [
        *("--state-dir", str(directory / "state")),
        *("--cgroup-root", str(directory / "cgroup")),
    ]
    return main(["withdraw", *where, *control_of(directory), *options])


def test_without_a_daemon_the_journal_is_restored(
    tree: Tree, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard error says that no daemon answers; the page says what is not known."""
    assert alone(directory) == 0
    out, err = capsys.readouterr()
    assert "no daemon answers" in err
    assert "restored" in out
    assert "left alone (another program has changed it since)" in " ".join(out.split())
    assert "it is not known which containers" in " ".join(out.split())
    assert tree.get(Type.CPU_WEIGHT, QOS) == 100
    assert tree.get(Type.CPU_WEIGHT, POD) == 300


def test_without_a_daemon_a_dry_run_changes_nothing(
    tree: Tree, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON, for programs."""
    assert alone(directory, "--dry-run", "-o", "json") == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert [one["status"] for one in files] == ["would be restored", "left alone"]
    assert tree.get(Type.CPU_WEIGHT, QOS) == 200


def test_a_daemon_that_cannot_be_reached_is_not_ignored(
    tree: Tree, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would go on deciding, and write again what is put back."""
    path = lock_path(str(directory / "state"), "nri", "/run/nri.sock")
    with InstanceLock(path) as lock:
        assert lock.attempt()
        assert alone(directory) == 1
    err = capsys.readouterr().err
    assert "is running: name its socket with --control" in err
    assert tree.get(Type.CPU_WEIGHT, QOS) == 200


def test_yaml_for_people_who_like_it(
    tree: Tree, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fields are those of the control API."""
    assert alone(directory, "--dry-run", "-o", "yaml") == 0
    assert "carrying: []" in capsys.readouterr().out

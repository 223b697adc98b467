"""`nriplugin detect` as a user types it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.trees import make

from nriplugin.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's own decides."""
    for name in (
        "NRIPLUGIN_CGROUP_VERSION",
        "VOLCANO_TEST_CGROUP_VERSION",
        "NRIPLUGIN_HOST_ROOT",
        "CGROUP_DRIVER",
    ):
        monkeypatch.delenv(name, raising=False)


def detect(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["detect", "--json", *arguments]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


@pytest.mark.parametrize("version", [1, 2])
def test_everything_that_was_detected_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int
) -> None:
    """Version, driver and its rungs, controllers, roots and kernel features."""
    root = tmp_path / "cgroup"
    make(version, root)
    config = tmp_path / "var/lib/kubelet/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("cgroupDriver: cgroupfs\ncgroupRoot: /\n")
    options = ["--host-root", str(tmp_path), "--cgroup-root", str(root)]
    facts = detect(capsys, *options)
    assert facts["version"] == version
    assert facts["driver"] == "cgroupfs"
    assert [rung["name"] for rung in facts["rungs"]] == [
        "environment",
        "kubelet process",
        "kubelet files",
        "kubelet files",
    ]
    assert facts["rungs"][-1]["evidence"] == f"{config}: cgroupfs"
    assert facts["kubelet_cgroup_root"] == "/"
    assert facts["kubepods"] == facts["looked_at"] == "/kubepods"
    assert {"cpu", "memory", "pids"} <= set(facts["controllers"])
    assert facts["features"]["cpu.cfs_burst_us"]["supported"] is True
    assert facts["features"]["cpu.qos_level"]["supported"] is False
    assert facts["features"]["cpu.pressure"]["supported"] is (version == 2)
    assert main(["detect", *options]) == 0
    text = capsys.readouterr().out
    assert f"cgroup version     {version}: " in text
    assert f"  kubelet files    {config}: cgroupfs" in text
    assert "cpu.qos_level      no: " in text


def test_this_very_machine_is_only_looked_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On any machine `detect` gives an answer with its evidence."""
    facts = detect(capsys)
    assert facts["version"] in (1, 2)
    assert facts["cgroup_root"] == "/sys/fs/cgroup"
    assert facts["rungs"]


def test_a_tree_that_is_none_is_a_finding_not_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong --cgroup-root is reported as a problem beside the other facts."""
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    facts = detect(capsys, "--host-root", str(tmp_path))
    assert facts["version"] == 1
    assert "no cgroup v1 controller is mounted there" in facts["problem"]
    assert main(["detect", "--host-root", str(tmp_path)]) == 0
    assert "problem " in capsys.readouterr().out
    facts = detect(capsys, "--cgroup-root", str(tmp_path / "nope"))
    assert "ENOENT" in facts["problem"]
    empty = detect(capsys, "--cgroup-root", str(tmp_path / "sys/fs/cgroup"))
    assert empty["looked_at"] is None


def test_a_wrong_environment_is_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the variable."""
    monkeypatch.setenv("NRIPLUGIN_CGROUP_VERSION", "3")
    assert main(["detect"]) == 2
    assert "NRIPLUGIN_CGROUP_VERSION: '3', expected 1 or 2" in capsys.readouterr().err


def test_the_host_root_comes_from_the_environment_too(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A DaemonSet sets the variable; the option wins over it."""
    monkeypatch.setenv("NRIPLUGIN_HOST_ROOT", str(tmp_path))
    assert detect(capsys)["host_root"] == str(tmp_path)
    assert detect(capsys, "--host-root", "/")["host_root"] == "/"


@pytest.mark.parametrize(("version", "missing"), [(1, "cpuacct memory"), (2, "memory")])
def test_controllers_that_kubelet_requires_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int, missing: str
) -> None:
    """A node that lacks none has no such line."""
    root = tmp_path / "cgroup"
    make(version, root)
    options = ["--host-root", str(tmp_path), "--cgroup-root", str(root)]
    assert detect(capsys, *options)["missing_controllers"] == []
    main(["detect", *options])
    assert "missing" not in capsys.readouterr().out
    for name in missing.split():
        if version == 1:
            shutil.rmtree(root / name)
    if version == 2:
        (root / "cgroup.controllers").write_text("cpuset cpu io\n")
    assert detect(capsys, *options)["missing_controllers"] == missing.split()
    main(["detect", *options])
    line = f"missing            {missing} (kubelet does not start without them)"
    assert line in capsys.readouterr().out

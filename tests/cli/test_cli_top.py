"""`nriplugin top` as a user types it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from time import sleep
from typing import TYPE_CHECKING

import pytest
import yaml
from support.control_daemon import ControlDaemon
from support.gopeers import ENVIRON
from support.harness import PATIENCE_S
from support.trees import CONTAINER, CONTAINER_ID, POD, UID, add_v2, make

from nriplugin.api import control_pb2 as control
from nriplugin.cli import top
from nriplugin.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

Captured = pytest.CaptureFixture[str]

OTHER_UID = "11111111-2222-3333-4444-555555555555"
OTHER = f"/kubepods/pod{OTHER_UID}"
OTHER_ID = "fedcba9876543210" * 4


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree of version 2 with two pods; the second one uses more memory."""
    directory = tmp_path / "cgroup"
    make(2, directory)
    for cgroup in (OTHER, f"{OTHER}/{OTHER_ID}"):
        add_v2(directory, cgroup)
        (directory / cgroup[1:] / "memory.current").write_text("2097152\n")
    return directory


def options(root: Path) -> list[str]:
    places = ["--cgroup-root", str(root), "--host-root", str(root.parent)]
    return ["top", "--interval", "100ms", *places]


WIDTH = len(UID)
TITLES = (
    "  CPU  MEMORY  THROTTLED  OOM KILLS  CPU %  MEMORY %  IO %"
    "  RUN  SLEEP  STOP  WAIT  IO  VERDICT"
)
TASKS = "    0      0     0     0   0     idle"
USE = f"        0 %          1   0.00      0.00  0.00{TASKS}"


def test_a_line_for_each_pod(root: Path, capsys: Captured) -> None:
    """Pods come by their use of memory, and have UIDs where no daemon runs."""
    assert main([*options(root), "--sort-by", "memory"]) == 0
    assert capsys.readouterr().out == (
        f"{'POD'.ljust(WIDTH)}{TITLES}\n"
        f"{OTHER_UID}   0m   2.0Mi{USE}\n"
        f"{UID}   0m   1.0Mi{USE}\n"
    )


def test_containers_are_listed_if_asked_for(root: Path, capsys: Captured) -> None:
    """A container is called by the beginning of its ID."""
    assert main([*options(root), "--containers"]) == 0
    first = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert first == ["POD", OTHER_UID, OTHER_ID[:13], UID, CONTAINER_ID[:13]]


def test_version_1_has_no_pressure(tmp_path: Path, capsys: Captured) -> None:
    """The columns of pressure are absent rather than empty."""
    directory = tmp_path / "cgroup"
    make(1, directory)
    environ = pytest.MonkeyPatch()
    environ.setenv("NRIPLUGIN_CGROUP_VERSION", "1")
    with environ.context():
        assert main(options(directory)) == 0
    title, line = capsys.readouterr().out.splitlines()
    environ.undo()
    assert "%" not in title
    assert line.split()[:4] == [UID, "0m", "1.0Mi", "0"]
    assert line.split()[-1] == "idle"  # no task runs


def test_a_container_that_its_quota_holds_back(
    root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row and its pod's have the verdict; JSON has the numbers, too."""
    stat = root / CONTAINER[1:] / "cpu.stat"
    between = "usage_usec 3100000\nnr_periods 110\nnr_throttled 45\nthrottled_usec 6000"

    def work(seconds: float) -> None:
        sleep(seconds)
        stat.write_text(between)

    monkeypatch.setattr(top, "sleep", work)
    assert main([*options(root), "--containers"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {row[0]: row[-1] for row in shown[1:]} == {
        UID: "throttled",
        CONTAINER_ID[:13]: "throttled",
        OTHER_UID: "idle",
        OTHER_ID[:13]: "idle",
    }
    make_again = stat.read_text().replace("110", "10").replace("45", "2")
    stat.write_text(make_again)
    assert main([*options(root), "-o", "json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    (pod,) = [one for one in items if one["metadata"]["name"] == UID]
    for block in (pod["nriplugin"], pod["containers"][0]["nriplugin"]):
        (found,) = block["verdicts"]
        assert found["verdict"] == "throttled"
        assert found["because"].startswith("throttled in 43 of 100 periods")
        assert block["verdictsNotTold"] == []


def test_json_is_a_list_of_pod_metrics(root: Path, capsys: Captured) -> None:
    """Each pod has the fields of the metrics API, and a block with all others."""
    assert main([*options(root), "-o", "json", "--sort-by", "memory"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["kind"] == "PodMetricsList"
    assert listed["apiVersion"] == "metrics.k8s.io/v1beta1"
    pod = listed["items"][1]
    assert pod["kind"] == "PodMetrics"
    assert pod["metadata"] == {"name": UID}
    assert re.fullmatch(r"\d+\.\d{3}s", pod["window"])
    assert float(pod["window"].removesuffix("s")) >= 0.1
    (container,) = pod["containers"]
    assert container["name"] == CONTAINER_ID
    assert container["usage"] == {"cpu": "0", "memory": "1020Ki"}
    block = container["nriplugin"]
    assert (block["cgroup"], block["oomKills"]) == (CONTAINER, 1)
    assert block["throttling"]["throttledPeriodsTotal"] == 2
    assert block["pressure"]["memory"]["some"]["avg300"] == 1.25
    assert block["tasks"]["running"] == 0
    assert pod["nriplugin"]["uid"] == UID
    assert pod["nriplugin"]["qosClass"] == "Burstable"
    assert pod["nriplugin"]["cgroup"] == POD


def test_yaml_has_the_same(root: Path, capsys: Captured) -> None:
    """YAML is the JSON in another notation."""
    assert main([*options(root), "-o", "yaml"]) == 0
    listed = yaml.safe_load(capsys.readouterr().out)
    assert {item["metadata"]["name"] for item in listed["items"]} == {UID, OTHER_UID}


def test_names_come_from_the_daemon(
    root: Path, tmp_path: Path, capsys: Captured
) -> None:
    """A pod that the daemon knows has its name, and its containers have theirs."""
    known = control.ContainerWhy(
        id=CONTAINER_ID, namespace="shop", pod="web-0", container="app"
    )
    with ControlDaemon(tmp_path) as daemon:
        daemon.answers["Why"] = control.WhyResponse(containers=[known])
        command = [*options(root), "--control", daemon.address]
        assert main([*command, "--containers"]) == 0
        first = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
        assert main([*command, "-o", "json"]) == 0
        asked = [request.what for request in daemon.requests]
    assert first == ["POD", OTHER_UID, OTHER_ID[:13], "shop/web-0", "app"]
    assert asked == ["0", "f"] * 2
    items = json.loads(capsys.readouterr().out)["items"]
    assert items[1]["metadata"] == {"name": "web-0", "namespace": "shop"}
    assert items[1]["containers"][0]["name"] == "app"


def test_watch_prints_until_it_is_stopped(root: Path) -> None:
    """With --watch, JSON is one line for each interval."""
    command = [sys.executable, "-m", "nriplugin", *options(root)]
    running = subprocess.Popen(
        [*command, "--watch", "-o", "json"], stdout=subprocess.PIPE, env=ENVIRON
    )
    assert running.stdout is not None
    lines = [json.loads(running.stdout.readline()) for _ in range(3)]
    running.send_signal(signal.SIGINT)
    assert running.wait(PATIENCE_S) == 130
    running.stdout.close()
    assert [len(line["items"]) for line in lines] == [2, 2, 2]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--interval", "10ms"], "--interval: '10ms', expected at least 100ms"),
        (["--interval", "soon"], "--interval: 'soon', expected a duration"),
        (["--cgroup-root", "/dev/fd"], "pods: '/kubepods"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    root: Path, capsys: Captured, more: list[str], message: str
) -> None:
    """The line names the option or the cgroup, and what was expected."""
    assert main([*options(root), *more]) == 2
    assert capsys.readouterr().err.startswith(f"nriplugin: {message}")


def test_a_daemon_that_was_named_has_to_answer(root: Path, capsys: Captured) -> None:
    """Without --control, a node without a daemon is no failure."""
    missing = f"unix://{root}/none.sock"
    assert main([*options(root), "--control", missing]) == 1
    assert "no daemon answers" in capsys.readouterr().err

"""`nriplugin why` and `nriplugin reload` against a daemon with chosen answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import grpc
import pytest
import yaml
from support.control_daemon import NOW, ControlDaemon
from support.terminals import COLOUR, on_terminal

from nriplugin.api import control_pb2 as control
from nriplugin.cli.main import main
from nriplugin.cli.why import _EXACT
from nriplugin.engine.decision import EXACT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Captured = pytest.CaptureFixture[str]

ID = "0123456789abcdef" * 4
CGROUP = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/{ID}"

NGINX = control.ContainerWhy(
    id=ID,
    namespace="shop",
    pod="web-0",
    container="nginx",
    qos_class="Burstable",
    cgroup=CGROUP,
    state="drifted",
    rule="gold",
    decided_at=NOW,
    numbers="shares 256, quota 50000",
    verdicts=[
        control.ContainerVerdict(
            verdict="throttled", because="throttled in 43 of 100 periods"
        )
    ],
    not_told="contended: no pressure",
    files=[
        control.FileWhy(
            file="cpu.weight",
            now="100",
            decided="35",
            native="35",
            handler="resources",
            rule="quadratic",
            source="the container's resources",
            confidence="exact",
            verdict="another program has written '100' since",
        ),
        control.FileWhy(
            file="memory.high",
            unreadable_because="read memory.high: no such file",
            decided="1048576",
            handler="memoryQoS",
            rule="request and factor " * 8,
            source="oom_score_adj",
            confidence="estimated",
        ),
    ],
    skipped=["memory.low: memoryQoS: " + "the request is not known " * 5],
    advice=["cpu.weight: find the program that writes it"],
)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[ControlDaemon]:
    with ControlDaemon(tmp_path) as serving:
        other = control.ContainerWhy(id="ff", state="missed", reason="made without us")
        serving.answers["Why"] = control.WhyResponse(containers=[NGINX, other])
        yield serving


def why(daemon: ControlDaemon, *options: str) -> int:
    return main(["why", "--control", daemon.address, "shop/web-0", *options])


def test_a_container_on_a_page(daemon: ControlDaemon, capsys: Captured) -> None:
    """Header, files with reasons and verdicts, what was skipped, what to do."""
    assert why(daemon) == 0
    assert daemon.requests[0].what == "shop/web-0"
    assert daemon.requests[0].verdicts
    page = capsys.readouterr().out
    lines = page.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "shop/web-0/nginx"
    assert "  state         drifted" in lines
    assert "  rule          gold" in lines
    assert "  kubelet sent  shares 256, quota 50000" in lines
    assert "  verdict       throttled: throttled in 43 of 100 periods" in lines
    assert "  not told      contended: no pressure" in lines
    assert CGROUP in "".join(page.split())
    at = next(n for n, line in enumerate(lines) if line.startswith("  FILE"))
    assert lines[at].split() == ["FILE", "NOW", "DECIDED", "RUNTIME", "ALONE"]
    assert lines[at + 1].split() == ["cpu.weight", "100", "35", "35"]
    assert lines[at + 2] == "    resources: quadratic; the container's resources"
    assert lines[at + 3] == "    another program has written '100' since"
    assert lines[at + 4].split() == ["memory.high", "?", "1048576", "-"]
    assert "oom_score_adj (estimated)" in page
    assert "    cannot be read: read memory.high: no such file" in lines
    assert page.count("the request is not known") + page.count("the request is") >= 5
    assert lines.index("  What to do") > lines.index("  Skipped") > at
    assert "  - cpu.weight: find the program that writes it" in lines
    assert "ff" in lines
    assert "  state         missed: made without us" in lines
    assert "  nothing was decided for this container" in lines


def test_json_and_yaml(daemon: ControlDaemon, capsys: Captured) -> None:
    """Both have all fields."""
    assert why(daemon, "-o", "json") == 0
    as_json = json.loads(capsys.readouterr().out)
    assert why(daemon, "-o", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == as_json
    assert as_json["containers"][0]["files"][0]["now"] == "100"
    assert as_json["containers"][1]["files"] == []


def test_a_verdict_is_red_on_a_terminal(daemon: ControlDaemon) -> None:
    """... and so is the value that it is about."""
    with on_terminal("why", "--control", daemon.address, "shop/web-0") as running:
        assert running.wait() == 0
    assert "\x1b[31m100\x1b[0m" in running.text
    assert "\x1b[31manother program has written '100' since\x1b[0m" in running.text
    assert max(map(len, COLOUR.sub("", running.text).splitlines())) <= 80


def test_no_such_container(daemon: ControlDaemon, capsys: Captured) -> None:
    """The daemon's line is passed on; it is the user's mistake."""
    daemon.answers["Why"] = (grpc.StatusCode.NOT_FOUND, "'x': no such container")
    assert why(daemon) == 2
    assert capsys.readouterr().err == "nriplugin: 'x': no such container\n"


def test_hostile_values_are_escaped(daemon: ControlDaemon, capsys: Captured) -> None:
    """A file's content is a text that another program has chosen."""
    hostile = control.ContainerWhy(
        id="a\x1b", files=[control.FileWhy(file="f", now="1\x1b[2J\n2")]
    )
    daemon.answers["Why"] = control.WhyResponse(containers=[hostile])
    assert why(daemon) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert r"1\x1b[2J\x0a2" in out


def test_the_word_for_certainty_is_the_engines() -> None:
    """A value without a guess has no remark about one."""
    assert _EXACT == EXACT


def test_reload(tmp_path: Path, capsys: Captured) -> None:
    """It prints what is in force; a mistake in the file is exit code 2."""
    configuration = control.ConfigurationStatus(path="/etc/c.yaml", hash="0123")
    with ControlDaemon(tmp_path) as daemon:
        daemon.answers["Reload"] = control.ReloadResponse(
            applied=True, configuration=configuration
        )
        assert main(["reload", "--control", daemon.address]) == 0
        assert "in force: /etc/c.yaml, SHA-256 0123" in capsys.readouterr().out
        daemon.answers["Reload"] = control.ReloadResponse(error="/etc/c.yaml: wrong")
        assert main(["reload", "--control", daemon.address]) == 2
        assert capsys.readouterr().err == "nriplugin: /etc/c.yaml: wrong\n"

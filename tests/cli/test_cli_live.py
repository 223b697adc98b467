"""The commands beside a real daemon: `nriplugin run` on the embedded runtime."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.gopeers import ENVIRON
from support.harness import wait_until
from support.live_daemon import LiveNode, resources, write
from support.terminals import COLOUR, on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = """
rules:
- name: web
  match: {namespace: shop}
  cpuBurst: {enabled: true, percent: 20}
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with LiveNode(tmp_path, CONFIG) as running:
        yield running


def test_status_why_events_and_reload(node: LiveNode) -> None:
    """Each shows what the daemon has really done."""
    web = node.create("shop", "web-0", "nginx", resources(1024, 50_000, 256))
    node.create("batch", "train-0", "worker", resources(2), qos="besteffort")

    done = node.command("status", "--by", "namespace")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "nriplugin.yaml, SHA-256" in done.stdout
    assert "2 managed" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["batch", "1"] in rows
    assert ["shop", "1"] in rows
    state = json.loads(node.command("status", "-o", "json").stdout)
    assert state["runtime"]["connected"] is True
    creates = [o for o in state["operations"] if o["name"] == "CreateContainer"]
    assert [one["ok"] for one in creates] == [2]

    write(web.directory, {"cpu.weight": "777"})
    done = node.command("why", "shop/web-0/nginx")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["cpu.weight", "777", "100", "100"] in rows
    assert "(web)" in done.stdout
    by_id = node.command("why", web.container.id[:12])
    assert by_id.stdout.splitlines()[0] == "shop/web-0/nginx"
    assert node.command("why", "shop/nothing").returncode == 2

    done = node.command("events", "--all", "--kind", "created", "--count", "2")
    first, second = done.stdout.splitlines()
    assert "created      shop/web-0/nginx" in first
    assert "cpu.max.burst=10000" in first
    assert "batch/train-0/worker" in second

    node.config.write_text("curv: kep\n")
    done = node.command("reload")
    assert done.returncode == 2
    assert "curv" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "curv" in node.command("status").stdout
    node.config.write_text("curve: kep\n")
    done = node.command("reload")
    assert (done.returncode, done.stdout[:9]) == (0, "in force:")
    state = json.loads(node.command("status", "-o", "json").stdout)
    assert state["node"]["curve"] == "kep"
    assert state["configuration"]["error"] == ""


def test_the_end_of_a_daemon_and_the_next_one(node: LiveNode) -> None:
    """events --follow goes on, and status says that nobody answers in between."""
    command = [sys.executable, "-m", "nriplugin", "events", "--follow", "--all"]
    with subprocess.Popen(
        [*command, "--control", node.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRON,
    ) as following:
        try:
            assert following.stdout is not None
            assert following.stderr is not None
            assert " connected" in following.stdout.readline()
            node.stop_daemon()
            assert "the daemon has ended" in following.stderr.readline()
            done = node.command("status")
            assert done.returncode == 1
            assert "no daemon answers at" in done.stderr
            assert node.command("status", "--brief").returncode == 1
            node.start_daemon()
            lines = iter(following.stdout.readline, "")
            assert any(" connected" in line for line in lines)
        finally:
            following.kill()


def test_not_connected_is_exit_code_1(node: LiveNode) -> None:
    """The runtime is gone: `status` says so, and --wait ends when it is back."""
    node.runtime.stop()
    wait_until(lambda: node.command("status", "--brief").returncode == 1)
    with on_terminal("status", "--control", node.address) as running:
        assert running.wait() == 1
    assert "\x1b[31mnot connected\x1b[0m" in running.text
    assert max(map(len, COLOUR.sub("", running.text).splitlines())) <= 80
    node.runtime.start()
    assert node.command("status", "--wait", "--wait-duration", "50s").returncode == 0

"""The CRI proxy before a runtime without NRI: the same answers, converted values."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.bed import on_nodes
from support.guestcases import run_script
from support.load import creating
from support.looking import keep_looking
from support.plugins import PROXY, RUNTIME, Plugin, running

from nriplugin.convert.curves import Curve, weight_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet, Pod

pytestmark = [on_nodes("containerd-1.6"), pytest.mark.timeout(1800)]

FILES = ("cpu.weight", "cpu.max", "memory.max", "memory.swap.max")
RESOURCES = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 2**26,
}
UPDATES: list[dict[str, int]] = [
    {"cpu_share": 2048},
    {"cpu_quota": 150_000, "cpu_period": 100_000, "memory": 2**27},
    {"cpu_quota": -1, "cpu_period": 100_000},
]


class Bed(NamedTuple):
    """A pod with a container that the runtime made by itself, and a proxy since."""

    pod: Pod
    alone: Container
    plugin: Plugin


@pytest.fixture(scope="module")
def bed(node: Machine, kubelet: Kubelet) -> Iterator[Bed]:
    with kubelet.sandbox("Burstable", "crun") as pod:
        alone = kubelet.start(pod, "alone", RESOURCES)
        with running(node) as plugin:
            yield Bed(pod, alone, plugin)


@pytest.fixture(scope="module")
def said(node: Machine, bed: Bed) -> dict[str, dict[str, Any]]:
    """The answers of the runtime and of the proxy to the same calls."""
    return {
        address: run_script(node, "guest_cri", address, bed.pod.id, bed.alone.id)[0]
        for address in (RUNTIME, PROXY)
    }


def test_the_proxy_says_what_the_runtime_says(said: dict[str, dict[str, Any]]) -> None:
    """Code, words, keys of metadata, and the answer itself, call by call."""
    assert said[PROXY] == said[RUNTIME]


def test_the_calls_were_worth_comparing(said: dict[str, dict[str, Any]]) -> None:
    """Some must succeed, and others fail with the runtime's own words."""
    direct = said[RUNTIME]
    for name in ("version", "version of old", "status", "container", "stats", "exec"):
        assert direct[name][0] == "OK", (name, direct[name])
    assert "http" in direct["exec"][1]
    # Which container, and numbers of its CPU and memory.
    ((name, stats),) = direct["stats"][1]
    assert (name, [one[0] for one in stats[:3]]) == (1, [1, 2, 3])
    assert "alone" in json.dumps(stats)
    assert "alone" in json.dumps(direct["stats of the pod"])
    assert direct["no container"][0] == "NOT_FOUND"
    assert direct["new method"][0] == "UNIMPLEMENTED"
    assert "127.0.0.1:1" in direct["pull"][1]


def test_the_curve_is_the_runtimes_own(bed: Bed) -> None:
    """The proxy recognises it from the container that was there before the proxy."""
    bed.plugin.wait_for("curve: kep (1 of 1 containers of this node")


def test_containers_are_what_they_were_without_us(kubelet: Kubelet, bed: Bed) -> None:
    """Every setting of the kernel equals, at creation and after each update.

    The specification shows that the values came from the proxy.
    """
    ours = kubelet.start(bed.pod, "ours", RESOURCES)
    spec = kubelet.inspect(ours)["info"]["runtimeSpec"]["linux"]["resources"]
    assert spec["unified"] == {
        "cpu.weight": str(weight_of(512, Curve.KEP)),
        "cpu.max": "50000 100000",
        "memory.max": str(2**26),
    }
    assert kubelet.settings(ours) == kubelet.settings(bed.alone)
    for update in UPDATES:
        for container in (bed.alone, ours):
            result = kubelet.update(container, **update)
            assert result.code == 0, (update, container.name, result.stderr)
        assert kubelet.settings(ours) == kubelet.settings(bed.alone), update


def test_commands_run_through_the_proxy(kubelet: Kubelet, bed: Bed) -> None:
    """Both kinds of exec, with output and exit code; logs; attach to a container."""
    machine, alone = kubelet.machine, bed.alone.id
    for options in ([], ["--sync"]):
        result = kubelet.crictl("exec", *options, alone, "echo", "hello")
        assert (result.code, result.stdout.strip()) == (0, "hello"), result
        failed = kubelet.crictl("exec", *options, alone, "sh", "-c", "exit 3")
        assert failed.code != 0
        assert "3" in failed.stderr
    config = {
        "metadata": {"name": "cat"},
        "image": {"image": "localhost/box:1"},
        "command": ["/bin/cat"],
        "log_path": "cat.log",
        "stdin": True,
        "stdin_once": True,
        "linux": {},
    }
    machine.write("/tmp/cat.json", json.dumps(config))
    machine.write("/tmp/pod.json", json.dumps(bed.pod.config))
    created = machine.check(
        *("crictl", "create", "--no-pull", bed.pod.id),
        *("/tmp/cat.json", "/tmp/pod.json"),
    ).strip()
    machine.check("crictl", "start", created)
    attached = machine.run("crictl", "attach", "-i", created, stdin="spoken\n")
    assert attached.stdout.strip() == "spoken", attached
    # The runtime writes its log beside the stream to whoever is attached.
    logged = keep_looking(
        lambda: machine.run("crictl", "logs", created),
        lambda result: result.stdout.strip() == "spoken",
    )
    assert logged.stdout.strip() == "spoken", logged


def test_proxy_killed_and_started_again_under_load(
    node: Machine, kubelet: Kubelet, bed: Bed
) -> None:
    """The new proxy knows all containers, and can update those from before."""
    before = kubelet.start(bed.pod, "before", RESOURCES)
    bed.plugin.end(signal.SIGKILL)
    with creating(kubelet, bed.pod, RESOURCES) as load:
        load.wait_for(1)
        again = Plugin(node)
        again.wait_for("serving unix:")
        load.wait_for(load.count() + 2)
        results = load.results()
    try:
        # Without a proxy crictl reached no server, so no container was half made.
        assert all(one.unified for one in results if one.code == 0), results
        assert results[-1].code == 0, results[-1]
        again.wait_for("curve: kep (")
        assert kubelet.update(before, cpu_share=2048).code == 0
        assert kubelet.settings(before)["cpu.weight"] == str(weight_of(2048, Curve.KEP))
        assert kubelet.settings(before)["cpu.max"] == "50000 100000"
    finally:
        again.end()

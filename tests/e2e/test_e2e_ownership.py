"""Which values of a container the plugin takes for its own, on real runtimes.

After restarts of the plugin, with other settings, and after a time without it.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.bed import on_nodes
from support.looking import keep_looking
from support.plugins import running

if TYPE_CHECKING:
    from nodes.machine import Machine, Result
    from support.kubelet import Container, Kubelet

# The node systemd has the containerd of the node containerd-2.
pytestmark = [
    on_nodes("containerd-2.4", "containerd-1.7", "crio", "systemd"),
    pytest.mark.timeout(1800),
]

MIB = 1 << 20
RESOURCES = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 128 * MIB,
}
RESIZE = {"cpu_quota": 20_000, "cpu_period": 100_000, "memory": 256 * MIB}
RESIZED = {"cpu.max": "20000 100000", "memory.max": str(256 * MIB)}
HANDLERS = """
memoryQoS: {enabled: true}
cpuBurst: {enabled: true, percent: 90}
"""
ANNOTATIONS = {"memory-request.cgroup2.nri.io": "64Mi"}


class Seen(NamedTuple):
    """What one pod's containers went through, in this order."""

    # With handlers and repair: as created, and what was logged before and after
    # a file was overwritten.
    handled: dict[str, str]
    log_while_made: str
    log_repaired: str
    # The same container resized under a plugin without handlers.
    resized_without_handlers: Result
    without_handlers: dict[str, str]
    # Another one, resized while no plugin ran, and after the plugin came back.
    resized_in_absence: Result
    after_return: dict[str, str]
    updated_after_return: Result
    kept_after_return: dict[str, str]
    log_of_return: str
    # One made under `send: different`, and resized with no plugin.
    spec: Any
    resized_later: Result
    later: dict[str, str]


BARE = {"cpu.max.burst": "0", "memory.high": "max", "memory.low": "0"}


@pytest.fixture(scope="module")
def seen(node: Machine, kubelet: Kubelet) -> Seen:
    """Four lives of the plugin, one after the other, over the containers of one pod."""
    config = "/tmp/ownership.yaml"
    with kubelet.sandbox("Burstable", annotations=ANNOTATIONS) as pod:
        node.write(config, f"{HANDLERS}\nrepair: {{enabled: true, everySeconds: 1}}")
        with running(node, "--config", config) as plugin:
            first, other = (
                kubelet.start(pod, name, RESOURCES) for name in ("first", "other")
            )
            handled = held(kubelet, first, *BARE)
            log_while_made = plugin.log()
            (path,) = other.cgroups
            node.write(f"{path}/memory.high", "max")
            log_repaired = plugin.wait_for("repair:")
        with running(node) as plugin:
            resized_without_handlers = kubelet.update(first, **RESIZE)
            without_handlers = held(kubelet, first, *BARE, *RESIZED)
            away = kubelet.start(pod, "away", RESOURCES)
            plugin.end(signal.SIGKILL)
        resized_in_absence = kubelet.update(away, **RESIZE)
        with running(node) as plugin:
            after_return = held_in_the_end(kubelet, away, RESIZED)
            updated = kubelet.crictl("update", "--cpuset-cpus", "0", away.id)
            kept_after_return = held(kubelet, away, *RESIZED)
            log_of_return = plugin.wait_for("resized while the plugin was away")
        node.write(config, "resources: {send: different}")
        with running(node, "--config", config):
            app = kubelet.start(pod, "different", RESOURCES)
        return Seen(
            handled=handled,
            log_while_made=log_while_made,
            log_repaired=log_repaired,
            resized_without_handlers=resized_without_handlers,
            without_handlers=without_handlers,
            resized_in_absence=resized_in_absence,
            after_return=after_return,
            updated_after_return=updated,
            kept_after_return=kept_after_return,
            log_of_return=log_of_return,
            spec=kubelet.inspect(app)["info"]["runtimeSpec"],
            resized_later=kubelet.update(app, **RESIZE),
            later=held(kubelet, app, *RESIZED),
        )


def held(kubelet: Kubelet, container: Container, *files: str) -> dict[str, str]:
    settings = kubelet.settings(container)
    return {file: settings[file] for file in files}


def held_in_the_end(
    kubelet: Kubelet, container: Container, files: dict[str, str]
) -> dict[str, str]:
    """Return what a container's files hold, as soon as that is what they should."""
    return keep_looking(
        lambda: held(kubelet, container, *files), lambda found: found == files
    )


def test_a_container_that_is_being_made_is_not_repaired(seen: Seen) -> None:
    """The runtime has yet to write its files; one that has started is repaired."""
    assert "repair:" not in seen.log_while_made
    assert seen.log_repaired.count("repair:") == 1


def test_a_handler_turned_off_with_a_restart_leaves_nothing_behind(seen: Seen) -> None:
    """Neither a burst for which the kernel refuses the quota, nor a throttle."""
    assert seen.handled["cpu.max.burst"] == "45000"
    assert seen.handled["memory.high"] != "max"
    assert seen.resized_without_handlers.code == 0, seen.resized_without_handlers
    assert seen.without_handlers == {**BARE, **RESIZED}


def test_a_resize_in_the_plugins_absence_is_put_right(seen: Seen) -> None:
    """When the plugin is back, and for good: the runtime keeps the new values."""
    assert seen.resized_in_absence.code == 0, seen.resized_in_absence
    assert seen.after_return == RESIZED
    assert seen.updated_after_return.code == 0, seen.updated_after_return
    assert seen.kept_after_return == RESIZED
    assert "resized while the plugin was away" in seen.log_of_return


def test_no_value_outlives_the_plugin_if_only_what_differs_is_sent(seen: Seen) -> None:
    """The runtime's specification is as without it, and so is a later resize."""
    assert not seen.spec["linux"]["resources"].get("unified")
    assert "managed.cgroup2.nri.io" not in seen.spec["annotations"]
    assert seen.resized_later.code == 0, seen.resized_later
    assert seen.later == RESIZED

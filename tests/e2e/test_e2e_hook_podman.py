"""The hook under podman, which has neither pods of Kubernetes nor NRI."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine

# The node whose images podman can use: they are in the same storage.
pytestmark = [on_nodes("crio"), pytest.mark.timeout(1800)]

HOOKS_DIR = "/etc/podman-hooks"
CONFIG_FILE = "/etc/nriplugin-podman.yaml"
CONFIG = "cpuBurst: {enabled: true, percent: 50}\n"
FILES = ("cpu.max", "cpu.max.burst", "memory.max")


@pytest.fixture(scope="module")
def installed(node: Machine) -> Iterator[Machine]:
    """A directory of hooks for podman alone."""
    node.check("mkdir", "-p", HOOKS_DIR)
    node.write(CONFIG_FILE, CONFIG)
    options = ("--hooks-dir", HOOKS_DIR, "--state-dir", "/tmp/state-podman")
    node.check("nriplugin", "hook", "install", "--config", CONFIG_FILE, *options)
    yield node
    node.check("nriplugin", "hook", "uninstall", "--hooks-dir", HOOKS_DIR)


def held(node: Machine, runtime: str, *options: str) -> dict[str, str]:
    """Return what a container's cgroup holds."""
    podman = ["podman", "--cgroup-manager", "cgroupfs", "--runtime", runtime]
    podman += ["--hooks-dir", HOOKS_DIR]
    container = node.check(
        *(*podman, "run", "--detach", "--network", "host", "--cpus", "0.5"),
        *("--memory", "64m", *options, "localhost/box:1"),
    ).strip()
    try:
        (cgroup,) = node.check(
            "find", "/sys/fs/cgroup", "-type", "d", "-name", f"libpod-{container}"
        ).split()
        contents = node.read([f"{cgroup}/{file}" for file in FILES])
    finally:
        node.check(*podman, "rm", "--force", "--time", "0", container)
    return {
        path.rpartition("/")[2]: str(text).strip() for path, text in contents.items()
    }


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_a_container_gets_its_files(installed: Machine, runtime: str) -> None:
    """podman's own numbers, and half the quota to burst by."""
    assert held(installed, runtime) == {
        "cpu.max": "50000 100000",
        "cpu.max.burst": "25000",
        "memory.max": str(64 << 20),
    }


def test_annotations_of_the_container_count(installed: Machine) -> None:
    """podman has no pods of Kubernetes, so the container's own annotations are read."""
    option = ("--annotation", "cpu-burst.cgroup2.nri.io=10%")
    assert held(installed, "runc", *option)["cpu.max.burst"] == "5000"


def test_a_broken_configuration_does_not_stop_a_container(
    installed: Machine,
) -> None:
    """The container has the values that podman gives it."""
    installed.write(CONFIG_FILE, "cpuBurst: [")
    try:
        assert held(installed, "crun")["cpu.max.burst"] == "0"
    finally:
        installed.write(CONFIG_FILE, CONFIG)

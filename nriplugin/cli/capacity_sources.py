"""A node's capacity and kubelet's settings: from files that are given, else this node.

What is given wins. Without --node the capacity is that of /proc and /sys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.paths import Driver
from nriplugin.cli.capacity_files import read_objects
from nriplugin.cli.kubelet_file import read_kubelet_file
from nriplugin.kube.api_objects import (
    read_node,
)
from nriplugin.kube.capacity import EVICTION_SIGNALS, HUGEPAGES, node_capacity
from nriplugin.kube.kubelet_merge import ROOT
from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
from nriplugin.kube.quantity import parse
from nriplugin.node.kubelet import read_kubelet

if TYPE_CHECKING:
    import argparse

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.kube.api_objects import NodeObject
    from nriplugin.kube.capacity import NodeCapacity


class FoundSettings(NamedTuple):
    """Kubelet's settings, where they are from, and what is wrong with them."""

    settings: KubeletCapacitySettings
    source: str
    problems: tuple[str, ...] = ()
    runtime_endpoint: str = ""  # the CRI socket that kubelet is told of
    root_dir: str = ROOT


class FoundCapacity(NamedTuple):
    """A node's name and capacity, and where they are from."""

    name: str
    capacity: NodeCapacity
    swap_bytes: int | None
    source: str


def find_settings(args: argparse.Namespace, node: DetectedNode) -> FoundSettings:
    """Return kubelet's settings from the file that is given, or from this node.

    If --node is given without them, they are kubelet's defaults.

    Raises:
        ConfigError: the file that is given cannot be read, or has a wrong value.
    """
    if args.kubelet_config is not None:
        path = args.kubelet_config
        return FoundSettings(read_kubelet_file(path), f"kubelet's settings: {path}")
    if args.node is not None:
        root = "/" + "/".join(node.driver.kube_root)
        settings = KubeletCapacitySettings(cgroup_root=root)
        return FoundSettings(settings, "kubelet's settings: its defaults")
    found = read_kubelet(node.host_root)
    sources = ", ".join(found.sources) or "none found, so its defaults"
    return FoundSettings(
        found.settings.capacity,
        f"kubelet's settings: {sources}",
        found.problems,
        found.settings.runtime_endpoint,
        found.settings.root_dir,
    )


def find_capacity(
    args: argparse.Namespace, settings: KubeletCapacitySettings
) -> FoundCapacity:
    """Return the capacity of the node that is given, or of this machine.

    Raises:
        ConfigError: a file cannot be read, or more is reserved than there is.
    """
    if args.node is None:
        import socket

        from nriplugin.node.proc_capacity import machine_capacity

        machine = machine_capacity(args.host_root or "/")
        capacity = node_capacity(machine.amounts, settings)
        source = "capacity: /proc and /sys of this machine"
        return FoundCapacity(socket.gethostname(), capacity, machine.swap_bytes, source)
    given = read_node(read_objects(args.node, "--node"), args.node)
    source = f"capacity: {args.node}"
    if args.kubelet_config is None and given.allocatable:
        settings = _reserving_the_rest(given, settings)
        source += (
            "; what it lacks to allocatable beyond the eviction threshold is shown as "
            "reserved for kube (--kubelet-config would tell how it is split)"
        )
    capacity = node_capacity(given.capacity, settings)
    return FoundCapacity(given.name, capacity, None, source)


def driver_of(node: DetectedNode, settings: KubeletCapacitySettings) -> Driver:
    """Return the driver that kubelet is told to use, else the one that is seen."""
    return Driver(settings.driver) if settings.driver else node.driver.driver


def _reserving_the_rest(
    given: NodeObject, settings: KubeletCapacitySettings
) -> KubeletCapacitySettings:
    """Return settings by which what is reported as allocatable is allocatable."""
    from dataclasses import replace

    huge = sum(
        parse(amount)
        for name, amount in given.allocatable.items()
        if name.startswith(HUGEPAGES)
    )
    bare = replace(settings, system_reserved={}, kube_reserved={})
    plain = node_capacity(given.capacity, bare)
    reserved: dict[str, str] = {}
    eviction = dict(settings.eviction_hard)
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name not in given.allocatable or name not in given.capacity:
            continue
        unit = 1000 if name == "cpu" else 1
        left = parse(given.allocatable[name]) * unit
        if name == "memory":
            left += huge
        lacking = max(int(plain.capacity[name] - left), 0)
        threshold = plain.eviction.get(name, 0)
        rest = lacking - threshold
        if rest > 0:
            reserved[name] = f"{rest}m" if name == "cpu" else str(rest)
        elif rest < 0:  # this kubelet has a lower threshold than the default, or none
            eviction[EVICTION_SIGNALS[name]] = str(lacking)
    return replace(bare, kube_reserved=reserved, eviction_hard=eviction)

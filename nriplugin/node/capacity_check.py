"""Compares the cgroups of a node with the values that kubelet means them to have.

Every file that differs is named with the program that has likely written it. The
comparison is of meanings: the kernel rounds memory to pages, and systemd quotas to
whole percents of a CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.locate.paths import CRUN_INNER, Driver
from nriplugin.cgroup.locate.walk import walk
from nriplugin.cgroup.tasks.states import GONE
from nriplugin.cgroup.writing.kernel_text import CPU_MAX, same
from nriplugin.engine.curve import recognise_curve
from nriplugin.errors import CgroupError
from nriplugin.node.observe import observe
from nriplugin.systemd_quota import rounded_cpu_max

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.convert.curves import Curve
    from nriplugin.kube.level_tree import CgroupLevel

# What a file holds in a cgroup to which nobody has written it.
_DEFAULTS = {
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "memory.max": "max",
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "pids.max": "max",
    "cpu.shares": "1024",
    "cpu.cfs_quota_us": "-1",
    "memory.limit_in_bytes": "-1",
}
_PROTECTION = ("memory.min", "memory.low", "memory.high")


class LevelDifference(NamedTuple):
    """A file with another value than meant, or a cgroup that is missing or unknown."""

    cgroup: str
    level: str
    file: str  # empty if it is about the whole cgroup
    wanted: str
    held: str
    problem: str
    likely: str  # who has likely caused it


def compare_levels(
    tree: Tree,
    root: CgroupLevel,
    reserved: Sequence[CgroupLevel] = (),
    *,
    pods_are_complete: bool,
) -> list[LevelDifference]:
    """Return all differences, parents first.

    Args:
        tree: the node's cgroups.
        root: the level of the node, with all below it.
        reserved: cgroups beside it whose reservations are enforced.
        pods_are_complete: whether `root` is meant to have every pod of the node, so
            that a cgroup of another pod is a difference.

    Raises:
        CgroupError: a file is there and cannot be read.
    """
    walked = (level for _, level in root.walk())
    levels = [level for level in (*reserved, *walked) if level.cgroup]
    found: list[LevelDifference] = []
    for level in levels:
        found += _of_level(tree, level)
    if pods_are_complete:
        known = {level.cgroup for level in levels}
        found += _unknown_pods(tree, root.cgroup, known)
    return found


def observed_curve(tree: Tree, root: CgroupLevel) -> Curve:
    """Return the curve that the weights of the containers show; else quadratic."""
    seen = []
    for _, level in root.walk():
        if level.level == "container" and level.cgroup and "cpu.shares" in level.v1:
            shares = int(level.v1["cpu.shares"])
            one = observe(tree, level.cgroup, shares, {}, shows_unified=True)
            seen += [] if one is None else [one]
    return recognise_curve(seen).curve


def _of_level(tree: Tree, level: CgroupLevel) -> Iterator[LevelDifference]:
    files = level.v2 if tree.version == 2 else level.v1
    if not _exists(tree, level.cgroup):
        yield LevelDifference(
            level.cgroup,
            level.level,
            file="",
            wanted="",
            held="",
            problem=f"there is no such cgroup for {level.name}",
            likely=_likely_missing(level),
        )
        return
    for file, wanted in files.items():
        held = _held(tree, level.cgroup, file)
        if held is not None and _holds(level, file, wanted, held):
            continue
        if _is_inside(tree, level, file, wanted):
            continue
        shown = "cannot be read" if held is None else f"holds {held}"
        yield LevelDifference(
            level.cgroup,
            level.level,
            file,
            wanted,
            held or "",
            f"{shown}, expected {wanted}",
            _likely(tree, level, file, held),
        )


def _holds(level: CgroupLevel, file: str, wanted: str, held: str) -> bool:
    if same(file, wanted, held):
        return True
    identity = identify(level.cgroup)
    in_slices = identity is not None and identity.driver is Driver.SYSTEMD
    return in_slices and file == CPU_MAX and same(file, rounded_cpu_max(wanted), held)


def _is_inside(tree: Tree, level: CgroupLevel, file: str, wanted: str) -> bool:
    """Whether crun has put a value into the cgroup that it makes in a container's."""
    if level.level != "container" or tree.version == 1 or file == "cpu.weight":
        return False
    held = _held(tree, f"{level.cgroup}/{CRUN_INNER}", file)
    return held is not None and _holds(level, file, wanted, held)


def _exists(tree: Tree, cgroup: str) -> bool:
    return tree.exists(cgroup)


def _held(tree: Tree, cgroup: str, file: str) -> str | None:
    """Return the content of a file; None if there is none.

    Raises:
        CgroupError: it is there and cannot be read.
    """
    top = f"/{file.partition('.')[0]}" if tree.version == 1 else ""
    try:
        return tree.files.read(f"{top}{cgroup}/{file}").strip()
    except CgroupError as exc:
        if exc.errno in GONE:
            return None
        raise


def _likely_missing(level: CgroupLevel) -> str:
    if level.level == "container":
        return "likely the container has ended, or runs again with another ID"
    if level.level == "pod":
        return "likely the pod has ended, has not started, or is on another node"
    return "likely kubelet does not run, or has another driver or cgroupRoot"


def _likely(tree: Tree, level: CgroupLevel, file: str, held: str | None) -> str:
    """Return a sentence about who has caused a difference."""
    owner = "the runtime" if level.level == "container" else "kubelet"
    if held is None:
        return f"likely the controller {file.partition('.')[0]} is off in this cgroup"
    default = _DEFAULTS.get(file)
    if default is not None and same(file, default, held):
        if level.level == "node":
            return (
                "the kernel's default: likely kubelet does not enforce this, or runs "
                "with other settings than those that were read"
            )
        return (
            f"the kernel's default: likely {owner} has not written it yet, or another "
            "program has reset it"
        )
    if file in _PROTECTION:
        return (
            "likely nriplugin's memoryQoS or kubelet's gate MemoryQoS, with other "
            "settings than those that were read"
        )
    if level.level == "container":
        return (
            "likely another program has written it since, or the container was "
            "resized; `nriplugin why` shows what nriplugin decided"
        )
    again = {
        "node": "kubelet writes it again when it starts",
        "qos": "kubelet writes it again within a minute",
        "pod": "kubelet writes it again when the pod is resized",
    }
    program = "another program, or systemd,"
    if not level.cgroup.endswith(".slice"):
        program = "another program"
    return f"likely {program} has written it since; {again[level.level]}"


def _unknown_pods(
    tree: Tree, kubepods: str, known: set[str]
) -> Iterator[LevelDifference]:
    try:
        found = list(walk(tree, kubepods))
    except CgroupError as exc:
        if exc.errno in GONE:
            return
        raise
    for one in found:
        if one.identity.level == "pod" and one.cgroup not in known:
            yield LevelDifference(
                one.cgroup,
                "pod",
                file="",
                wanted="",
                held="",
                problem=f"pod {one.identity.pod_uid} is not among the given pods",
                likely="likely it has started since, or has ended and is being removed",
            )

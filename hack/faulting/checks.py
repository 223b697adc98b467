"""The conditions that the harness checks after each disturbance.

The right values of a size are those that a container of this size got before anything
was disturbed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import grpc

from faulting.clients import scrape, status
from faulting.stream import SIZES
from nriplugin.state.verifier import EVERY_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from faulting.disturbances import Disturbance
    from faulting.played_node import PlayedNode, Size
    from nriplugin.api import control_pb2 as control

FILES = ("cpu.weight", "cpu.max", "cpu.max.burst", "memory.max", "memory.low")
POLL_S = 0.1
SETTLED_S = 1.0
# One verification interval, unless a configuration sets another: the time that it took
# is reported.
PATIENCE_S = EVERY_S

Values = dict[str, str]


class Violation(Exception):
    """Something that must always hold does not; says what."""


def learn_values(node: PlayedNode) -> dict[Size, Values]:
    """Return the right values of every size; the node is not disturbed yet."""
    found: dict[Size, Values] = {}
    for index, size in enumerate(SIZES, start=900_001):
        if failed := node.play("run", index, resources=size.resources()):
            raise Violation(failed[0])
    specs = node.containers()

    def differing() -> list[str]:
        return [
            f"undisturbed: {held}, expected {sure}"
            for index, size in enumerate(SIZES, start=900_001)
            for held, sure in [(node.files(specs[index], FILES), _sure(size))]
            if not sure.items() <= held.items()
        ]

    # Direct writes come after the start.
    deadline = time.monotonic() + PATIENCE_S
    while problems := differing():
        if time.monotonic() > deadline:
            raise Violation(problems[0])
        time.sleep(POLL_S)
    time.sleep(SETTLED_S)
    for index, size in enumerate(SIZES, start=900_001):
        found[size] = node.files(specs[index], FILES)
        node.play("remove", index)
    return found


def _sure(size: Size) -> Values:
    """Return the values that a size must have, worked out by hand."""
    return {
        "cpu.weight": str(size.shares * 100 // 1024),
        "cpu.max": f"{size.quota} 100000",
        "cpu.max.burst": str(size.quota // 2),
        "memory.max": str(size.limit),
    }


def wrong_files(
    node: PlayedNode, wanted: Mapping[int, Size], right: Mapping[Size, Values]
) -> list[str]:
    """Return a sentence for each container that has a wrong value."""
    specs = node.containers()
    problems = [f"c{index:06}: gone" for index in wanted if index not in specs]
    for index, spec in specs.items():
        if index not in wanted:
            problems.append(f"c{index:06}: nobody wants it")
            continue
        held = node.files(spec, FILES)
        problems += [
            f"c{index:06}: {name}={held[name]}, expected {value}"
            for name, value in right[wanted[index]].items()
            if held[name] != value
        ]
    return problems


def unseen(node: PlayedNode, count: int) -> list[str]:
    """Return what the daemon's own state says against it."""
    try:
        state = status(node.control)
        scrape(node.http, "readyz")
    except (grpc.RpcError, OSError) as exc:
        return [f"status: {str(exc)[:200]!r}"]
    problems = list(state.problems)
    if not (state.healthy and state.ready and state.runtime.connected):
        problems.append("status: not ready")
    known = state.containers.managed + state.containers.adopted
    if known != count:
        problems.append(f"status: knows {known} of {count}: {state.containers}")
    return [problem.replace("\n", " ") for problem in problems]


def wait_until_right(
    node: PlayedNode, wanted: Mapping[int, Size], right: Mapping[Size, Values]
) -> float:
    """Return after how many seconds everything was right.

    Raises:
        Violation: it has not become so.
    """
    began = time.monotonic()
    while True:
        problems = wrong_files(node, wanted, right) or unseen(node, len(wanted))
        took = time.monotonic() - began
        if not problems:
            return took
        if took > PATIENCE_S:
            raise Violation(
                f"after {PATIENCE_S:.0f} s, {len(problems)} problems: "
                + "; ".join(problems[:5])
            )
        time.sleep(POLL_S)


def check_gaps(
    before: control.StatusResponse, after: control.StatusResponse, kind: Disturbance
) -> None:
    """Compare the times without a connection that the daemon names.

    Raises:
        Violation: one is missing, or there is one too many.
    """
    gaps = after.runtime.gap_count
    expected = 1  # from the start of a process to its first connection
    if after.pid == before.pid:
        if kind.cuts is None:
            return
        expected = before.runtime.gap_count + kind.cuts
    if gaps != expected:
        raise Violation(f"status names {gaps} gaps, expected {expected}")
    if not all(gap.reason and gap.ended >= gap.began for gap in after.runtime.gaps):
        raise Violation(f"a gap without a reason or an end: {after.runtime.gaps}")
    first = after.runtime.gaps[0]
    if kind.killed and not (
        "killed or crashed" in first.reason and first.began <= after.started_at
    ):
        raise Violation(f"the gap does not name the end of the old process: {first}")

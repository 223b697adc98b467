"""What holds containers back, for `why`: measured twice, a second apart.

The thread of the control API's call waits; nobody else does.
"""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.api import control_pb2 as control
from nriplugin.daemon.policy_status import policy_names
from nriplugin.engine.verdicts import Verdict, judge
from nriplugin.node.verdict_samples import MomentSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nriplugin.engine.verdicts import Judgement, Moment
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle

INTERVAL_S = 1.0
# How many containers one call measures; a pod has fewer.
AT_ONCE = 64

# Said of a container about which every verdict was told, and none holds.
NONE = "none"
_NOTHING = "nothing that is measured holds it back"

_V1 = "cgroup v1 has no pressure and no memory.high"
# The policy that helps, and what helps without it.
_HELP = {
    Verdict.THROTTLED: (
        "quotaBurst",
        "raise the CPU limit, which kubelet can do while the container runs",
    ),
    Verdict.CONTENDED: (
        "",
        "raise the CPU request, which is its share among its neighbours; "
        "have those of less importance run with QoS level BE; or move some of them to "
        "other nodes",
    ),
    Verdict.MEMORY_HIGH: (
        "memoryGuard",
        "raise the memory limit, or the factor of memoryQoS",
    ),
}


class JudgedContainer(NamedTuple):
    """The verdicts about one container, and what to do about them."""

    verdicts: tuple[control.ContainerVerdict, ...] = ()
    not_told: str = ""
    advice: tuple[str, ...] = ()


NOT_ASKED = JudgedContainer()


def judged(
    lifecycle: Lifecycle,
    entries: Sequence[ContainerEntry],
    wait: Callable[[float], None] = sleep,
) -> dict[str, JudgedContainer]:
    """Return the verdicts about containers by their IDs; it takes a second."""
    tree = lifecycle.tree
    found = {entry.id: _unmeasured("the container does not run") for entry in entries}
    if tree is None:
        return dict.fromkeys(found, _unmeasured("the cgroups cannot be read"))
    running = [entry for entry in entries if entry.started]
    for entry in running[AT_ONCE:]:
        found[entry.id] = _unmeasured("too many containers at once: ask for this one")
    sampler = MomentSampler(tree, lifecycle.policies.sampler)
    before = {one.id: _moment(lifecycle, sampler, one) for one in running[:AT_ONCE]}
    if any(before.values()):
        wait(INTERVAL_S)
    for entry in running[:AT_ONCE]:
        now = _moment(lifecycle, sampler, entry)
        if now is None:
            found[entry.id] = _unmeasured("the container cannot be measured")
        else:
            judgement = judge(before[entry.id], now)
            found[entry.id] = JudgedContainer(
                tuple(_messages(judgement)),
                _not_told(judgement, tree.version),
                tuple(_advice(lifecycle, entry, judgement)),
            )
    return found


def _unmeasured(reason: str) -> JudgedContainer:
    return JudgedContainer(not_told=f"{', '.join(Verdict)}: {reason}")


def _moment(
    lifecycle: Lifecycle, sampler: MomentSampler, entry: ContainerEntry
) -> Moment | None:
    cgroup = lifecycle.locator.cgroup_of(entry)
    return None if cgroup is None else sampler.moment(cgroup, entry.pod_cgroup)


def _messages(judgement: Judgement) -> Iterator[control.ContainerVerdict]:
    for one in judgement.findings:
        yield control.ContainerVerdict(verdict=one.verdict, because=one.because)
    if not judgement.findings and not judgement.untold:
        yield control.ContainerVerdict(verdict=NONE, because=_NOTHING)


def _not_told(judgement: Judgement, version: int) -> str:
    if not judgement.untold:
        return ""
    reason = _V1 if version == 1 else "the kernel does not count what they need"
    return f"{', '.join(judgement.untold)}: {reason}"


def _advice(
    lifecycle: Lifecycle, entry: ContainerEntry, judgement: Judgement
) -> Iterator[str]:
    """Say what to do; the policy that helps comes first, unless it is on already."""
    state = lifecycle.policies.state_of(entry.id)
    on = () if state is None else {one.name for one in state.policies.on}
    for verdict, _, _ in judgement.findings:
        policy, otherwise = _HELP.get(verdict, ("", ""))
        if not otherwise:
            continue
        if policy in on:
            otherwise = f"{policy} is on and not enough: {otherwise}"
        elif policy in policy_names():
            otherwise = f"set {policy}.enabled: true, or {otherwise}"
        yield f"{verdict}: {otherwise}"

"""What `status` and `why` say about policies at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.engine.handlers import table
from nriplugin.state.policy_holds import OUTCOMES

if TYPE_CHECKING:
    from nriplugin.daemon.process import DaemonProcess
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle
    from nriplugin.state.policy_holds import HeldFile, Wanted


def policy_names() -> list[str]:
    """Return the handlers that have a policy, in the order of the table."""
    return [one.name for one in table.HANDLERS if one.at_run_time is not None]


def policies_status(process: DaemonProcess) -> control.PoliciesStatus:
    """Return which policies are on, and what they have done."""
    counts = process.lifecycle.policies.counts
    actions = dict(counts.actions)
    shown = process.direct_writes_off_because or counts.waits_because
    return control.PoliciesStatus(
        interval_seconds=counts.interval_s,
        last_at=counts.last_at or 0.0,
        cpu_seconds=counts.cpu_s,
        looks=counts.looks,
        shown_because=shown if counts.interval_s else "",
        policies=[
            control.PolicyStatus(
                name=name,
                containers=counts.containers.get(name, 0),
                holding=counts.holding.get(name, 0),
                actions=[
                    control.OutcomeCount(outcome=outcome, count=actions[name, outcome])
                    for outcome in OUTCOMES
                    if (name, outcome) in actions
                ],
            )
            for name in policy_names()
        ],
    )


def hold_of(
    lifecycle: Lifecycle, entry: ContainerEntry, file: str
) -> control.PolicyHold | None:
    """Return which policy holds a file of a container, or would hold it."""
    state = lifecycle.policies.state_of(entry.id)
    if state is None:
        return None
    hold = state.held.get(file)
    if hold is not None:
        return hold_message(hold)
    shown = state.shown.get(file)
    if shown is None:
        return None
    return _shown(shown, state.original.get(file, ""))


def files_at_run_time(lifecycle: Lifecycle, entry: ContainerEntry) -> frozenset[str]:
    """Return the files of a container that policies hold, or would hold."""
    state = lifecycle.policies.state_of(entry.id)
    return frozenset() if state is None else frozenset({*state.held, *state.shown})


def said_by_policies(lifecycle: Lifecycle, entry: ContainerEntry) -> list[str]:
    """Return what the policies of a container said last."""
    state = lifecycle.policies.state_of(entry.id)
    said = {} if state is None else dict(state.reasons)
    return [f"{name}: {text}" for name, text in said.items() if text]


def hold_message(hold: HeldFile) -> control.PolicyHold:
    """Return the message about a file that holds a policy's value."""
    return control.PolicyHold(
        policy=hold.policy,
        since=hold.since,
        original=hold.original,
        reason=hold.reason,
        changes=hold.changes,
        wants=hold.asked,
    )


def _shown(wanted: Wanted, original: str) -> control.PolicyHold:
    return control.PolicyHold(
        policy=wanted.policy,
        original=original,
        reason=wanted.reason,
        shown=True,
        wants=wanted.value,
    )

"""What a daemon says at its start: what is on, what is off, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin import __version__
from nriplugin.engine.handlers import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nriplugin.daemon.process import DaemonProcess


def start_lines(process: DaemonProcess) -> Iterator[str]:
    """Return the lines, once the configuration is in force."""
    plan = process.lifecycle.plan
    facts, config = plan.facts, plan.config
    yield f"nriplugin {__version__}, door {process.door}, process {os.getpid()}"
    driver = facts.driver or "not known"
    yield (
        f"cgroup v{facts.cgroup_version} ({facts.cgroup_evidence}), "
        f"driver {driver} ({process.driver_evidence})"
    )
    if mode := process.direct_only_mode:
        yield mode
    off_because = process.direct_writes_off_because
    because = off_because or process.direct_writes_on_because
    yield f"direct writes: {'off' if off_because else 'on'}: {because}"
    on = config.base.active
    off = [one.name for one in table.HANDLERS if one.name not in on]
    line = f"handlers on: {_listed(on)}; off: {_listed(off)}"
    if config.rules:
        count = len(config.rules)
        rules = "1 rule changes" if count == 1 else f"{count} rules change"
        line += f"; {rules} that for some containers"
    yield line
    if config.base.shadow:
        yield "shadow: on: decisions are made for show, and nothing is sent or written"
    applied = process.lifecycle.config
    every_s = process.lifecycle.verification.interval_s
    verified = f"every {every_s:.0f} s" if every_s else "off"
    yield (
        f"adopt {_on(applied and applied.adopt.enabled)}, "
        f"repair {_on(applied and applied.repair.enabled)}, "
        f"verification {verified}"
    )
    # Otherwise it is logged when the containers of the node are known.
    if config.curve is not None:
        yield f"curve: {config.curve.value}, set in the configuration"
    status = process.config
    yield (
        f"configuration: {status.path}, SHA-256 {status.hash}…"
        if status.path
        else "configuration: the defaults, no file was given"
    )
    # A service that is on says itself where it serves, or why it cannot.
    off = [name for name, address in process.addresses.items() if address == "off"]
    if off:
        yield f"off: {_listed(off)}"


def _on(enabled: bool | None) -> str:
    return "on" if enabled else "off"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"

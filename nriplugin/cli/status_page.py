"""The page of `nriplugin status`: the state of a daemon for people.

One function per section. Each section begins with what matters most, and a section that
has nothing to say is one short line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cli.layout import Tone, Toned, titles
from nriplugin.cli.status_counters import (
    INDENT,
    counts_of,
    draw_containers,
    draw_gaps,
    draw_policies,
    draw_refusals,
    draw_requests,
    draw_shadow,
    draw_verification,
    draw_writes,
    many,
)
from nriplugin.cli.status_groups import draw_source
from nriplugin.cli.times import moment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.api import control_pb2 as control
    from nriplugin.cli.printing import Page


def draw_status(
    page: Page, status: control.StatusResponse, now: float, by: str = ""
) -> None:
    """Add all sections to a page."""
    _summary(page, status)
    _runtime(page, status, now)
    _configuration(page, status.configuration, now)
    _node(page, status.node)
    _handlers(page, status.handlers)
    draw_containers(page, status, by)
    draw_requests(page, status)
    draw_refusals(page, status.handlers)
    draw_writes(page, status.writes)
    draw_verification(page, status.verification, now)
    draw_policies(page, status.policies, now)
    draw_shadow(page, status.shadow)
    draw_gaps(page, status.runtime)
    draw_source(page, status.pod_groups, now)
    _serving(page, status)
    _process(page, status, now)


def brief_line(status: control.StatusResponse) -> str:
    """Return the state in one line."""
    line = f"nriplugin {status.version}: {verdict(status)}"
    if status.problems:
        return f"{line}: {'; '.join(status.problems)}"
    counts = [
        f"{count} {state}" for state, count in counts_of(status.containers) if count
    ]
    containers = ", ".join(counts) or "none"
    return f"{line}; {_runtime_name(status)}; containers: {containers}"


def verdict(status: control.StatusResponse) -> str:
    """Return whether the daemon is healthy and ready; its problems say why not."""
    healthy = "healthy" if status.healthy else "not healthy"
    ready = "ready" if status.ready else "not ready"
    return f"{healthy}, {ready}"


def verdict_tone(status: control.StatusResponse) -> Tone:
    """Return the colour of the verdict."""
    return Tone.GOOD if status.healthy and status.ready else Tone.BAD


def _summary(page: Page, status: control.StatusResponse) -> None:
    shown = Toned(verdict(status), verdict_tone(status))
    page.text(Toned(f"nriplugin {status.version}:", Tone.TITLE), shown)
    page.section(indent=2)
    for problem in status.problems:
        page.text(Toned(problem, Tone.BAD))
    page.section()
    page.text("")


def _runtime_name(status: control.StatusResponse) -> str:
    runtime = status.runtime
    if not runtime.name:
        return "no runtime has answered yet"
    nri = f", NRI {runtime.nri_release}" if runtime.nri_release else ""
    door = ", by the CRI proxy" if status.door == "cri" else nri
    return f"{runtime.name} {runtime.version}".strip() + door


def _runtime(page: Page, status: control.StatusResponse, now: float) -> None:
    runtime = status.runtime
    page.section("Runtime", INDENT)
    page.text(_runtime_name(status))
    if runtime.connected:
        page.text(Toned("connected", Tone.GOOD), "since", moment(runtime.since, now))
    else:
        since = moment(runtime.since, now)
        page.text(Toned("not connected", Tone.BAD), f"since {since}:")
        page.text(runtime.reason, indent=2)


def _configuration(page: Page, found: control.ConfigurationStatus, now: float) -> None:
    page.section("Configuration", INDENT)
    if not found.path:
        page.text("none: the defaults are in force")
        return
    page.text(f"{found.path}, SHA-256 {found.hash}...")
    page.text(f"in force since {moment(found.since, now)}")
    if found.reloads or found.failures:
        page.text(f"{many(found.reloads, 'reload')}, {found.failures} refused")
    if found.error:
        page.text(Toned(f"refused {moment(found.failed_at, now)}:", Tone.BAD))
        page.text(Toned(found.error, Tone.BAD), indent=2)
        page.text("The configuration above stays in force.", indent=2)


def _node(page: Page, node: control.NodeStatus) -> None:
    writes = "on" if node.direct_writes else "off"
    rows = [
        ("cgroups", f"v{node.cgroup_version}: {node.cgroup_evidence}"),
        ("driver", node.driver or "not known"),
        ("direct writes", f"{writes}: {node.direct_writes_because}"),
        ("curve", f"{node.curve}: {node.curve_evidence}"),
        ("kernel", node.kernel),
    ]
    page.section("Node", INDENT)
    page.table(rows)


def _handlers(page: Page, handlers: Iterable[control.HandlerStatus]) -> None:
    rows = [titles("handler", "", "containers", "rules")]
    for handler in handlers:
        on = Toned("on", Tone.GOOD) if handler.enabled else Toned("off", Tone.FAINT)
        rules = ", ".join(handler.rules)
        differ = f"{'off' if handler.enabled else 'on'} by {rules}" if rules else ""
        rows.append((handler.name, on, f"{handler.containers:10}", differ))
    page.section("Handlers", INDENT)
    page.table(rows)


def _serving(page: Page, status: control.StatusResponse) -> None:
    page.section("Serving", INDENT)
    page.text(f"control API: {status.control_address or 'not known'}")
    page.text(f"HTTP: {status.http_address or 'not known'}")


def _process(page: Page, status: control.StatusResponse, now: float) -> None:
    process = status.process
    page.section("Process", INDENT)
    page.text(f"pid {status.pid}, started {moment(status.started_at, now)}")
    page.text(
        f"{process.resident_bytes / 1e6:.1f} MB resident, "
        f"{many(process.threads, 'thread')}, "
        f"{many(process.open_files, 'open file')}"
    )
    page.section()

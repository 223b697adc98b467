"""The state of a daemon as one message, for the control API and for /statusz.

Everything is read from objects that other threads change. A figure may be one request
older than the next; none of the readings takes a lock that a request waits for longer
than it takes to copy a dictionary.
"""

from __future__ import annotations

import os
from math import isinf
from typing import TYPE_CHECKING

from nriplugin import __version__
from nriplugin.api import control_pb2 as control
from nriplugin.daemon.container_counts import (
    container_counts,
    container_groups,
    containers_by_handler,
)
from nriplugin.daemon.control_service import SERVICE as CONTROL
from nriplugin.daemon.health import live, ready
from nriplugin.daemon.http_service import SERVICE as HTTP
from nriplugin.daemon.plain import valid_text
from nriplugin.daemon.policy_status import policies_status
from nriplugin.engine.handlers import table

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    from nriplugin.daemon.process import DaemonProcess
    from nriplugin.request_stats import OperationStats
    from nriplugin.state.lifecycle import Lifecycle

_PROC_STATUS = "/proc/self/status"
_OPEN_FILES = "/proc/self/fd"


def status_of(process: DaemonProcess, by: str = "") -> control.StatusResponse:
    """Return the state of a daemon.

    Args:
        process: the daemon.
        by: also count the containers by this (container_counts.GROUPINGS); empty for
            no such counts.

    Raises:
        ConfigError: `by` is none of those.
    """
    lifecycle = process.lifecycle
    inventory = lifecycle.inventory
    not_live, not_ready = live(process), ready(process)
    return control.StatusResponse(
        version=__version__,
        door=process.door,
        pid=os.getpid(),
        started_at=process.started_at,
        healthy=not not_live,
        ready=not not_ready,
        problems=map(valid_text, [*not_live, *not_ready]),
        runtime=runtime_status(lifecycle),
        configuration=configuration_status(process),
        node=_node_status(process),
        handlers=_handlers(lifecycle),
        containers=container_counts(inventory),
        groups=container_groups(lifecycle, by) if by else (),
        operations=_operations(process),
        late_answers=process.late_answers(),
        writes=_writes(lifecycle),
        verification=_verification(lifecycle),
        shadow=_shadow(lifecycle),
        process=_process_status(process),
        policies=policies_status(process),
        withdrawn=process.withdrawn,
        control_address=valid_text(process.addresses.get(CONTROL, "")),
        http_address=valid_text(process.addresses.get(HTTP, "")),
        pod_groups=_pod_groups_status(process),
    )


def runtime_status(lifecycle: Lifecycle) -> control.RuntimeStatus:
    """Return the state of the connection to the runtime, and the newest gaps in it."""
    connection = lifecycle.connection
    since = connection.since
    connected = since is not None
    return control.RuntimeStatus(
        name=connection.runtime,
        version=connection.version,
        nri_release=connection.release,
        connected=connected,
        since=connection.began if since is None else since,
        reason="" if connected else connection.reason,
        gaps=[
            control.ConnectionGapStatus(
                began=gap.began, ended=gap.ended, reason=gap.reason, missed=gap.missed
            )
            for gap in list(connection.gaps)
        ],
        gap_count=connection.gap_count,
    )


def configuration_status(process: DaemonProcess) -> control.ConfigurationStatus:
    """Return which configuration is in force, and what became of later ones."""
    config = process.config
    return control.ConfigurationStatus(
        # A command that asks may run in another directory than the daemon.
        path=valid_text(os.path.abspath(config.path) if config.path else ""),
        hash=config.hash,
        since=config.since,
        reloads=config.reloads,
        failures=config.failures,
        error=valid_text(config.error),
        failed_at=config.failed_at or 0.0,
    )


def _node_status(process: DaemonProcess) -> control.NodeStatus:
    plan = process.lifecycle.plan
    facts, chosen = plan.facts, plan.config.curve
    off_because = process.direct_writes_off_because
    return control.NodeStatus(
        cgroup_version=facts.cgroup_version,
        cgroup_evidence=valid_text(
            "; ".join(filter(None, (facts.cgroup_evidence, process.direct_only_mode)))
        ),
        driver=facts.driver or "",
        direct_writes=not off_because,
        direct_writes_because=valid_text(
            off_because or process.direct_writes_on_because
        ),
        curve=(chosen or facts.curve).value,
        curve_evidence="set in the configuration" if chosen else facts.curve_evidence,
        kernel=os.uname().release,
    )


def _pod_groups_status(process: DaemonProcess) -> control.PodGroupsStatus:
    watches = process.podgroup_watches
    watch = None if watches is None else watches.watch
    if watch is None:
        return control.PodGroupsStatus()
    return control.PodGroupsStatus(
        source=valid_text(watch.source),
        objects=watch.objects,
        read_at=watch.read_at,
        problem=valid_text(watch.problem),
        failures=[
            control.ReasonCount(reason=reason.value, count=count)
            for reason, count in sorted(dict(watch.failures).items())
        ],
    )


def _handlers(lifecycle: Lifecycle) -> Iterator[control.HandlerStatus]:
    """Return the handlers of the table, then others that have refused something.

    Such another one is `annotations`, which stands for the reading of annotations.
    """
    config = lifecycle.plan.config
    refusals = dict(lifecycle.log.refusals)
    containers = containers_by_handler(lifecycle.inventory)
    names = [handler.name for handler in table.HANDLERS]
    others = {handler for handler, _ in refusals} | containers.keys()
    for name in [*names, *sorted(others.difference(names))]:
        enabled = name in config.base.active
        rules = [rule.settings for rule in config.rules]
        yield control.HandlerStatus(
            name=name,
            enabled=enabled or name not in names,
            rules=[one.rule for one in rules if (name in one.active) != enabled],
            refusals=[
                control.ReasonCount(reason=reason, count=count)
                for (handler, reason), count in sorted(refusals.items())
                if handler == name
            ],
            containers=containers[name],
        )


def _operations(process: DaemonProcess) -> Iterator[control.OperationStatus]:
    operations = process.requests.snapshot() if process.requests else {}
    for name, stats in sorted(operations.items()):
        count = stats.count
        yield control.OperationStatus(
            name=name,
            ok=stats.ok,
            failed=stats.failed,
            mean_seconds=stats.seconds / count if count else 0.0,
            p50_seconds=_bound_s(stats, 0.5),
            p99_seconds=_bound_s(stats, 0.99),
        )


def _bound_s(stats: OperationStats, share: float) -> float:
    """Return a time in which this share of the requests was answered.

    Beyond the last bucket that is the time of all requests together, since an infinite
    number has no place in JSON.
    """
    bound = stats.quantile_s(share) or 0.0
    return stats.seconds if isinf(bound) else bound


def _writes(lifecycle: Lifecycle) -> Iterable[control.WriteCount]:
    writer = lifecycle.pending.writer
    counts = {} if writer is None else dict(writer.counts)
    return [
        control.WriteCount(file=file, status=status, count=count)
        for (file, status), count in sorted(counts.items())
    ]


def _verification(lifecycle: Lifecycle) -> control.VerificationStatus:
    found = lifecycle.verification
    return control.VerificationStatus(
        interval_seconds=found.interval_s,
        last_at=found.last_at or 0.0,
        checked=found.checked,
        drift=_by_file(found.drift),
        repairs=_by_file(found.repairs),
        failed_repairs=_by_file(found.failed_repairs),
    )


def _shadow(lifecycle: Lifecycle) -> control.ShadowStatus:
    found = lifecycle.shadow
    return control.ShadowStatus(
        enabled=found.enabled,
        rules=found.rules,
        containers=found.containers,
        files=_by_file(found.files),
    )


def _by_file(counts: Counter[str]) -> list[control.FileCount]:
    copied = dict(counts)
    return [control.FileCount(file=file, count=copied[file]) for file in sorted(copied)]


def _process_status(process: DaemonProcess) -> control.ProcessStatus:
    fields: dict[str, str] = {}
    with open(_PROC_STATUS, encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            fields[name] = value
    return control.ProcessStatus(
        resident_bytes=int(fields["VmRSS"].split()[0]) * 1024,
        threads=int(fields["Threads"]),
        # Less the descriptor of this very listing.
        open_files=len(os.listdir(_OPEN_FILES)) - 1,
        uptime_seconds=process.uptime_s,
    )

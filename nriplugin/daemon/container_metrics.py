"""The metrics about containers and their files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nriplugin.daemon.cgroup_usage import RESOURCES
from nriplugin.daemon.group_labels import OTHER
from nriplugin.daemon.metric_families import counter, counters, gauge, gauges
from nriplugin.daemon.verdict_counts import LABELS
from nriplugin.engine.allowed_files import OWNABLE
from nriplugin.state.inventory import EntryState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from nriplugin.daemon.cgroup_usage import UsageTotal
    from nriplugin.daemon.metric_encoding import Metric
    from nriplugin.daemon.usage_totals import UsageTotals
    from nriplugin.daemon.verdict_counts import VerdictCounts
    from nriplugin.state.lifecycle import Lifecycle

    Counts = Iterable[tuple[tuple[str, ...], int]]


def container_metrics(lifecycle: Lifecycle) -> Iterator[Metric]:
    """Return what is known about containers."""
    inventory = lifecycle.inventory
    entries = inventory.snapshot().values()
    states = Counter(inventory.state_of(entry) for entry in entries)
    yield gauges(
        "containers",
        "Containers on the node by what nriplugin has done to them.",
        ("state",),
        [((state.value,), states[state]) for state in EntryState],
    )
    yield counters(
        "decision_refused",
        "Settings and annotations that a handler did not follow.",
        ("handler", "reason"),
        dict(lifecycle.log.refusals).items(),
    )


def file_metrics(lifecycle: Lifecycle) -> Iterator[Metric]:
    """Return what was written to files, and what was found in them."""
    known = _known_files(lifecycle)
    writer, found = lifecycle.pending.writer, lifecycle.verification
    writes: Counts = () if writer is None else dict(writer.counts).items()
    yield counters(
        "cgroup_writes",
        "Direct writes by the name of the file and by what came of them.",
        ("file", "status"),
        _by_known_file(known, writes),
    )
    yield counter(
        "verified_containers",
        "Comparisons of a container's files with what was decided.",
        found.checked,
    )
    yield gauge(
        "verification_timestamp_seconds",
        "When containers were compared last, in seconds since 1970; 0 for never.",
        found.last_at or 0,
    )
    yield counters(
        "drift",
        "Files that held another value than was decided.",
        ("file",),
        _by_known_file(known, _of(found.drift)),
    )
    repairs = [*_of(found.repairs, "ok"), *_of(found.failed_repairs, "failed")]
    yield counters(
        "repairs",
        "Files with another value than decided, by whether it could be put right.",
        ("file", "status"),
        _by_known_file(known, repairs),
    )
    shadow = lifecycle.shadow
    yield gauge(
        "shadow_enabled",
        "Whether the daemon as a whole sends and writes nothing.",
        shadow.enabled,
    )
    yield gauge(
        "shadow_containers",
        "Containers that would get other values if shadow mode were off.",
        shadow.containers,
    )
    yield gauges(
        "shadow_files",
        "Containers in which the file would change if shadow mode were off.",
        ("file",),
        _by_known_file(known, _of(shadow.files)),
    )


def usage_metrics(usage: UsageTotals) -> Iterator[Metric]:
    """Return throttling, OOM kills and pressure, by handler, by PodGroup, by pod."""
    who = "of containers with a value from the handler"
    handlers = [((one,), total) for one, total in dict(usage.by_handler).items()]
    yield from _usage("handler", who, ("handler",), handlers)
    who = "of containers in the PodGroup"
    groups = [((one,), total) for one, total in dict(usage.by_group).items()]
    yield from _usage("group", who, ("group",), groups)
    yield counters(
        "group_pressure_seconds",
        "How long some task of a container in the PodGroup waited for the resource.",
        ("group", "resource"),
        [
            ((*one, resource), getattr(total, f"{resource}_stalled_us") / 1e6)
            for one, total in groups
            if one != ("",)
            for resource in RESOURCES
        ],
    )
    if usage.max_pods:
        pods = dict(usage.by_pod).items()
        labels = "namespace", "pod"
        yield from _usage("pod", "of the pod's containers", labels, pods)


def verdict_metrics(verdicts: VerdictCounts) -> Iterator[Metric]:
    """Return how many containers are held back by what."""
    by_label, by_group = verdicts.by_label, verdicts.by_group
    yield gauges(
        "containers_by_verdict",
        "Running containers by what held them back when they were measured last.",
        ("verdict",),
        [((label,), by_label.get(label, 0)) for label in LABELS],
    )
    yield gauges(
        "group_containers_by_verdict",
        "Running containers of a PodGroup by what held them back.",
        ("group", "verdict"),
        [
            ((group, label), by_group.get((group, label), 0))
            for group in sorted({group for group, _ in by_group})
            for label in LABELS
        ],
    )


def _usage(
    what: str,
    who: str,
    labels: tuple[str, ...],
    totals: Collection[tuple[tuple[str, ...], UsageTotal]],
) -> Iterator[Metric]:
    yield counters(
        f"{what}_throttled_periods",
        f"CPU periods in which cgroups {who} were throttled.",
        labels,
        [(one, total.throttled_periods) for one, total in totals],
    )
    yield counters(
        f"{what}_throttled_seconds",
        f"How long cgroups {who} were throttled.",
        labels,
        [(one, total.throttled_us / 1e6) for one, total in totals],
    )
    yield counters(
        f"{what}_oom_kills",
        f"Processes {who} that the kernel killed for want of memory.",
        labels,
        [(one, total.oom_kills) for one, total in totals],
    )


def _of(counts: Counter[str], *more: str) -> Counts:
    """Return counts by file with further labels."""
    return [((file, *more), count) for file, count in dict(counts).items()]


def _known_files(lifecycle: Lifecycle) -> frozenset[str]:
    """Return the names of all files that nriplugin can write or decide about."""
    tree = lifecycle.tree
    registered = () if tree is None else [resource.file for resource in tree.registry]
    return OWNABLE.union(registered)


def _by_known_file(known: frozenset[str], counts: Counts) -> Counts:
    """Return counts by file and possibly more, with one name for unknown files.

    The set of a label's values has to be bounded, whatever the counters hold.
    """
    result: Counter[tuple[str, ...]] = Counter()
    for (file, *more), count in counts:
        result[file if file in known else OTHER, *more] += count
    return sorted(result.items())

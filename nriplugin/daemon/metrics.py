"""The daemon's metrics, read from plain counters when they are scraped.

docs/metrics.md has the same list for operators, and a test compares the two. Every
label has a bounded set of values. This module is imported only if the HTTP service is
on, and fails to be if prometheus-client is not installed.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import google.protobuf
from google.protobuf.internal import api_implementation

from nriplugin import __version__
from nriplugin.daemon.container_metrics import (
    container_metrics,
    file_metrics,
    usage_metrics,
    verdict_metrics,
)
from nriplugin.daemon.group_labels import GroupLabels
from nriplugin.daemon.group_metrics import GroupSums, group_metrics, source_metrics
from nriplugin.daemon.health import live, ready
from nriplugin.daemon.metric_encoding import (
    CollectorRegistry,
    CounterMetricFamily,
    HistogramMetricFamily,
    ProcessCollector,
    encoder_for,
    floatToGoString,
)
from nriplugin.daemon.metric_families import counter, counters, gauge, info
from nriplugin.daemon.policy_metrics import policy_metrics
from nriplugin.daemon.usage_totals import UsageTotals
from nriplugin.daemon.verdict_counts import VerdictCounts
from nriplugin.request_stats import BOUNDS_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nriplugin.daemon.metric_encoding import Metric
    from nriplugin.daemon.process import DaemonProcess

_BOUNDS = [*map(floatToGoString, BOUNDS_S), "+Inf"]


class DaemonMetrics:
    """Makes the text that a scraper gets."""

    def __init__(self, process: DaemonProcess, pods: int = 0) -> None:
        """Serve the metrics of a daemon, with sums for so many single pods."""
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_DaemonCollector(process, pods))

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its content type, as the header `Accept` asks for it."""
        encode, content_type = encoder_for(accept)
        return encode(self._registry), content_type


class _DaemonCollector:
    """Turns counters into samples."""

    def __init__(self, process: DaemonProcess, pods: int) -> None:
        self._process = process
        labels = GroupLabels()
        self._usage = UsageTotals(process.lifecycle, pods, labels=labels)
        self._groups = GroupSums(process.lifecycle, labels)
        self._verdicts = VerdictCounts(process.lifecycle, labels)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry need not collect to learn the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        lifecycle = self._process.lifecycle
        yield from _process_metrics(self._process)
        yield from _request_metrics(self._process)
        yield from _configuration_metrics(self._process)
        yield from container_metrics(lifecycle)
        yield from file_metrics(lifecycle)
        yield from policy_metrics(lifecycle)
        self._usage.refresh()
        yield from usage_metrics(self._usage)
        self._groups.refresh()
        yield from group_metrics(self._groups)
        yield from source_metrics(self._process)
        self._verdicts.refresh()
        yield from verdict_metrics(self._verdicts)


def _process_metrics(process: DaemonProcess) -> Iterator[Metric]:
    connection = process.lifecycle.connection
    implementation = api_implementation.Type()
    yield info(
        "build",
        "The version of nriplugin and of what it runs on; the value is 1.",
        {
            "version": __version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "protobuf": f"{google.protobuf.__version__} {implementation}",
        },
    )
    yield gauge(
        "connected",
        "Whether the daemon is registered with the runtime and synchronized.",
        connection.since is not None,
    )
    yield gauge("ready", "What /readyz says: 1 for ready.", not ready(process))
    yield gauge("healthy", "What /healthz says: 1 for healthy.", not live(process))
    yield counter(
        "connection_gaps",
        "Times without a connection that have ended, that from the start included.",
        connection.gap_count,
    )
    yield counter(
        "missed_containers",
        "Containers that were created during a time without a connection.",
        connection.missed_count,
    )
    yield gauge(
        "threads", "Threads of the daemon that run Python.", threading.active_count()
    )


def _request_metrics(process: DaemonProcess) -> Iterator[Metric]:
    operations = process.requests.snapshot() if process.requests else {}
    total = CounterMetricFamily(
        "nriplugin_requests",
        "Requests of the runtime or kubelet that were handled.",
        labels=("operation", "status"),
    )
    duration = HistogramMetricFamily(
        "nriplugin_request_duration_seconds",
        "How long nriplugin worked on a request, until it was answered.",
        labels=("operation",),
    )
    for operation, stats in sorted(operations.items()):
        total.add_metric((operation, "ok"), stats.ok)
        total.add_metric((operation, "failed"), stats.failed)
        buckets = list(zip(_BOUNDS, stats.cumulative(), strict=True))
        duration.add_metric((operation,), buckets, stats.seconds)
    yield total
    yield duration
    yield counter(
        "late_answers",
        "Requests that were answered without waiting for their handlers.",
        process.late_answers(),
    )


def _configuration_metrics(process: DaemonProcess) -> Iterator[Metric]:
    config, lifecycle = process.config, process.lifecycle
    yield counters(
        "config_reloads",
        "Configurations that came into force, or were refused, after the first one.",
        ("status",),
        [(("ok",), config.reloads), (("failed",), config.failures)],
    )
    yield gauge(
        "config_last_reload_successful",
        "Whether the newest text of the configuration file is in force.",
        not config.error,
    )
    yield gauge(
        "config_last_reload_success_timestamp_seconds",
        "When the configuration in force was read, in seconds since 1970.",
        config.since,
    )
    watch = process.checkpoint_watch
    checkpoint = None if watch is None else watch.checkpoint
    yield counters(
        "kubelet_checkpoint_reads",
        "Contents of kubelet's checkpoint that were read, or could not be.",
        ("status",),
        [
            (("ok",), checkpoint.reads if checkpoint else 0),
            (("failed",), checkpoint.failures if checkpoint else 0),
        ],
    )
    plan = lifecycle.plan
    curve = (plan.config.curve or plan.facts.curve).value
    yield info(
        "curve",
        "The curve from cpu shares to cpu.weight; the value is 1.",
        {"curve": curve},
    )
    yield gauge(
        "direct_writes",
        "Whether the daemon writes to cgroups itself.",
        not process.direct_writes_off_because,
    )

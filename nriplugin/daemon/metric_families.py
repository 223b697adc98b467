"""Short forms for the metrics of the daemon, all with the prefix `nriplugin_`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.daemon.metric_encoding import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.daemon.metric_encoding import Metric


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(f"nriplugin_{name}", text, value)


def counter(name: str, text: str, value: float) -> Metric:
    """Return a counter without labels."""
    return CounterMetricFamily(f"nriplugin_{name}", text, value)


def counters(
    name: str,
    text: str,
    labels: tuple[str, ...],
    counts: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    """Return a counter with one sample for each set of labels."""
    family = CounterMetricFamily(f"nriplugin_{name}", text, labels=labels)
    for values, count in sorted(counts):
        family.add_metric(values, count)
    return family


def info(name: str, text: str, values: dict[str, str]) -> Metric:
    """Return labels with the value 1."""
    return InfoMetricFamily(f"nriplugin_{name}", text, values)


def gauges(
    name: str,
    text: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    """Return a gauge with one sample for each set of labels."""
    family = GaugeMetricFamily(f"nriplugin_{name}", text, labels=labels)
    for of, value in values:
        family.add_metric(of, value)
    return family

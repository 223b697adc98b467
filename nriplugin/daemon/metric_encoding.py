"""prometheus-client without the parts of it that a daemon on every node can do without.

`import prometheus_client` loads clients and servers for HTTP, TLS, WSGI and more: 5 MB
of memory, for which the daemon has no use. The modules that it does use need 0.3 MB:
metric families, registry, the collector of process figures, and OpenMetrics. So these
are imported without running the package's `__init__`, which only imports the others.
The plain text format is written here, because it shares a module with those servers.
"""

from __future__ import annotations

import importlib.util
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def _without_its_init(package: str) -> Iterator[None]:
    """Let submodules of a package be imported without running its `__init__`.

    A later import of the package itself runs it as usual.

    Raises:
        ModuleNotFoundError: there is no such package.
    """
    if package in sys.modules:
        yield
        return
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    sys.modules[package] = importlib.util.module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules[package]


with _without_its_init("prometheus_client"):
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        InfoMetricFamily,
        Metric,
    )
    from prometheus_client.openmetrics import exposition as openmetrics
    from prometheus_client.process_collector import ProcessCollector
    from prometheus_client.registry import CollectorRegistry
    from prometheus_client.utils import floatToGoString

__all__ = [
    "CollectorRegistry",
    "CounterMetricFamily",
    "GaugeMetricFamily",
    "HistogramMetricFamily",
    "InfoMetricFamily",
    "Metric",
    "ProcessCollector",
    "encoder_for",
    "floatToGoString",
    "plain_text",
]

PLAIN_TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text"

# The types and suffixes of a family in the plain text format.
_PLAIN = {
    "counter": ("counter", "_total"),
    "info": ("gauge", "_info"),
    "gauge": ("gauge", ""),
    "histogram": ("histogram", ""),
}


def encoder_for(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    """Return what writes the format that a client asks for, and its content type."""
    if OPENMETRICS in accept:
        return openmetrics.generate_latest, openmetrics.CONTENT_TYPE_LATEST
    return plain_text, PLAIN_TEXT


def plain_text(registry: CollectorRegistry) -> bytes:
    """Return all metrics in Prometheus' plain text format."""
    lines = []
    for family in registry.collect():
        kind, suffix = _PLAIN[family.type]
        name = family.name + suffix
        text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
        lines += [f"# HELP {name} {text}\n", f"# TYPE {name} {kind}\n"]
        for sample in family.samples:
            labels = ",".join(
                f'{label}="{_escaped(value)}"'
                for label, value in sorted(sample.labels.items())
            )
            of = f"{{{labels}}}" if labels else ""
            value = floatToGoString(sample.value)  # type: ignore[no-untyped-call]
            lines.append(f"{sample.name}{of} {value}\n")
    return "".join(lines).encode()


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

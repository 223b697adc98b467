"""The texts that a scraper gets, compared with those of the whole library."""

from __future__ import annotations

import subprocess
import sys

from nriplugin.daemon.metric_encoding import (
    CollectorRegistry,
    Metric,
    ProcessCollector,
    encoder_for,
    plain_text,
)
from nriplugin.daemon.metric_families import counter, counters, gauge, gauges, info


class Samples:
    """Every kind of metric, with every character that has to be escaped."""

    def collect(self) -> list[Metric]:
        odd = 'a "quoted"\nline\\'
        return [
            gauge("connected", f"Help: {odd}", True),
            gauges("containers", "Help.", ("state",), [((odd,), 3), (("b",), 1e9)]),
            counter("late_answers", "Help.", 0),
            counters("writes", "Help.", ("file", "status"), [(("cpu.max", "ok"), 7)]),
            info("build", "Help.", {"version": "1", "python": odd}),
        ]


def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(Samples())
    return made


def test_the_plain_text_is_that_of_the_library() -> None:
    """The encoder here writes what the one of prometheus-client writes."""
    from prometheus_client.exposition import generate_latest

    assert plain_text(registry()) == generate_latest(registry())


def test_the_process_figures_are_encoded_alike() -> None:
    """Also for metrics that the library makes itself."""
    from prometheus_client.exposition import generate_latest

    made = CollectorRegistry()
    ProcessCollector(registry=made)
    names = [line.split()[0] for line in plain_text(made).decode().splitlines()]
    theirs = generate_latest(made).decode().splitlines()
    assert names == [line.split()[0] for line in theirs]


def test_the_format_is_the_one_that_was_asked_for() -> None:
    """Prometheus asks for OpenMetrics first, people and older scrapers for text."""
    prometheus = (
        "application/openmetrics-text;version=1.0.0;q=0.6,"
        "text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
    )
    encode, content_type = encoder_for(prometheus)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert encode(registry()).endswith(b"# EOF\n")
    for accept in ("", "*/*", "text/plain;version=0.0.4"):
        encode, content_type = encoder_for(accept)
        assert content_type == "text/plain; version=0.0.4; charset=utf-8"
        assert encode(registry()) == plain_text(registry())


def test_the_daemon_loads_only_what_it_needs() -> None:
    """TLS, HTTP clients and e-mail stay out of the process, and so do 5 MB."""
    program = (
        "import sys, nriplugin.daemon.metrics, nriplugin.daemon.http_pages, "
        "nriplugin.daemon.http_server, nriplugin.cli.run\n"
        "print(*sorted(sys.modules))\n"
        "import prometheus_client\n"
        "prometheus_client.Counter('still_works', 'Help.')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "prometheus_client.registry" in loaded
    heavy = {"ssl", "_hashlib", "http.server", "email", "urllib.request", "asyncio"}
    assert loaded.isdisjoint(heavy)

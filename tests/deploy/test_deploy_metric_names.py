"""Metric names in alerts, dashboard and documents, against a real /metrics."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from charts.dashboard import expressions
from documents.blocks import DOCUMENTS
from support.charts import CHART, rendered
from support.daemons import daemon_on_runtime
from support.needs import need

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).parents[2]
ALERTS = CHART / "files/alerts.yaml"
# The metrics of any process, and those of this one; cAdvisor's are other programs'.
NAMES = re.compile(r"\b(?:nriplugin|process)_[a-z_]+\b")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """The names of all samples and metrics that a running daemon serves."""
    directory = tmp_path_factory.mktemp("daemon")
    with daemon_on_runtime(directory, "--metrics-per-pod", "5") as daemon:
        text = daemon.get("/metrics").text
        yield set(NAMES.findall(text))


def test_alerts_and_dashboard_use_metrics_that_there_are(scraped: set[str]) -> None:
    """An expression with an unknown name is never true, and says nothing."""
    rules = yaml.safe_load(ALERTS.read_text())["groups"]
    alerts = [rule["expr"] for group in rules for rule in group["rules"]]
    for expression in (*alerts, *expressions()):
        named = set(NAMES.findall(expression))
        assert named, expression
        assert named <= scraped, expression


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_metrics_that_there_are(
    document: Path, scraped: set[str]
) -> None:
    """What a document calls a metric is served; `nriplugin_policy_*` is a beginning."""
    for name in NAMES.findall(document.read_text()):
        if name.endswith("_"):
            assert any(one.startswith(name) for one in scraped), name
        else:
            assert name in scraped


def test_the_alerts_are_those_of_the_document() -> None:
    """docs/metrics.md has a line for the expression of each alert."""
    rules = yaml.safe_load(ALERTS.read_text())["groups"]
    text = (TOP / "docs/metrics.md").read_text()
    for rule in (rule for group in rules for rule in group["rules"]):
        for name in NAMES.findall(rule["expr"]):
            assert name in text.partition("## Alerts")[2], rule["alert"]


def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
    """promtool reads the file of rules, and the PrometheusRule that is made of it."""
    promtool = subprocess.run(
        [TOP / "hack/promtool"], capture_output=True, text=True, check=False
    )
    if promtool.returncode != 0:
        need("promtool", promtool.stderr)
    found = rendered({"prometheus": {"prometheusRule": {"enabled": True}}})
    (rule,) = found.of_kind("PrometheusRule").values()
    made = tmp_path / "made.yaml"
    made.write_text(yaml.safe_dump(rule["spec"]))
    for file in (ALERTS, made):
        checked = subprocess.run(
            [promtool.stdout.strip(), "check", "rules", file],
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "6 rules found" in checked.stdout
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())


def test_prometheus_takes_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    """Each is valid PromQL, with Grafana's variables filled in."""
    promtool = subprocess.run(
        [TOP / "hack/promtool"], capture_output=True, text=True, check=False
    )
    if promtool.returncode != 0:
        need("promtool", promtool.stderr)
    texts = [
        one.replace("$__rate_interval", "5m").replace("$node", ".*")
        for one in expressions()
    ]
    rules = [
        {"record": f"panel:{number}:one", "expr": text}
        for number, text in enumerate(texts)
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    checked = subprocess.run(
        [promtool.stdout.strip(), "check", "rules", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr

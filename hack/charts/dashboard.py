"""The Grafana dashboard: each panel is a line of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COLUMNS, WIDTH, HEIGHT = 3, 8, 8
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
OF_NODES = '{node=~"$node"}'


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph: its expression, what a line is called, and its unit."""

    title: str
    expression: str
    legend: str
    unit: str = "short"
    description: str = ""


def _rate(metric: str, *labels: str, more: str = "") -> str:
    selector = f'{{node=~"$node"{more}}}'
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"sum{by} (rate({metric}{selector}[$__rate_interval]))"


PANELS = {
    "Is it there": (
        Panel(
            "Nodes that are ready",
            f"sum(nriplugin_ready{OF_NODES})",
            "ready",
            description="Nodes whose runtime has its requests answered by nriplugin.",
        ),
        Panel("Nodes that are not", f"nriplugin_ready{OF_NODES} == 0", "{{node}}"),
        Panel(
            "Containers missed per hour",
            f"sum(increase(nriplugin_missed_containers_total{OF_NODES}[1h]))",
            "missed",
            description="Containers that were created without a connection.",
        ),
        Panel(
            "Versions",
            f"count by (version) (nriplugin_build_info{OF_NODES})",
            "{{version}}",
        ),
        Panel(
            "Newest configuration refused",
            f"nriplugin_config_last_reload_successful{OF_NODES} == 0",
            "{{node}}",
        ),
        Panel(
            "Curve", f"count by (curve) (nriplugin_curve_info{OF_NODES})", "{{curve}}"
        ),
    ),
    "Requests": (
        Panel(
            "Requests per second",
            _rate("nriplugin_requests_total", "operation"),
            "{{operation}}",
            "reqps",
        ),
        Panel(
            "Failed requests per second",
            _rate("nriplugin_requests_total", "operation", more=', status="failed"'),
            "{{operation}}",
            "reqps",
        ),
        Panel(
            "Time of a request, 99th percentile",
            "histogram_quantile(0.99, "
            + _rate("nriplugin_request_duration_seconds_bucket", "operation", "le")
            + ")",
            "{{operation}}",
            "s",
        ),
        Panel("Late answers per second", _rate("nriplugin_late_answers_total"), "late"),
    ),
    "Containers and files": (
        Panel(
            "Containers by state",
            f"sum by (state) (nriplugin_containers{OF_NODES})",
            "{{state}}",
        ),
        Panel(
            "Settings that were not followed, per second",
            _rate("nriplugin_decision_refused_total", "handler", "reason"),
            "{{handler}}: {{reason}}",
        ),
        Panel(
            "Direct writes per second",
            _rate("nriplugin_cgroup_writes_total", "status"),
            "{{status}}",
        ),
        Panel(
            "Files that held another value, per second",
            _rate("nriplugin_drift_total", "file"),
            "{{file}}",
        ),
        Panel(
            "Repairs per second",
            _rate("nriplugin_repairs_total", "file", "status"),
            "{{file}}: {{status}}",
        ),
        Panel(
            "Files that shadow mode would change",
            f"sum by (file) (nriplugin_shadow_files{OF_NODES})",
            "{{file}}",
        ),
    ),
    "What containers feel": (
        Panel(
            "Throttled seconds per second, by handler",
            _rate("nriplugin_handler_throttled_seconds_total", "handler"),
            "{{handler}}",
        ),
        Panel(
            "OOM kills per second, by handler",
            _rate("nriplugin_handler_oom_kills_total", "handler"),
            "{{handler}}",
        ),
        Panel(
            "Throttled seconds per second, by PodGroup",
            f"topk(10, {_rate('nriplugin_group_throttled_seconds_total', 'group')})",
            "{{group}}",
        ),
    ),
    "The process": (
        Panel(
            "Resident memory",
            f"process_resident_memory_bytes{OF_NODES} "
            "and on (instance) nriplugin_build_info",
            "{{node}}",
            "bytes",
        ),
        Panel(
            "CPU",
            "rate(process_cpu_seconds_total"
            f"{OF_NODES}[$__rate_interval]) and on (instance) nriplugin_build_info",
            "{{node}}",
        ),
        Panel("Threads", f"nriplugin_threads{OF_NODES}", "{{node}}"),
    ),
}


def expressions() -> list[str]:
    """Return the expressions of all panels."""
    return [panel.expression for panels in PANELS.values() for panel in panels]


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    made: list[dict[str, Any]] = []
    top = 0
    for title, panels in PANELS.items():
        made.append(
            {
                "type": "row",
                "title": title,
                "id": len(made) + 1,
                "gridPos": {"x": 0, "y": top, "w": COLUMNS * WIDTH, "h": 1},
                "collapsed": False,
                "panels": [],
            }
        )
        for number, panel in enumerate(panels):
            row, column = divmod(number, COLUMNS)
            place = {"x": column * WIDTH, "y": top + 1 + row * HEIGHT}
            made.append(_graph(panel, len(made) + 1, place))
        top += 1 + -(-len(panels) // COLUMNS) * HEIGHT
    return {
        "uid": "nriplugin",
        "title": "nriplugin",
        "tags": ["nriplugin"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_DATASOURCE, _NODE]},
        "panels": made,
    }


_DATASOURCE = {"name": "datasource", "type": "datasource", "query": "prometheus"}
_NODE = {
    "name": "node",
    "type": "query",
    "datasource": DATASOURCE,
    "query": "label_values(nriplugin_build_info, node)",
    "includeAll": True,
    "multi": True,
    "allValue": ".*",
    "current": {"text": "All", "value": "$__all"},
    "refresh": 2,
}


def _graph(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "id": number,
        "gridPos": {**place, "w": WIDTH, "h": HEIGHT},
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": "A",
                "datasource": DATASOURCE,
                "expr": panel.expression,
                "legendFormat": panel.legend,
            }
        ],
    }

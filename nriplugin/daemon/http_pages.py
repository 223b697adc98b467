"""The pages that the daemon serves over HTTP: from a path to a text.

No socket is in here: http_server.py reads requests and sends what these pages return.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nriplugin import __version__
from nriplugin.daemon.health import live, ready
from nriplugin.daemon.http_request import HTTPAnswer, text_answer
from nriplugin.daemon.plain import plain
from nriplugin.daemon.status import status_of
from nriplugin.state.connection import utc_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nriplugin.daemon.http_request import HTTPRequest
    from nriplugin.daemon.metrics import DaemonMetrics
    from nriplugin.daemon.process import DaemonProcess

JSON = "application/json"

# The fields of the status that hold a time. They are text for people, and seconds since
# 1970 in JSON.
_TIMES = frozenset(
    {"began", "decided_at", "ended", "failed_at", "last_at", "read_at", "since"}
    | {"started_at"}
)

NO_METRICS = "prometheus-client is not installed, expected nriplugin[metrics]"


class HTTPPages:
    """The pages about one daemon. Any thread may call it."""

    def __init__(self, process: DaemonProcess, metrics: DaemonMetrics | None) -> None:
        """Answer about a process; without metrics, that page says why."""
        self._process = process
        self._metrics = metrics
        self._pages: dict[str, tuple[Callable[[HTTPRequest], HTTPAnswer], str]] = {
            "/metrics": (self._scrape, "for Prometheus"),
            "/healthz": (self._health, "whether all threads work"),
            "/livez": (self._health, "the same"),
            "/readyz": (self._readiness, "whether the runtime's requests are served"),
            "/statusz": (self._status, "the state in detail; JSON if asked for"),
        }

    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        """Return the page that a request asks for."""
        if request.path == "/":
            return self._index()
        found = self._pages.get(request.path)
        if found is None:
            return text_answer(404, ["not found: / lists what there is"])
        page, _ = found
        return page(request)

    def _index(self) -> HTTPAnswer:
        lines = [f"{path:<10}{what}" for path, (_, what) in self._pages.items()]
        return text_answer(200, [f"nriplugin {__version__}", *lines])

    def _scrape(self, request: HTTPRequest) -> HTTPAnswer:
        if self._metrics is None:
            return text_answer(501, [NO_METRICS])
        body, content_type = self._metrics.text(request.accept)
        return HTTPAnswer(200, body, content_type)

    def _health(self, request: HTTPRequest) -> HTTPAnswer:
        return _verdict({"threads": live(self._process)}, request.query)

    def _readiness(self, request: HTTPRequest) -> HTTPAnswer:
        checks = {"threads": live(self._process), "runtime": ready(self._process)}
        return _verdict(checks, request.query)

    def _status(self, request: HTTPRequest) -> HTTPAnswer:
        status = plain(status_of(self._process))
        if JSON in request.accept:
            body = json.dumps(status, indent=2) + "\n"
            return HTTPAnswer(200, body.encode(), JSON)
        return text_answer(200, list(_lines(status)))


def _verdict(checks: Mapping[str, list[str]], query: str) -> HTTPAnswer:
    """Return 200, or 503 with one line for each problem.

    With `?verbose` there is a line for each check, as the API server has it.
    """
    problems = [problem for found in checks.values() for problem in found]
    lines = problems or ["ok"]
    if "verbose" in query.split("&"):
        lines = []
        for name, found in checks.items():
            lines += [f"[-] {name}: {one}" for one in found] or [f"[+] {name}: ok"]
    return text_answer(503 if problems else 200, lines)


def _lines(value: Any, name: str = "", indent: str = "") -> Iterator[str]:  # noqa: ANN401
    """Return plain values as lines of text, one for each value that is not empty."""
    if isinstance(value, dict):
        if name:
            yield f"{indent}{name}:"
            indent += "  "
        for key, one in value.items():
            yield from _lines(one, key, indent)
    elif isinstance(value, list):
        if value:
            yield f"{indent}{name}:"
        for one in value:
            text = _on_one_line(one) if isinstance(one, dict) else one
            yield f"{indent}- {text}"
    elif value not in ("", None):
        yield f"{indent}{name}: {_figure(value, name)}"


def _on_one_line(value: dict[str, Any]) -> str:
    return ", ".join(
        f"{key}: {_figure(one, key)}"
        for key, one in value.items()
        if one not in ("", [], None)
    )


def _figure(value: Any, name: str) -> str:  # noqa: ANN401 - a scalar, or a list
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in _TIMES and value:
        return utc_text(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)

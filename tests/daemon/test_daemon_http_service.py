"""The pages of a daemon over HTTP: addresses, health, status, and what fails."""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from nodes.ports import free_ports
from support.daemons import daemon_on_runtime, get
from support.harness import PATIENCE_S, be_late, connected, container, pod, wait_until
from support.processes import Daemon

from nriplugin.daemon import health, http_service
from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.http_service import parse_http_address, serving_http
from nriplugin.daemon.process import DaemonProcess
from nriplugin.daemon.status import status_of
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.errors import ConfigError
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def address(process: DaemonProcess) -> Iterator[str]:
    with serving_http(process, "0") as address:
        yield address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("node-1.example:8080", "node-1.example", 8080),
        ("[::1]:80", "::1", 80),
        (":80", "", 80),
        ("80", "127.0.0.1", 80),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    """A port alone is on the loopback address; all addresses need a colon."""
    assert parse_http_address(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        *["", "on", "localhost", "::1:80", "[::1]", "a:b", "1.2.3.4:65536", "1:-1"],
        *["http://127.0.0.1:80", "unix:///run/x.sock", "a b:1", ":٣", "1 "],
        "9" * 5000,  # more digits than Python makes a number of
    ],
)
def test_what_is_no_address(text: str) -> None:
    """The error names the option, the value and what was expected."""
    with pytest.raises(ConfigError, match=r"^--http: .*, expected HOST:PORT, "):
        parse_http_address(text)


def test_the_loopback_address_alone_is_served_by_default() -> None:
    """Nobody else on the network may read what the daemon says."""
    assert parse_http_address(http_service.DEFAULT_HTTP)[0] == "127.0.0.1"


def test_off_serves_nothing(process: DaemonProcess) -> None:
    """And starts no thread."""
    before = threading.active_count()
    with serving_http(process, "off") as address:
        assert (address, threading.active_count()) == ("", before)


def test_all_addresses(process: DaemonProcess) -> None:
    """One socket serves IPv4 and, where there is one, IPv6."""
    with serving_http(process, ":0") as address:
        port = address.rpartition(":")[2]
        assert get(f"127.0.0.1:{port}", "/livez").text == "ok\n"
        if socket.has_dualstack_ipv6():
            assert get(f"[::1]:{port}", "/livez").text == "ok\n"


def test_an_address_in_use_is_an_error_if_it_was_given(process: DaemonProcess) -> None:
    """The user asked for it, so the daemon does not start without it."""
    with socket.create_server(("127.0.0.1", 0)) as taken, ExitStack() as stack:
        given = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=rf"^--http: {given}: .*in use, expected"):
            stack.enter_context(serving_http(process, given))


def test_the_default_address_in_use_is_a_warning(
    process: DaemonProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The daemon is worth more than its metrics."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        default = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(http_service, "DEFAULT_HTTP", default)
        with (
            caplog.at_level(logging.WARNING),
            serving_http(process, None) as address,
        ):
            assert address == ""
            assert process.addresses["HTTP"].startswith(f"not served: {default}: ")
    (line,) = caplog.messages
    assert line.startswith(f"metrics and health are not served: {default}: ")


def test_the_default_address_is_served_when_it_is_free(
    process: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process had it at the start; `status` says where pages are then."""
    monkeypatch.setattr(http_service, "RETRY_S", 0.05)
    taken = socket.create_server(("127.0.0.1", free_ports(1)[0]))
    with taken:
        default = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(http_service, "DEFAULT_HTTP", default)
        with serving_http(process, None):
            taken.close()
            wait_until(lambda: status_of(process).http_address == default)
            assert get(default, "/healthz")[0] == 200


def test_status_says_that_it_is_off(process: DaemonProcess) -> None:
    with serving_http(process, "off"):
        assert status_of(process).http_address == "off"


def test_health_and_readiness(process: DaemonProcess, address: str) -> None:
    """200 or 503, with one line for each problem, and one for each check if asked."""
    assert get(address, "/healthz")[:2] == (200, "ok\n")
    not_ready = "not connected to the runtime: not connected yet"
    assert get(address, "/readyz")[:2] == (503, f"{not_ready}\n")
    assert get(address, "/readyz?verbose")[:2] == (
        503,
        f"[+] threads: ok\n[-] runtime: {not_ready}\n",
    )
    process.lifecycle.connection.synchronized(0)
    assert get(address, "/readyz")[:2] == (200, "ok\n")
    process.late_s = lambda: 100.0
    stuck = "requests are not decided about since 100 s\n"
    for path in ("/healthz", "/livez", "/readyz"):
        assert get(address, path)[:2] == (503, stuck)


def test_a_handler_that_hangs_fails_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The HTTP threads answer while the request thread does not."""
    monkeypatch.setattr(health, "REQUEST_STUCK_S", 0.1)
    let_go = threading.Event()

    class Hanging(NodePlugin):
        def create_container(self, request: Any) -> None:
            be_late(runner._session)
            let_go.wait(PATIENCE_S)

    background = BackgroundThread()
    lifecycle = Lifecycle(background)
    process = DaemonProcess("nri", lifecycle, background)
    with (
        connected(Hanging(lifecycle), tmp_path) as (runtime, runner),
        serving_http(process, "0") as address,
    ):
        process.late_s = lambda: runner.late_s
        assert get(address, "/healthz").code == 200
        runtime.create_container(pod(), container())
        wait_until(lambda: get(address, "/healthz").code == 503)
        let_go.set()
        wait_until(lambda: get(address, "/healthz").code == 200)


def test_status_as_text_and_as_json(address: str) -> None:
    """The same facts for people and for programs."""
    text = get(address, "/statusz")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert "door: nri\n" in text.text
    started = re.search(r"(?m)^started_at: (\S+)$", text.text)
    assert started is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", started[1])
    status = get(address, "/statusz", Accept="application/json")
    assert status.headers["content-type"] == "application/json"
    found = json.loads(status.text)
    assert (found["door"], found["ready"]) == ("nri", False)


def test_the_index_lists_every_page(address: str) -> None:
    """Each of them exists."""
    index = get(address, "/")
    assert index.code == 200
    paths = [line.split()[0] for line in index.text.splitlines()[1:]]
    assert len(paths) == 5
    for path in paths:
        assert get(address, path).code in (200, 503)


def test_what_there_is_not(address: str) -> None:
    """Other paths and other methods."""
    assert get(address, "/nothing").code == 404
    refused = get(address, "/metrics", method="POST")
    assert (refused.code, refused.headers["allow"]) == (405, "GET, HEAD")
    head = get(address, "/metrics", method="HEAD")
    assert (head.code, head.text) == (200, "")


def test_without_prometheus_client(
    process: DaemonProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Probes work, and /metrics says what is missing."""
    for name in list(sys.modules):
        if name.startswith(("prometheus_client", "nriplugin.daemon.metric")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "nriplugin.daemon.container_metrics", False)
    with caplog.at_level(logging.INFO), serving_http(process, "0") as address:
        assert "nriplugin[metrics] is not installed" in caplog.text
        assert get(address, "/healthz").code == 200
        assert get(address, "/metrics")[:2] == (
            501,
            "prometheus-client is not installed, expected nriplugin[metrics]\n",
        )


def test_a_daemon_serves_all_of_it(tmp_path: Path) -> None:
    """A real process, registered with a runtime, until it is told to stop."""
    with daemon_on_runtime(tmp_path) as daemon:
        wait_until(lambda: daemon.get("/readyz").code == 200)
        assert daemon.get("/metrics").headers["content-type"].startswith("text/plain")
        packed = daemon.get("/metrics", Accept_Encoding="gzip")
        assert packed.headers["content-encoding"] == "gzip"
        daemon.runtime.stop()
        wait_until(lambda: daemon.get("/readyz").code == 503)
        assert daemon.get("/healthz").code == 200
        assert daemon.end() == 0


@pytest.mark.parametrize("given", ["nonsense", "192.0.2.1:1"])
def test_a_wrong_address_ends_the_daemon(tmp_path: Path, given: str) -> None:
    """It is the user's mistake: exit code 2 and one line."""
    daemon = Daemon(tmp_path / "log", "run", "--control", "off", "--http", given)
    code = daemon.process.wait(PATIENCE_S)
    assert code == 2
    (line,) = daemon.log.splitlines()
    assert line.startswith("nriplugin: --http: ")
    assert given in line

"""Serves metrics, health and status over HTTP.

An address that the user gave has to work; if the default one does not, the daemon goes
on without the service and tries again every few seconds. prometheus-client is imported
only if the service is on; without it, health and status are served all the same,
because probes need them.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.http_server import HTTPServer
    from nriplugin.daemon.metrics import DaemonMetrics
    from nriplugin.daemon.process import DaemonProcess

_log = logging.getLogger(__name__)

# A port outside of 9100 to 9999, which exporters have used up.
DEFAULT_HTTP = "127.0.0.1:10799"
OFF = "off"
SERVICE = "HTTP"  # in `DaemonProcess.addresses`
# How often the default address is tried while another process has it.
RETRY_S = 5.0

_EXPECTED = "expected HOST:PORT, [IPv6]:PORT, :PORT for all addresses, PORT, or off"
_LOOPBACK = "127.0.0.1"
_LONGEST_PORT = 5


@contextmanager
def serving_http(
    process: DaemonProcess, address: str | None, pods: int = 0
) -> Iterator[str]:
    """Serve within the `with` block, unless the address is `off`.

    Args:
        process: the daemon.
        address: where to serve; None for the default.
        pods: for how many single pods there are metrics.

    Yields:
        The address that is served, with the port that was chosen; empty if none is.

    Raises:
        ConfigError: the address is not one, or cannot be served.
    """
    if address == OFF:
        process.addresses[SERVICE] = OFF
        yield ""
        return
    host, port = parse_http_address(DEFAULT_HTTP if address is None else address)
    try:
        listener = listening(host, port)
    except OSError as exc:
        # Not `strerror`, to which Python adds the address. A failed look-up of a name
        # has a number below zero and a text of its own.
        number = exc.errno or 0
        problem = os.strerror(number) if number > 0 else exc.strerror
        if address is not None:
            expected = "an address that can be served"
            raise ConfigError(
                f"--http: {address}: {problem}, expected {expected}"
            ) from exc
        _log.warning(
            "metrics and health are not served: %s: %s: tried again until it is free",
            *(DEFAULT_HTTP, problem),
        )
        process.addresses[SERVICE] = f"not served: {DEFAULT_HTTP}: {problem}"
        with _trying_again(process, pods):
            yield ""
        return
    server = _started(process, listener, pods)
    try:
        yield process.addresses[SERVICE]
    finally:
        server.stop()


def _started(process: DaemonProcess, listener: socket.socket, pods: int) -> HTTPServer:
    # Imported only here: without the service none of them is needed.
    from nriplugin.daemon.http_pages import HTTPPages
    from nriplugin.daemon.http_server import HTTPServer

    served = _shown(listener)
    pages = HTTPPages(process, _metrics_of(process, pods))
    server = HTTPServer(listener, pages.answer)
    server.start()
    process.addresses[SERVICE] = served
    _log.info("serving http://%s", served)
    return server


@contextmanager
def _trying_again(process: DaemonProcess, pods: int) -> Iterator[None]:
    """Within the `with` block, serve the default address as soon as it is free."""
    ending = threading.Event()
    servers: list[HTTPServer] = []

    def run() -> None:
        while not servers and not ending.wait(RETRY_S):
            try:
                listener = listening(*parse_http_address(DEFAULT_HTTP))
            except OSError:
                continue
            try:
                servers.append(_started(process, listener, pods))
            except Exception:  # noqa: BLE001 - a defect must not end the daemon
                listener.close()
                _log.exception("metrics and health are not served")
                return

    thread = threading.Thread(target=run, name="http-retry", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        for server in servers:
            server.stop()


def parse_http_address(address: str) -> tuple[str, int]:
    """Return host and port; an empty host stands for all addresses of the machine.

    Raises:
        ConfigError: it is no such address.
    """
    host, colon, port = address.rpartition(":")
    if not colon:
        host = _LOOPBACK
    bracketed = host.startswith("[") and host.endswith("]")
    is_host = bracketed or not set(host) & set("[]:/ ")
    is_number = port.isascii() and port.isdecimal() and len(port) <= _LONGEST_PORT
    if not is_host or not is_number or int(port) > 65535:
        raise ConfigError(f"--http: {address!r:.80}, {_EXPECTED}")
    return host[1:-1] if bracketed else host, int(port)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises OSError.

    For all addresses one socket takes IPv6 and IPv4, where the machine has both.
    """
    if not host:
        if socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True
            )
        return socket.create_server(("", port))
    try:
        # Numbers first: names need the resolver, which loads libraries.
        flags = socket.AI_NUMERICHOST
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except socket.gaierror:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, where = found[0]
    return socket.create_server(where[:2], family=family)


def _metrics_of(process: DaemonProcess, pods: int) -> DaemonMetrics | None:
    try:
        from nriplugin.daemon.metrics import DaemonMetrics
    except ImportError as exc:
        if not (exc.name or "").startswith("prometheus_client"):
            raise
        _log.info("metrics are not served: nriplugin[metrics] is not installed")
        return None
    return DaemonMetrics(process, pods)


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

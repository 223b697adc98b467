"""The HTTP server with slow, silent, many and broken clients."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from support.daemons import get
from support.harness import PATIENCE_S, wait_until

from nriplugin.daemon import http_server
from nriplugin.daemon.http_request import HTTPAnswer, HTTPRequest, text_answer
from nriplugin.daemon.http_server import MAX_CLIENTS, HTTPServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def page(request: HTTPRequest) -> HTTPAnswer:
    return text_answer(200, [request.path])


@contextmanager
def serving(page: Callable[[HTTPRequest], HTTPAnswer] = page) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = HTTPServer(listener, page)
    server.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.stop()


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def threads() -> int:
    return sum(one.name == "http-client" for one in threading.enumerate())


def test_one_request_after_the_other() -> None:
    """Every request is answered, and no thread stays behind."""
    with serving() as address:
        for number in range(50):
            assert get(address, f"/{number}").text == f"/{number}\n"
        wait_until(lambda: not threads())


def test_clients_that_send_nothing_keep_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest silent client is dropped when another one comes."""
    monkeypatch.setattr(http_server, "READ_S", 10 * PATIENCE_S)
    monkeypatch.setattr(http_server, "LEAVE_S", PATIENCE_S)
    with serving() as address, ExitStack() as stack:
        silent = [stack.enter_context(connect(address)) for _ in range(5 * MAX_CLIENTS)]
        assert get(address, "/x").code == 200
        # A thread gives its place back a moment before it ends.
        wait_until(lambda: threads() <= MAX_CLIENTS)
        assert silent[0].recv(1) == b""


def test_a_client_that_sends_byte_by_byte_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time for a request is for all of it, not for each byte."""
    monkeypatch.setattr(http_server, "READ_S", 0.3)
    with serving() as address, connect(address) as client:
        client.settimeout(0.02)
        for byte in b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1_000:
            try:
                client.sendall(bytes([byte]))
                if client.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("the client was served for ever")
        wait_until(lambda: not threads())


def test_a_client_that_does_not_read_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer that is not taken keeps its thread for a limited time only."""
    monkeypatch.setattr(http_server, "WRITE_S", 0.2)
    large = HTTPAnswer(200, b"x" * 50_000_000)
    with serving(lambda request: large) as address, connect(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        wait_until(threads)
        wait_until(lambda: not threads())


def test_many_clients_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that find no place are told to come again; nobody waits for ever."""
    monkeypatch.setattr(http_server, "LEAVE_S", 0.05)
    let_go = threading.Event()

    def slow(request: HTTPRequest) -> HTTPAnswer:
        let_go.wait(PATIENCE_S)
        return text_answer(200, ["ok"])

    codes: list[int] = []

    def ask(address: str) -> None:
        try:
            codes.append(get(address, "/").code)
        except ConnectionError:  # the request came too late
            codes.append(503)

    with serving(slow) as address:
        clients = [
            threading.Thread(target=ask, args=(address,))
            for _ in range(2 * MAX_CLIENTS)
        ]
        for client in clients:
            client.start()
        wait_until(lambda: len(codes) == MAX_CLIENTS)
        assert codes == [503] * MAX_CLIENTS
        let_go.set()
        for client in clients:
            client.join(PATIENCE_S)
    assert sorted(codes) == [200] * MAX_CLIENTS + [503] * MAX_CLIENTS


def test_a_page_that_fails() -> None:
    """Its client gets 500, and the next one its page."""

    def failing(request: HTTPRequest) -> HTTPAnswer:
        if request.path == "/fail":
            raise LookupError("a defect")
        return page(request)

    with serving(failing) as address:
        assert get(address, "/fail").code == 500
        assert get(address, "/x").text == "/x\n"


def test_stopping_drops_who_is_there() -> None:
    """A client under way does not hold up the end of the daemon."""
    with ExitStack() as stack:
        with serving() as address:
            client = stack.enter_context(connect(address))
            wait_until(threads)
        with suppress(ConnectionError):
            assert client.recv(1) == b""
        wait_until(lambda: not threads())

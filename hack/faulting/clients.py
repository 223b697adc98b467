"""Clients of a running daemon: the state, a scraper of its metrics, watchers.

As a program (`clients.py ADDRESS HTTP`) it watches events and scrapes metrics once per
second until it is killed. It prints a line when it has seen the first event.
"""

from __future__ import annotations

import sys
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, Any, Self

import grpc

from nriplugin.api import control_pb2 as control

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE = "/nriplugin.control.v1.Control"
EVERY_S = 1.0
TIMEOUT_S = 30


def scrape(http: str, page: str = "metrics") -> str:
    """Return a page that the daemon serves."""
    with urllib.request.urlopen(f"http://{http}/{page}", timeout=TIMEOUT_S) as answer:
        text: str = answer.read().decode()
        return text


def status(address: str) -> control.StatusResponse:
    """Return the state of the daemon."""
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.unary_unary(
            f"{SERVICE}/Status",
            request_serializer=control.StatusRequest.SerializeToString,
            response_deserializer=control.StatusResponse.FromString,
        )
        answer: control.StatusResponse = call(
            control.StatusRequest(), timeout=TIMEOUT_S
        )
        return answer


def watch(address: str, seen: Callable[[control.Event], object]) -> None:
    """Hand on every event until the connection ends."""
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.unary_stream(
            f"{SERVICE}/Watch",
            request_serializer=control.WatchRequest.SerializeToString,
            response_deserializer=control.Event.FromString,
        )
        for event in call(control.WatchRequest()):
            seen(event)


class Repeating:
    """A thread that does something again and again; a failure is counted."""

    def __init__(self, what: Callable[[], object], every_s: float = EVERY_S) -> None:
        self._what, self._every_s = what, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.done = self.failed = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        # A watcher that waits for an event ends with the process.
        self._thread.join(1)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._what()
                self.done += 1
            except (OSError, grpc.RpcError):
                self.failed += 1
            self._stop.wait(self._every_s)


class Clients:
    """A scraper and some watchers, which go on over restarts of the daemon."""

    def __init__(self, address: str, http: str, watchers: int) -> None:
        self.events = 0
        self.scraper = Repeating(lambda: scrape(http))
        self.watchers = [
            Repeating(lambda: watch(address, self._seen), 0.2) for _ in range(watchers)
        ]

    def __enter__(self) -> Self:
        for one in (self.scraper, *self.watchers):
            one.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        for one in (self.scraper, *self.watchers):
            one.__exit__()

    def _seen(self, event: control.Event) -> None:
        self.events += 1


if __name__ == "__main__":
    with Clients(sys.argv[1], sys.argv[2], 1) as clients:
        while not clients.events:
            time.sleep(0.1)
        print("watching", flush=True)
        while True:
            time.sleep(3600)

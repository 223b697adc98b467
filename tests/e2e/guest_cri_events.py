"""Runs in a node: the events of containers that two servers of CRI send.

guest_cri_events.py FILE ADDRESS...
Writes into the file, whenever there are more: per address the digests of the events in
their order, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from typing import Any

import grpc

METHOD = "/runtime.v1.RuntimeService/GetContainerEvents"


class Events:
    """The events of all servers, in memory and in the file."""

    def __init__(self, file: str, servers: int) -> None:
        self._file = file
        self._found: list[list[str]] = [[] for _ in range(servers)]
        self._lock = threading.Lock()

    def add(self, server: int, event: bytes) -> None:
        with self._lock:
            self._found[server].append(hashlib.sha256(event).hexdigest())
            with open(f"{self._file}.new", "w") as file:
                json.dump(self._found, file)
            os.replace(f"{self._file}.new", self._file)


def listen(address: str, server: int, events: Events) -> None:
    """Pass on the events of a server; an error ends the program with its message."""
    channel = grpc.insecure_channel(
        address.replace("unix://", "unix:"),
        options=[("grpc.default_authority", "localhost")],
    )
    stream: Any = channel.unary_stream(METHOD)
    for event in stream(b""):
        events.add(server, event)


def main() -> None:
    file, *addresses = sys.argv[1:]
    events = Events(file, len(addresses))
    for server, address in enumerate(addresses):
        threading.Thread(target=listen, args=(address, server, events)).start()


if __name__ == "__main__":
    main()

"""Runs in a node: the events of containers that two servers of CRI send.

guest_cri_events.py FILE ADDRESS...
Says `listening` once all streams are open, listens until there is such a file, and then
prints one line of JSON: per address the digests of the events in their order.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from typing import Any

import grpc

METHOD = "/runtime.v1.RuntimeService/GetContainerEvents"
LONGEST_S = 200


def listen(call: Any, events: list[str]) -> None:
    try:
        for event in call:  # one by one: those before an error count
            events.append(hashlib.sha256(event).hexdigest())  # noqa: PERF401
    except grpc.RpcError:
        return  # as it is cancelled


def main() -> None:
    file, *addresses = sys.argv[1:]
    calls: list[Any] = []
    threads = []
    found: list[list[str]] = []
    for address in addresses:
        channel = grpc.insecure_channel(
            address.replace("unix://", "unix:"),
            options=[("grpc.default_authority", "localhost")],
        )
        stream: Any = channel.unary_stream(METHOD)
        calls.append(stream(b"", timeout=LONGEST_S))
        found.append([])
        threads.append(threading.Thread(target=listen, args=(calls[-1], found[-1])))
        threads[-1].start()
    print("listening", flush=True)
    deadline = time.monotonic() + LONGEST_S
    while not os.path.exists(file) and time.monotonic() < deadline:
        time.sleep(0.2)
    for call in calls:
        call.cancel()
    for thread in threads:
        thread.join()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()

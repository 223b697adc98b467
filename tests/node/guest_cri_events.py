"""Runs in a node: what two servers of CRI say of containers' events at the same time.

guest_cri_events.py SECONDS ADDRESS...
Says `listening` once all streams are open, and at the end prints one line of JSON: per
address the digests of the events in their order, and how the stream ended.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from typing import Any

import grpc

METHOD = "/runtime.v1.RuntimeService/GetContainerEvents"


def listen(address: str, seconds: float, found: dict[str, Any]) -> None:
    channel = grpc.insecure_channel(
        address.replace("unix://", "unix:"),
        options=[("grpc.default_authority", "localhost")],
    )
    stream: Any = channel.unary_stream(METHOD)
    call = stream(b"", timeout=seconds)
    events: list[str] = []
    try:
        for event in call:
            events.append(hashlib.sha256(event).hexdigest())  # noqa: PERF401 - as they come
    except grpc.RpcError as exc:
        ended: Any = exc
        found[address] = [events, ended.code().name]


def main() -> None:
    seconds, *addresses = sys.argv[1:]
    found: dict[str, Any] = {}
    threads = [
        threading.Thread(target=listen, args=(address, float(seconds), found))
        for address in addresses
    ]
    for thread in threads:
        thread.start()
    print("listening", flush=True)
    for thread in threads:
        thread.join()
    print(json.dumps([found[address] for address in addresses]), flush=True)


if __name__ == "__main__":
    main()

"""Runs in a node: calls one server of CRI, the runtime or the proxy before it.

guest_cri.py ADDRESS POD CONTAINER
Prints one line of JSON: what it said to each call. What is the same every time is shown
whole, what has a token or a time in it by its shape.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import Callable

RUNTIME = "/runtime.v1.RuntimeService"
IMAGES = "/runtime.v1.ImageService"
TIMEOUT_S = 60
PATIENCE_S = 180
# Numbers of fields: in ContainerStats, in the part of it about the disk, and in
# UInt64Value.
WRITABLE_LAYER = 4
TIMESTAMP = 1
VALUE = 1


def field(number: int, value: str | bytes) -> bytes:
    """Return a string, or a message, as it is on the wire."""
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(data)]) + data


def number(of: int, value: int) -> bytes:
    """Return a small number as it is on the wire."""
    return bytes([of << 3, value])


def whole(response: bytes) -> str:
    return hashlib.sha256(response).hexdigest()


def url(response: bytes) -> str:
    """Return an address without its port and its token."""
    found = re.fullmatch(rb"..(http://[^:]+):\d+(/\w+/).+", response, re.DOTALL)
    return "no address" if found is None else f"{found[1]!r} {found[2]!r}"


def shape(response: bytes) -> Any:
    """Return the fields of a message and the texts in it, without the numbers.

    A number that may be missing is a message of its own in CRI, which is empty if the
    number is 0. So these are all shown alike: what was 0 may be 1 in the next call.
    """
    fields: list[Any] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = response[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(response):
        key = varint()
        if key & 7 == 0:
            varint()
            fields.append(key >> 3)
            continue
        if key & 7 != 2:
            raise ValueError("not what CRI uses")
        length = varint()
        content, at = response[at : at + length], at + length
        try:
            inner = shape(content)
        except (ValueError, IndexError):
            inner = content.decode()
        fields.append([key >> 3, [] if inner == [VALUE] else inner])
    return fields


def calls(pod: str, container: str) -> dict[str, tuple[str, bytes, Any]]:
    """Return method, request and how to show the answer, by name."""
    nowhere = field(1, field(1, "127.0.0.1:1/none:1"))
    # Lists are of this pod alone: what other tests have left may end between two calls.
    only_pod, only_of_pod = field(1, field(1, pod)), field(1, field(2, pod))
    return {
        "version": (f"{RUNTIME}/Version", b"", whole),
        "version of old": ("/runtime.v1alpha2.RuntimeService/Version", b"", whole),
        "status": (f"{RUNTIME}/Status", b"", whole),
        "images": (f"{IMAGES}/ListImages", b"", whole),
        "pods": (f"{RUNTIME}/ListPodSandbox", only_pod, whole),
        "container": (f"{RUNTIME}/ContainerStatus", field(1, container), whole),
        "no container": (f"{RUNTIME}/ContainerStatus", field(1, "none"), whole),
        "update of none": (
            f"{RUNTIME}/UpdateContainerResources",
            field(1, "none") + field(2, number(3, 100)),
            whole,
        ),
        "create in none": (f"{RUNTIME}/CreateContainer", field(1, "none"), whole),
        "start of none": (f"{RUNTIME}/StartContainer", field(1, "none"), whole),
        "stats": (f"{RUNTIME}/ContainerStats", field(1, container), shape),
        "stats of the pod": (f"{RUNTIME}/ListContainerStats", only_of_pod, shape),
        "exec": (
            f"{RUNTIME}/Exec",
            field(1, container) + field(2, "true") + number(5, 1),
            url,
        ),
        "exec in none": (f"{RUNTIME}/Exec", field(1, "none"), whole),
        "attach": (f"{RUNTIME}/Attach", field(1, container) + number(4, 1), url),
        "port forward": (
            f"{RUNTIME}/PortForward",
            field(1, pod) + number(2, 80),
            url,
        ),
        "pull": (f"{IMAGES}/PullImage", nowhere, whole),
        "pull of nothing": (f"{IMAGES}/PullImage", b"", whole),
        "new method": (f"{RUNTIME}/MethodOfTheYear2040", b"", whole),
        "other service": ("/some.Service/Method", b"", whole),
        "garbage": (f"{RUNTIME}/ContainerStatus", b"\xff\xff\xff", whole),
    }


def failure(exc: Any) -> list[Any]:
    details = re.sub(r":\d+->", ":PORT->", exc.details())
    keys = sorted(key for key, _ in exc.trailing_metadata() or ())
    return [exc.code().name, details, keys]


def answer_of(call: Callable[..., bytes], request: bytes, show: Any) -> Any:
    """Return the answer to a call; statistics are asked for until they are complete.

    containerd measures the disk use of all containers every few seconds. Before the
    first measurement, and whenever one has failed, the statistics of a container lack
    the time of the measurement. So one server might have it and the other one not.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        response = call(request, timeout=TIMEOUT_S)
        if show is not shape or has_disk_use(response):
            return show(response)
        if time.monotonic() > deadline:
            raise TimeoutError("the runtime does not measure the container's disk use")
        time.sleep(1)


def has_disk_use(response: bytes) -> bool:
    """Return whether the statistics of containers have measurements of their disks."""
    containers = shape(response)
    return bool(containers) and all(
        any(part[0] == WRITABLE_LAYER and TIMESTAMP in part[1] for part in parts)
        for _, parts in containers
    )


def main() -> None:
    address, pod, container = sys.argv[1:]
    channel = grpc.insecure_channel(
        address.replace("unix://", "unix:"),
        options=[("grpc.default_authority", "localhost")],
    )
    said: dict[str, Any] = {}
    for name, (method, request, show) in calls(pod, container).items():
        call: Any = channel.unary_unary(method)
        try:
            said[name] = ["OK", answer_of(call, request, show)]
        except grpc.RpcError as exc:
            said[name] = failure(exc)
    stream: Any = channel.unary_stream(f"{RUNTIME}/GetContainerEvents")
    try:
        said["events"] = ["OK", bool(next(stream(b"", timeout=TIMEOUT_S)))]
    except grpc.RpcError as exc:
        said["events"] = failure(exc)
    print(json.dumps(said))


if __name__ == "__main__":
    main()

"""A daemon's control API in this process, and a real gRPC client of it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
from support.harness import PATIENCE_S

from nriplugin.api import control_pb2 as control
from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.control_service import serving_control
from nriplugin.daemon.process import DaemonProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from google.protobuf.message import Message

    from nriplugin.state.lifecycle import Lifecycle

SERVICE = "nriplugin.control.v1.Control"


def serialized(message: Message) -> bytes:
    return message.SerializeToString()


class ControlClient:
    """Calls methods of the control API, and any other on the same socket."""

    def __init__(self, path: str) -> None:
        self.path = path
        # A channel of its own: clients in one process would share a connection.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.insecure_channel(f"unix:{path}", options=options)

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def call(self, method: str, request: Message, response: Any) -> Any:
        """Call any method with one answer."""
        call: Any = self.channel.unary_unary(
            method,
            request_serializer=serialized,
            response_deserializer=response.FromString,
        )
        return call(request, timeout=PATIENCE_S, wait_for_ready=True)

    def status(self, by: str = "") -> control.StatusResponse:
        request = control.StatusRequest(by=by)
        answer: control.StatusResponse = self.call(
            f"/{SERVICE}/Status", request, control.StatusResponse
        )
        return answer

    def why(self, what: str) -> control.WhyResponse:
        request = control.WhyRequest(what=what)
        answer: control.WhyResponse = self.call(
            f"/{SERVICE}/Why", request, control.WhyResponse
        )
        return answer

    def explain(self, manifest: str) -> str:
        request = control.ExplainRequest(manifest=manifest)
        answer = self.call(f"/{SERVICE}/Explain", request, control.ExplainResponse)
        text: str = answer.json
        return text

    def reload(self) -> control.ReloadResponse:
        answer: control.ReloadResponse = self.call(
            f"/{SERVICE}/Reload", control.ReloadRequest(), control.ReloadResponse
        )
        return answer

    def restore(self, *, dry_run: bool = False) -> control.RestoreResponse:
        request = control.RestoreRequest(dry_run=dry_run)
        answer: control.RestoreResponse = self.call(
            f"/{SERVICE}/Restore", request, control.RestoreResponse
        )
        return answer

    def watch(self, **request: Any) -> Any:
        """Return a stream of events that has begun."""
        watch: Any = self.channel.unary_stream(
            f"/{SERVICE}/Watch",
            request_serializer=serialized,
            response_deserializer=control.Event.FromString,
        )
        stream = watch(control.WatchRequest(**request), timeout=PATIENCE_S)
        stream.initial_metadata()  # waits until the server has begun
        return stream


def daemon_of(lifecycle: Lifecycle, door: str = "nri", **parts: Any) -> DaemonProcess:
    """Return the daemon of a life-cycle."""
    return DaemonProcess(door, lifecycle, BackgroundThread(), **parts)


@contextmanager
def controlled(
    process: DaemonProcess, directory: Path, group: str | None = None
) -> Iterator[ControlClient]:
    """Serve a daemon's control API, and connect to it."""
    path = str(directory / "control.sock")
    with serving_control(process, f"unix://{path}", group), ControlClient(path) as one:
        yield one

"""A daemon that serves only the control API, with answers that a test has chosen."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import grpc

from nriplugin.api import control_pb2 as control
from nriplugin.cli.control_client import SERVICE
from nriplugin.sockets import target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOW = 1_800_000_000.0

_METHODS: dict[str, Any] = {
    "Status": control.StatusRequest,
    "Why": control.WhyRequest,
    "Reload": control.ReloadRequest,
}


class ControlDaemon:
    """Serves on a socket within a `with` block.

    `answers` has one message for each method, or (code, text) for an error. An event
    that is put into `events` goes to the clients of Watch, one client each; None ends
    the stream.
    """

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "control.sock")
        self.address = f"unix://{self.path}"
        self.answers: dict[str, Any] = {}
        self.requests: list[Any] = []
        self.events: queue.SimpleQueue[control.Event | None] = queue.SimpleQueue()
        self.watched = threading.Event()
        self._pool = ThreadPoolExecutor(4)

    def __enter__(self) -> Self:
        self._server = grpc.server(self._pool)
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(
                self._answering(name),
                request_deserializer=request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for name, request in _METHODS.items()
        }
        handlers["Watch"] = grpc.unary_stream_rpc_method_handler(
            self._watch,
            request_deserializer=control.WatchRequest.FromString,
            response_serializer=control.Event.SerializeToString,
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        self._server.add_insecure_port(target_of(self.path))
        self._server.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.events.put(None)
        self._server.stop(0).wait()
        self._pool.shutdown()

    def _answering(self, name: str) -> Callable[[Any, grpc.ServicerContext], Any]:
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            self.requests.append(request)
            found = self.answers[name]
            if isinstance(found, list):  # one after the other; the last one stays
                found = found.pop(0) if len(found) > 1 else found[0]
            if isinstance(found, tuple):
                context.abort(*found)
            return found

        return answer

    def _watch(
        self, request: control.WatchRequest, context: grpc.ServicerContext
    ) -> Iterator[control.Event]:
        self.requests.append(request)
        self.watched.set()
        while (event := self.events.get()) is not None:
            yield event


def good_status(**more: Any) -> control.StatusResponse:
    """Return the state of a daemon on a node with some work."""
    counts = control.FileCount
    status = control.StatusResponse(
        version="0.1.0",
        control_address="unix:///run/nriplugin/nriplugin.sock",
        http_address="not served: 127.0.0.1:10799: Address already in use",
        door="nri",
        pid=4711,
        started_at=NOW - 4000,
        healthy=True,
        ready=True,
        runtime=control.RuntimeStatus(
            name="containerd",
            version="v2.4.2",
            nri_release="0.12.3",
            connected=True,
            since=NOW - 200,
            gaps=[
                control.ConnectionGapStatus(
                    began=NOW - 212,
                    ended=NOW - 200,
                    reason="the runtime closed the connection",
                    missed=1,
                )
            ],
            gap_count=2,
        ),
        configuration=control.ConfigurationStatus(
            path="/etc/nriplugin/config.yaml", hash="0123456789ab", since=NOW - 3000
        ),
        node=control.NodeStatus(
            cgroup_version=2,
            cgroup_evidence="/sys/fs/cgroup is a cgroup2 file system",
            driver="systemd",
            direct_writes=True,
            direct_writes_because="the configuration needs them",
            curve="quadratic",
            curve_evidence="three containers that the runtime wrote itself follow it",
            kernel="6.12.43+deb13-amd64",
        ),
        handlers=[
            control.HandlerStatus(name="resources", enabled=True, containers=14),
            control.HandlerStatus(
                name="memoryQoS",
                rules=["batch"],
                containers=3,
                refusals=[control.ReasonCount(reason="no-limit", count=7)],
            ),
        ],
        containers=control.ContainerCounts(managed=14, skipped=2, missed=1, drifted=1),
        operations=[
            control.OperationStatus(
                name="CreateContainer",
                ok=15,
                failed=1,
                mean_seconds=0.00031,
                p50_seconds=0.00025,
                p99_seconds=0.0025,
            )
        ],
        writes=[
            control.WriteCount(file="cpu.max.burst", status="written", count=3),
            control.WriteCount(file="cpu.max.burst", status="failed", count=1),
        ],
        verification=control.VerificationStatus(
            interval_seconds=60,
            last_at=NOW - 12,
            checked=120,
            drift=[counts(file="cpu.weight", count=2)],
            repairs=[counts(file="cpu.weight", count=1)],
        ),
        process=control.ProcessStatus(
            resident_bytes=24_300_000, threads=5, open_files=21, uptime_seconds=4000
        ),
    )
    status.MergeFrom(control.StatusResponse(**more))
    return status


def not_ready() -> control.StatusResponse:
    """Return the state of the same daemon without a connection to its runtime."""
    state = good_status(problems=["the runtime has closed the connection"])
    state.ready = False
    state.runtime.connected = False
    state.runtime.reason = "the runtime has closed the connection"
    return state

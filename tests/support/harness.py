"""A plugin and its runtime in one process, over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import Message

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri import Plugin, Runner
from nriplugin.nri.connection import Connection
from nriplugin.nri.launch import Launch
from nriplugin.nri.methods import (
    METHODS,
    PLUGIN_CONNECTION,
    PLUGIN_SERVICE,
    RUNTIME_CONNECTION,
    Kind,
)
from nriplugin.nri.session import Session
from nriplugin.nri.stats import Stats
from nriplugin.nri.testing.runtime import Behaviour, EmbeddedRuntime
from nriplugin.wire.ttrpc import Answer, Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Response = TypeVar("Response", bound=Message)

# Far longer than anything takes, also on a busy machine; only a failure waits for it.
PATIENCE_S = 60.0

# What a session counts with instead of the usual 2 s, unless a test says else.
HOUR_MS = 3_600_000

# A runtime that waits as long. The 2 s of real ones are a margin that a busy machine
# uses up, and the plugin's answer is lost then.
PATIENT = Behaviour(request_timeout_s=PATIENCE_S)


class Recorder(Plugin):
    """Subscribes to everything and keeps a list of the calls that it got."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.synchronized: list[tuple[list[str], list[str]]] = []
        self.ends: list[str] = []

    def synchronize(
        self, pods: Any, containers: Any
    ) -> list[nri.ContainerUpdate] | None:
        self.synchronized.append(
            ([pod.id for pod in pods], [container.id for container in containers])
        )
        return None

    def disconnected(self, reason: str) -> None:
        self.ends.append(reason)

    def note(self, method: str, pod: str, container: str = "") -> None:
        self.seen.append((method, pod, container))


def _recording(handler: str, kind: Kind) -> Any:
    def question(self: Recorder, request: Any) -> None:
        container = request.container.id if hasattr(request, "container") else ""
        self.note(handler, request.pod.id, container)

    def pod_event(self: Recorder, pod: nri.PodSandbox) -> None:
        self.note(handler, pod.id)

    def container_event(
        self: Recorder, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        self.note(handler, pod.id, container.id)

    return {
        Kind.QUESTION: question,
        Kind.POD_EVENT: pod_event,
        Kind.CONTAINER_EVENT: container_event,
    }[kind]


for _method in METHODS:
    setattr(Recorder, _method.handler, _recording(_method.handler, _method.kind))


@contextmanager
def running(
    plugin: Plugin, path: str, name: str = "test", idx: str = "10"
) -> Iterator[Runner]:
    """A plugin on a thread, dialling a socket; stopped at the end."""
    runner = Runner(plugin, Launch(name, idx, path, None))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            runner.run()
        except BaseException as exc:  # noqa: BLE001 - handed to the test
            failures.append(exc)

    thread = threading.Thread(target=run, name="plugin")
    thread.start()
    try:
        yield runner
    finally:
        runner.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the runner did not stop"
    if failures:
        raise failures[0]


@contextmanager
def connected(
    plugin: Plugin, tmp_path: Path, behaviour: Behaviour = PATIENT
) -> Iterator[tuple[EmbeddedRuntime, Runner]]:
    """A plugin registered with the embedded runtime."""
    path = str(tmp_path / "nri.sock")
    with EmbeddedRuntime(path, behaviour) as runtime, running(plugin, path) as runner:
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        yield runtime, runner


def be_late(session: Session | None) -> None:
    """Let the time of the request under way be over, as its watchdog sees it."""
    assert session is not None
    session._watchdog.hurry(timeout_ns=1)


class RawPeer:
    """The runtime's end of a session, for sending what no real runtime would send."""

    def __init__(self, plugin: Plugin) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(PATIENCE_S)
        self.connection = Connection(
            self.sock, serves=RUNTIME_CONNECTION, calls=PLUGIN_CONNECTION
        )
        self.stats = Stats()
        self.session = Session(
            plugin, theirs, Launch("test", "10", "", None), self.stats
        )
        self.ended_with: BaseException | None = None
        self._arrived: deque[Any] = deque()
        self._thread = threading.Thread(target=self._run, name="session")
        self._thread.start()

    def _run(self) -> None:
        try:
            self.session.run()
        except BaseException as exc:  # noqa: BLE001 - handed to the test
            self.ended_with = exc

    def receive(self) -> Call | Answer:
        """Return the next call or answer that the plugin sends."""
        while not self._arrived:
            call = self.connection.receive(self._arrived)
            if call is not None:
                return call
        event = self._arrived.popleft()
        assert isinstance(event, (Call, Answer))
        return event

    def accept_registration(self) -> nri.RegisterPluginRequest:
        """Answer RegisterPlugin."""
        call = self.receive()
        assert isinstance(call, Call)
        assert call.method == "RegisterPlugin"
        self.connection.send(self.connection.reply(call.stream_id, b""))
        return nri.RegisterPluginRequest.FromString(call.payload)

    def send(self, method: str, request: Message | bytes, **more: Any) -> int:
        """Send a request; return its stream id."""
        payload = request if isinstance(request, bytes) else request.SerializeToString()
        service = more.pop("service", PLUGIN_SERVICE)
        stream_id, head, body = self.connection.client.call(
            service, method, payload, **more
        )
        self.connection.send_call(head, body)
        return stream_id

    def answer(self) -> Answer:
        """Return the next answer."""
        answer = self.receive()
        assert isinstance(answer, Answer), answer
        return answer

    def ask(
        self,
        method: str,
        request: Message | bytes,
        response: type[Response],
        **more: Any,
    ) -> Response:
        """Send a request and return the successful answer to it."""
        stream_id = self.send(method, request, **more)
        answer = self.answer()
        assert answer.stream_id == stream_id
        assert answer.code == 0, answer
        return response.FromString(answer.payload)

    def begin(self, **configure: Any) -> nri.ConfigureResponse:
        """Go through registration, Configure and an empty Synchronize."""
        self.accept_registration()
        given = {"NRI_version": "0.12.5", "request_timeout": HOUR_MS, **configure}
        request = nri.ConfigureRequest(**given)
        response = self.ask("Configure", request, nri.ConfigureResponse)
        self.ask("Synchronize", nri.SynchronizeRequest(), nri.SynchronizeResponse)
        return response

    def close(self) -> None:
        """Close the runtime's end and wait for the session."""
        self.sock.close()
        self.join()

    def join(self) -> None:
        """Wait for the session to end by itself."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the session did not end"
        self.sock.close()


@contextmanager
def raw_peer(plugin: Plugin) -> Iterator[RawPeer]:
    """A session and its peer, closed at the end."""
    peer = RawPeer(plugin)
    try:
        yield peer
    finally:
        peer.close()


def wait_until(true: Callable[[], object]) -> None:
    """Wait for something that another thread brings about."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def pod(number: int = 1) -> nri.PodSandbox:
    """Return some pod."""
    return nri.PodSandbox(id=f"p{number}", name=f"pod-{number}", namespace="default")


def container(
    number: int = 1, *, shares: int = 0, quota_us: int = 0, limit_bytes: int = 0
) -> nri.Container:
    """Return some container of the pod with the same number."""
    result = nri.Container(id=f"c{number}", pod_sandbox_id=f"p{number}", name="app")
    resources = result.linux.resources
    if shares:
        resources.cpu.shares.value = shares
    if quota_us:
        resources.cpu.quota.value = quota_us
        resources.cpu.period.value = 100_000
    if limit_bytes:
        resources.memory.limit.value = limit_bytes
    return result


def update(container_id: str, **unified: str) -> nri.ContainerUpdate:
    """Return an update of v2 files; cpu_weight="42" is cpu.weight."""
    result = nri.ContainerUpdate(container_id=container_id)
    for name, value in unified.items():
        result.linux.resources.unified[name.replace("_", ".")] = value
    return result

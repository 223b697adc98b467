"""The connection of one plugin, from the side of the embedded runtime.

The embedded runtime calls the plugin from its own thread and waits for the answer. A
reader thread per connection receives answers and serves the plugin's calls. Frames
are written as the Go library writes them, and each received frame is checked against
the limits of Go's reader (`gopeer.py`).

Every end of a connection goes through `close`, which keeps the first reason. A late
answer is not waited for: the connection is closed, as a real runtime does.
"""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from nriplugin.errors import (
    ConnectionClosed,
    LocalProtocolError,
    RemoteProtocolError,
    RPCError,
)
from nriplugin.nri.connection import Connection
from nriplugin.nri.methods import (
    PLUGIN_CONNECTION,
    PLUGIN_SERVICE,
    RUNTIME_CONNECTION,
    RUNTIME_SERVICE,
)
from nriplugin.nri.testing.gopeer import GoDemux, go_pack
from nriplugin.wire.ttrpc import UNDECODABLE, Answer, Call, Code, RefusedCall

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    Serve = Callable[["PluginConnection", bytes], bytes]

Response = TypeVar("Response", bound=Message)

# containerd's tracing adds such a pair to every request. Plugins have to tolerate it.
METADATA = {"traceparent": "00-00000000000000000000000000000000-0000000000000000-00"}


class PluginConnection:
    """Calls one plugin, and serves that plugin's calls.

    `serve` maps RPCs of the Runtime service to functions that take this connection and
    the request's bytes and return the answer's bytes.
    """

    def __init__(self, sock: socket.socket, serve: dict[str, Serve]) -> None:
        self.name = ""
        self.idx = ""
        self.events = 0
        self.uses_state_change = False
        self.closed_because = ""
        self._serve = serve
        self._connection = Connection(
            sock,
            serves=RUNTIME_CONNECTION,
            calls=PLUGIN_CONNECTION,
            demux=GoDemux(),
            packer=go_pack,
        )
        self._writing = threading.Lock()  # held for each write to the socket
        # Notified when an answer arrives, when the plugin's call was served, and when
        # the connection ends.
        self._changed = threading.Condition()
        self._answers: deque[Answer] = deque()
        self._reader = threading.Thread(
            target=self._read, name="nri-runtime-reader", daemon=True
        )
        self._reader.start()

    @property
    def full_name(self) -> str:
        """Return the plugin's index and name, as runtimes write them."""
        return f"{self.idx}-{self.name}"

    @property
    def connected(self) -> bool:
        """Whether the plugin can still be called."""
        return not self.closed_because

    def close(self, reason: str) -> None:
        """End the connection; from any thread, and as often as wanted."""
        with self._changed:
            self.closed_because = self.closed_because or reason
            self._changed.notify_all()
        self._connection.end()

    def join(self) -> None:
        """After `close`: wait for the reader thread, then close the socket."""
        self._reader.join()
        self._connection.close()

    def notify(self) -> None:
        """Wake the threads in `wait_until`, which look at their condition again."""
        with self._changed:
            self._changed.notify_all()

    def wait_until(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `ready` holds or the connection ends; False on a timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: ready() or not self.connected, timeout_s
            )

    def call(
        self, method: str, request: Message, response: type[Response], timeout_s: float
    ) -> Response:
        """Call the plugin and wait for its answer.

        Raises:
            LocalProtocolError: the request is longer than a message may be.
            RPCError: the plugin answered with an error, or its answer cannot be parsed.
            ConnectionClosed: the plugin is gone, was late, or broke the protocol.
        """
        answer = self._exchange(method, request.SerializeToString(), timeout_s)
        if answer.code != Code.OK:
            raise RPCError(answer.code, answer.reason)
        try:
            return response.FromString(answer.payload)
        except UNDECODABLE as exc:
            raise RPCError(Code.INTERNAL, f"{method}: undecodable answer") from exc

    def _exchange(self, method: str, payload: bytes, timeout_s: float) -> Answer:
        """Send a request and wait for its answer; the only call under way."""
        client = self._connection.client
        stream_id, head, body = client.call(
            PLUGIN_SERVICE, method, payload, int(timeout_s * 1e9), METADATA
        )
        deadline = monotonic() + timeout_s
        try:
            with self._writing:
                self._connection.send_call(head, body)
        except ConnectionClosed as exc:
            self.close(str(exc))
            raise
        with self._changed:
            self._changed.wait_for(
                lambda: self._answers or not self.connected, deadline - monotonic()
            )
            if self._answers:
                return self._answers.popleft()
        client.forget(stream_id)
        self.close(f"{method}: no answer within {timeout_s:g} s")
        raise ConnectionClosed(self.closed_because)

    def _read(self) -> None:
        arrived: deque[Call | RefusedCall | Answer] = deque()
        try:
            while True:
                # Returns no call: with a demultiplexer of its own, a connection puts
                # all of them into `arrived`.
                self._connection.receive(arrived)
                while arrived:
                    self._take(arrived.popleft())
        except (ConnectionClosed, RemoteProtocolError) as exc:
            self.close(str(exc))

    def _take(self, event: Call | RefusedCall | Answer) -> None:
        if isinstance(event, Answer):
            with self._changed:
                self._answers.append(event)
                self._changed.notify_all()
        elif isinstance(event, RefusedCall):
            with self._writing:
                self._connection.send(self._connection.failure(*event))
        else:
            # One thread per call, as in Go: serving may wait for the runtime's lock,
            # which is held by a request whose answer this reader thread has to read.
            threading.Thread(
                target=self._serve_call, args=(event,), daemon=True
            ).start()

    def _serve_call(self, call: Call) -> None:
        connection = self._connection
        serve = (
            self._serve.get(call.method) if call.service == RUNTIME_SERVICE else None
        )
        try:
            if serve is None:
                raise RPCError(Code.UNIMPLEMENTED, f"method {call.method}")
            reply = connection.reply(call.stream_id, serve(self, call.payload))
        except RPCError as exc:
            reply = connection.failure(call.stream_id, exc.code, exc.message)
        except (*UNDECODABLE, LocalProtocolError) as exc:
            reply = connection.failure(call.stream_id, Code.INTERNAL, str(exc))
        try:
            with self._writing:
                connection.send(reply)
        except ConnectionClosed as exc:
            self.close(str(exc))
        self.notify()

"""A connected plugin, as the embedded runtime sees it."""

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

# containerd's tracing adds such a pair to every request; plugins must not mind.
METADATA = {"traceparent": "00-00000000000000000000000000000000-0000000000000000-00"}


class PluginConnection:
    """One plugin's connection: calls it, and serves its calls on a reader thread."""

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
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._answers: deque[Answer] = deque()
        self._reader = threading.Thread(
            target=self._read, name="nri-runtime-link", daemon=True
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
        """Drop the plugin."""
        with self._changed:
            self.closed_because = self.closed_because or reason
            self._changed.notify_all()
        self._connection.end()

    def join(self) -> None:
        """Wait for the reader thread after `close`."""
        self._reader.join()
        self._connection.close()

    def notify(self) -> None:
        """Wake those who wait for something to change."""
        with self._changed:
            self._changed.notify_all()

    def wait_until(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for something that a call of the plugin brings about."""
        with self._changed:
            return self._changed.wait_for(
                lambda: ready() or not self.connected, timeout_s
            )

    def call(
        self, method: str, request: Message, response: type[Response], timeout_s: float
    ) -> Response:
        """Ask the plugin.

        Raises:
            LocalProtocolError: the request is too long to send.
            RPCError: the plugin answered with an error, or with garbage.
            ConnectionClosed: it is gone, too late, or broke the protocol.
        """
        client = self._connection.client
        stream_id, head, body = client.call(
            PLUGIN_SERVICE,
            method,
            request.SerializeToString(),
            int(timeout_s * 1e9),
            METADATA,
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
            answer = self._answers.popleft() if self._answers else None
        if answer is None:
            client.forget(stream_id)
            self.close(f"{method}: no answer within {timeout_s:g} s")
            raise ConnectionClosed(self.closed_because)
        if answer.code != Code.OK:
            raise RPCError(answer.code, answer.reason)
        try:
            return response.FromString(answer.payload)
        except UNDECODABLE as exc:
            raise RPCError(Code.INTERNAL, f"{method}: undecodable answer") from exc

    def _read(self) -> None:
        arrived: deque[Call | RefusedCall | Answer] = deque()
        try:
            while True:
                # Nothing comes alone here, because every frame is judged.
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
            # A thread each, as in Go: the runtime's lock may make this one wait for
            # the end of a request whose answer we have yet to read.
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

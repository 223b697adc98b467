"""Forwards the proxy's calls to the runtime: bytes, metadata, deadline and status.

A call that ends on one side ends on the other, too: the caller's cancellation and
deadline reach the runtime, and the runtime's status and trailing metadata reach the
caller. Properties of a single connection (compression, flow control, the user agent)
are not forwarded, because gRPC negotiates them for each connection anew.

Every call runs on a thread of the proxy's gRPC server, and that thread is occupied
until the call ends. For that reason the number of open streams is limited.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Metadata = tuple[tuple[str, str | bytes], ...]
    Context = grpc.ServicerContext

# How many streams may be open at once. Each open stream occupies a thread of the
# server, so without a limit streams could take all threads and block every other call.
MAX_STREAMS = 128

STOPPING = "nriplugin: the proxy is stopping"

# Metadata keys that describe one connection only. gRPC adds its own on the next one.
_PER_CONNECTION = frozenset({"user-agent"})

# For a call without a deadline, `time_remaining` returns some hundreds of years instead
# of None. Any time left above this limit is therefore taken as "no deadline".
_NO_DEADLINE_S = 10 * 365 * 86400.0


class Forwarder:
    """Forwards calls to one runtime, on threads of the gRPC server.

    Only `stop` is called on another thread.
    """

    def __init__(
        self, channel: grpc.Channel, when_unavailable: Callable[[], None]
    ) -> None:
        """Forward calls through a channel to the runtime.

        `when_unavailable` is called whenever a call ended with status UNAVAILABLE.
        """
        self._channel = channel
        self._when_unavailable = when_unavailable
        self._calls: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._streams: set[Any] = set()
        self._stopping = False

    def unary(self, method: str, request: bytes, context: Context) -> bytes:
        """Return the runtime's response, or end the call with the runtime's error.

        `context.abort`, which ends the call, raises an exception of gRPC's own.
        """
        call = self._calls.get(method)
        if call is None:
            call = self._calls[method] = self._channel.unary_unary(method)
        # A future instead of a blocking call: the callback below has to cancel it from
        # another thread when the caller cancels.
        future: Any = call.future(
            request,
            timeout=_timeout_s(context),
            metadata=forwarded_metadata(_metadata(context)),
        )
        if not context.add_callback(future.cancel):  # the caller is gone already
            future.cancel()
        response: bytes = b""
        # The exceptions can be dropped, because `_finish` reads the same status from
        # the future.
        with suppress(grpc.RpcError, grpc.FutureCancelledError):
            response = future.result()
        initial = forwarded_metadata(future.initial_metadata())
        if initial and context.is_active():
            context.send_initial_metadata(initial)
        self._finish(future, context)
        return response

    def server_stream(
        self, method: str, request: bytes, context: Context
    ) -> Iterator[bytes]:
        """Yield the runtime's responses to one request."""
        return self._stream(self._channel.unary_stream(method), request, context)

    def stream(
        self, method: str, requests: Iterator[bytes], context: Context
    ) -> Iterator[bytes]:
        """Yield the runtime's responses while the caller's requests are forwarded."""
        call: Any = self._channel.stream_stream(method)
        return self._stream(call, _until_caller_is_gone(requests), context)

    def stop(self) -> None:
        """Cancel all open streams, which otherwise may stay open for ever."""
        with self._lock:
            self._stopping = True
            streams = list(self._streams)
        for call in streams:
            call.cancel()

    def _stream(
        self,
        start: Callable[..., Any],
        requests: bytes | Iterable[bytes],
        context: Context,
    ) -> Iterator[bytes]:
        call = start(
            requests,
            timeout=_timeout_s(context),
            metadata=forwarded_metadata(_metadata(context)),
        )
        with self._counted(call, context):
            if not context.add_callback(call.cancel):
                call.cancel()
            # Sent now rather than together with the first message: some clients wait
            # for the initial metadata before they take the stream as open, and the
            # first message (a container event) may come much later.
            initial = forwarded_metadata(call.initial_metadata())
            if context.is_active():
                context.send_initial_metadata(initial)
            with suppress(grpc.RpcError):
                yield from call
            self._finish(call, context)

    @contextmanager
    def _counted(self, call: Any, context: Context) -> Iterator[None]:  # noqa: ANN401
        with self._lock:
            refused = self._stopping or len(self._streams) >= MAX_STREAMS
            stopping = self._stopping
            if not refused:
                self._streams.add(call)
        if refused:
            call.cancel()
            if stopping:
                context.abort(grpc.StatusCode.UNAVAILABLE, STOPPING)
            context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"nriplugin: {MAX_STREAMS} streams are open, expected fewer",
            )
        try:
            yield
        finally:
            with self._lock:
                self._streams.discard(call)

    def _finish(self, call: Any, context: Context) -> None:  # noqa: ANN401
        """End the caller's call with the status with which the runtime ended `call`."""
        trailing = forwarded_metadata(call.trailing_metadata())
        if trailing:
            context.set_trailing_metadata(trailing)
        code = call.code()
        if code is grpc.StatusCode.OK:
            return
        if code is grpc.StatusCode.UNAVAILABLE:
            self._when_unavailable()
        if code is grpc.StatusCode.CANCELLED and self._stopping:
            # `stop` cancelled this stream. The caller shall try again, and CANCELLED
            # would say that the caller itself gave up.
            context.abort(grpc.StatusCode.UNAVAILABLE, STOPPING)
        context.abort(code, call.details() or "")


def forwarded_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> Metadata:
    """Return the metadata that has to be forwarded to the other side.

    Keys that begin with `grpc-` belong to the protocol and are left out, except those
    that end with `-bin`: they carry the details of errors and traces.
    """
    return tuple(
        (key, value)
        for key, value in metadata or ()
        if key not in _PER_CONNECTION
        and (not key.startswith("grpc-") or key.endswith("-bin"))
    )


def _metadata(context: Context) -> Iterable[tuple[str, str | bytes]]:
    return context.invocation_metadata()


def _timeout_s(context: Context) -> float | None:
    remaining = context.time_remaining()
    return None if remaining > _NO_DEADLINE_S else remaining


def _until_caller_is_gone(requests: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the caller's requests until the caller has sent all, or has gone away."""
    try:
        yield from requests
    except grpc.RpcError:
        # The caller is gone. The callback that `_stream` added to the context cancels
        # the call to the runtime.
        return

"""Passes calls on to the runtime as they are: bytes, metadata, deadline, status.

A call that ends at one side ends at the other: the caller's cancellation and deadline
reach the runtime, the runtime's status and trailing metadata reach the caller. What
belongs to one hop alone (compression, flow control, a client's name) is each hop's own.
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

# Streams that may be open at once. Each keeps a thread of the server, so that without
# a limit enough of them would leave none for anything else.
MAX_STREAMS = 128

STOPPING = "nriplugin: the proxy stops"

# Of one hop, and made anew by the next.
_OWN = frozenset({"user-agent"})

# Without a deadline the library says some hundreds of years.
_NO_DEADLINE_S = 10 * 365 * 86400.0


class Forwarder:
    """The way to one runtime. Every method is called on a thread of the server."""

    def __init__(
        self, channel: grpc.Channel, when_unavailable: Callable[[], None]
    ) -> None:
        """Use a channel; `when_unavailable` is told whenever nobody is there."""
        self._channel = channel
        self._when_unavailable = when_unavailable
        self._calls: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._streams: set[Any] = set()
        self._stopping = False

    def unary(self, method: str, request: bytes, context: Context) -> bytes:
        """Return the runtime's answer; raise, by way of the context, its error."""
        call = self._calls.get(method)
        if call is None:
            call = self._calls[method] = self._channel.unary_unary(method)
        # Not the blocking way, which nobody can cancel.
        future: Any = call.future(
            request, timeout=_timeout_s(context), metadata=passed(_metadata(context))
        )
        if not context.add_callback(future.cancel):
            future.cancel()
        response: bytes = b""
        # If it raises, its status says the same.
        with suppress(grpc.RpcError, grpc.FutureCancelledError):
            response = future.result()
        initial = passed(future.initial_metadata())
        if initial and context.is_active():
            context.send_initial_metadata(initial)
        self._finish(future, context)
        return response

    def server_stream(
        self, method: str, request: bytes, context: Context
    ) -> Iterator[bytes]:
        """Yield the runtime's answers to one request."""
        return self._stream(self._channel.unary_stream(method), request, context)

    def stream(
        self, method: str, requests: Iterator[bytes], context: Context
    ) -> Iterator[bytes]:
        """Yield the runtime's answers to requests, as both come."""
        call: Any = self._channel.stream_stream(method)
        return self._stream(call, _until_gone(requests), context)

    def stop(self) -> None:
        """End all streams, which would not end by themselves."""
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
            requests, timeout=_timeout_s(context), metadata=passed(_metadata(context))
        )
        with self._counted(call, context):
            if not context.add_callback(call.cancel):
                call.cancel()
            # At once, not with the first message: some wait for it.
            initial = passed(call.initial_metadata())
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
        """End the caller's call as the runtime ended ours."""
        trailing = passed(call.trailing_metadata())
        if trailing:
            context.set_trailing_metadata(trailing)
        code = call.code()
        if code is grpc.StatusCode.OK:
            return
        if code is grpc.StatusCode.UNAVAILABLE:
            self._when_unavailable()
        if code is grpc.StatusCode.CANCELLED and self._stopping:
            context.abort(grpc.StatusCode.UNAVAILABLE, STOPPING)
        context.abort(code, call.details() or "")


def passed(metadata: Iterable[tuple[str, str | bytes]] | None) -> Metadata:
    """Return what of somebody's metadata is meant for the other end.

    Keys that begin with grpc- are the protocol's own, but for binary ones, in which
    errors' details and traces travel.
    """
    return tuple(
        (key, value)
        for key, value in metadata or ()
        if key not in _OWN and (not key.startswith("grpc-") or key.endswith("-bin"))
    )


def _metadata(context: Context) -> Iterable[tuple[str, str | bytes]]:
    return context.invocation_metadata()


def _timeout_s(context: Context) -> float | None:
    remaining = context.time_remaining()
    return None if remaining > _NO_DEADLINE_S else remaining


def _until_gone(requests: Iterator[bytes]) -> Iterator[bytes]:
    """Yield requests until there is no more, or nobody to make one."""
    try:
        yield from requests
    except grpc.RpcError:
        return  # the caller is gone, which cancels the call by another way

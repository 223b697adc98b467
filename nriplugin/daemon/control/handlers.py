"""gRPC handlers of functions that know no gRPC: exceptions become status codes."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import grpc

from nriplugin.daemon.control.service import Busy, NotNow
from nriplugin.daemon.why import NoSuchContainer
from nriplugin.errors import (
    CgroupError,
    ConfigError,
    ConversionError,
    JournalError,
    NRIPluginError,
    RequestFails,
)
from nriplugin.loglimit import LimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from google.protobuf.message import Message

    Context = grpc.ServicerContext
    Handler = grpc.RpcMethodHandler[Any, Any]

_log = LimitedLog(logging.getLogger(__name__))

# The first class that fits an exception counts.
_CODES: tuple[tuple[type[NRIPluginError], grpc.StatusCode], ...] = (
    (NoSuchContainer, grpc.StatusCode.NOT_FOUND),
    (Busy, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (NotNow, grpc.StatusCode.FAILED_PRECONDITION),
    (RequestFails, grpc.StatusCode.FAILED_PRECONDITION),
    (ConfigError, grpc.StatusCode.INVALID_ARGUMENT),
    (ConversionError, grpc.StatusCode.INVALID_ARGUMENT),
    (JournalError, grpc.StatusCode.INTERNAL),
    (CgroupError, grpc.StatusCode.INTERNAL),
    (NRIPluginError, grpc.StatusCode.INVALID_ARGUMENT),
)


def unary(request: type[Message], answer: Callable[[Any], Message | None]) -> Handler:
    """Return the handler of a method with one answer; None is an empty message."""

    def serve(message: Any, context: Context) -> Any:  # noqa: ANN401
        try:
            return answer(message)
        except Exception as exc:  # noqa: BLE001 - the client gets every error
            code, text = _status_of(exc)
        return context.abort(code, text)

    return grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=request.FromString,
        response_serializer=lambda m: b"" if m is None else m.SerializeToString(),
    )


def denied(request: type[Message], text: str) -> Handler:
    """Return the handler of a method that the client may not call."""

    def serve(message: Any, context: Context) -> None:  # noqa: ANN401
        context.abort(grpc.StatusCode.PERMISSION_DENIED, text)

    return grpc.unary_unary_rpc_method_handler(
        serve, request_deserializer=request.FromString
    )


class StreamLimit:
    """Limits how many streams of a kind are open at once.

    A stream occupies one of the server's threads for as long as it is open. Without a
    limit, clients that open streams and leave them open would block all other calls.
    """

    def __init__(self, kind: str, most: int) -> None:
        self._text = f"{most} {kind} are open, expected fewer"
        self._free = threading.BoundedSemaphore(most)

    def limit(
        self, stream: Callable[[Any, Context], Iterable[Any]]
    ) -> Callable[[Any, Context], Iterator[Any]]:
        """Return the same stream, with the limit."""

        def serve(request: Any, context: Context) -> Iterator[Any]:  # noqa: ANN401
            if not self._free.acquire(blocking=False):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, self._text)
            try:
                yield from stream(request, context)
            finally:
                self._free.release()

        return serve


def _status_of(exc: Exception) -> tuple[grpc.StatusCode, str]:
    for kind, code in _CODES:
        if isinstance(exc, kind):
            return code, str(exc)
    _log.log(logging.ERROR, "control: %r", exc, exc_info=exc)
    return grpc.StatusCode.INTERNAL, repr(exc)

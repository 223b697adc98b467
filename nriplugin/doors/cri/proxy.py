"""The gRPC server in the runtime's place.

A thread per call: gRPC's own event loop is no faster for a proxy, and a call that waits
(StopContainer for a pod's grace period, PullImage for minutes) waits in a thread of its
own. Threads are made when they are needed; there may be many, because kubelet stops all
containers of a node at once, and nothing else must wait behind those.

Our own part of a call has a time limit, and whatever goes wrong in it is not the
caller's problem, unless the configuration says so.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import grpc

from nriplugin.doors.cri.client import OPTIONS
from nriplugin.doors.cri.interception import Prepared
from nriplugin.doors.cri.methods import SERVER_STREAMS, UNARY
from nriplugin.errors import RequestFails
from nriplugin.policy import FailurePolicy
from nriplugin.sockets import bind
from nriplugin.state.pending import Cancellation

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.doors.cri.forwarding import Forwarder
    from nriplugin.doors.cri.interception import Interceptor, Rest

    Context = grpc.ServicerContext
    Handler = grpc.RpcMethodHandler[bytes, bytes]

_log = logging.getLogger(__name__)

# 110 pods of a few containers each, all being stopped, and room for the rest.
WORKERS = 512

# Decisions take a fraction of a millisecond; asking the runtime or systemd may not.
DECIDERS = 8
BUDGET_S = 2.0

# For calls under way when we are told to stop.
GRACE_S = 5.0


class Proxy:
    """Serves one socket, for one runtime."""

    def __init__(
        self,
        forwarder: Forwarder,
        interceptor: Interceptor | None,
        failure_policy: FailurePolicy = FailurePolicy.IGNORE,
        budget_s: float = BUDGET_S,
    ) -> None:
        """Pass everything on, and what the interceptor wants through it.

        Args:
            forwarder: the way to the runtime.
            interceptor: what happens to some calls; None is nothing.
            failure_policy: what becomes of a call when our part of it fails or is
                late; may be replaced later.
            budget_s: after so many seconds our part is late.
        """
        self.failure_policy = failure_policy
        self._forwarder = forwarder
        self._interceptor = interceptor
        self._budget_s = budget_s
        self._deciders = ThreadPoolExecutor(DECIDERS, "decide")
        # Others than those: a decision that hangs must not keep what is done already.
        self._finishers = ThreadPoolExecutor(DECIDERS, "finish")
        self.server = grpc.server(
            ThreadPoolExecutor(WORKERS, "call"),
            handlers=[_Handlers(self._handler_of)],
            options=OPTIONS,
        )
        self._handlers: dict[str, Handler] = {}

    def bind(self, path: str, mode: int) -> None:
        """Make the socket.

        Raises:
            ConfigError: the socket cannot be made there.
        """
        bind(self.server, "--listen", path, mode)

    def serve(self) -> None:
        """Answer calls on the socket from now on."""
        self.server.start()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Take no more calls, let those under way end, and go; streams end at once."""
        stopped = self.server.stop(grace_s)
        self._forwarder.stop()
        stopped.wait()
        for pool in (self._deciders, self._finishers):
            pool.shutdown(wait=False, cancel_futures=True)

    def _handler_of(self, method: str) -> Handler:
        handler = self._handlers.get(method)
        if handler is not None:
            return handler
        if method not in UNARY and method not in SERVER_STREAMS:
            # Not kept: anybody can invent any number of names.
            stream = partial(self._forwarder.stream, method)
            return grpc.stream_stream_rpc_method_handler(stream)
        if method in SERVER_STREAMS:
            server_stream = partial(self._forwarder.server_stream, method)
            handler = grpc.unary_stream_rpc_method_handler(server_stream)
        else:
            handler = grpc.unary_unary_rpc_method_handler(self._unary(method))
        self._handlers[method] = handler
        return handler

    def _unary(self, method: str) -> Callable[[bytes, Context], bytes]:
        if self._interceptor is not None:
            rewrite = self._interceptor.rewriting.get(method)
            if rewrite is not None:
                return partial(self._rewritten, method, rewrite)
            follow = self._interceptor.following.get(method)
            if follow is not None:
                return partial(self._followed, method, follow)
        return partial(self._forwarder.unary, method)

    def _rewritten(
        self,
        method: str,
        rewrite: Callable[[bytes, Cancellation], Prepared],
        request: bytes,
        context: Context,
    ) -> bytes:
        try:
            prepared = self._prepared(method, rewrite, request, context)
        except RequestFails as exc:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"nriplugin: {exc}")
        try:
            response = self._forwarder.unary(method, prepared.request, context)
        except Exception:  # which is how the forwarder passes on the runtime's refusal
            if prepared.otherwise is not None:
                rest = prepared.otherwise
                self._afterwards(method, lambda: rest, context)
            raise
        if prepared.then is not None:
            self._afterwards(method, partial(prepared.then, response), context)
        return response

    def _followed(
        self,
        method: str,
        follow: Callable[[bytes, bytes], Rest | None],
        request: bytes,
        context: Context,
    ) -> bytes:
        response = self._forwarder.unary(method, request, context)
        self._afterwards(method, partial(follow, request, response), context)
        return response

    def _prepared(
        self,
        method: str,
        rewrite: Callable[[bytes, Cancellation], Prepared],
        request: bytes,
        context: Context,
    ) -> Prepared:
        cancellation = Cancellation()
        try:
            return self._decided(rewrite, request, cancellation)
        except RequestFails:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever it is, containers must start
            cancellation.cancelled = True
            return self._undecided(method, request, exc, context)

    def _decided(
        self,
        rewrite: Callable[[bytes, Cancellation], Prepared],
        request: bytes,
        cancellation: Cancellation,
    ) -> Prepared:
        """Wait for a decision, but not longer than we may."""
        future = self._deciders.submit(rewrite, request, cancellation)
        try:
            return future.result(self._budget_s)
        except TimeoutError:
            future.cancel()
            raise

    def _undecided(
        self, method: str, request: bytes, exc: Exception, context: Context
    ) -> Prepared:
        """Return what is sent although our part failed; end the call if it must not be.

        Raises:
            RequestFails: a handler is configured to fail the call.
        """
        what = "late" if isinstance(exc, TimeoutError) else repr(exc)
        if self.failure_policy is FailurePolicy.FAIL:
            _log.error("%s: failed: %s", method, what)
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, f"nriplugin: {method}: {what}"
            )
        assert self._interceptor is not None
        decide_at_once = self._interceptor.undecided.get(method, Prepared)
        try:
            prepared = decide_at_once(request)
        except RequestFails:
            raise
        except Exception as second:  # noqa: BLE001 - whatever it is, kubelet tries again
            if not self._interceptor.fails_lost_updates:
                prepared = Prepared(request)
            else:
                _log.error("%s: not passed on: %s; %s", method, what, second)
                reason = f"nriplugin: {method}: {what}; {second}"
                context.abort(grpc.StatusCode.UNAVAILABLE, reason)
        changed = "untouched" if prepared.request == request else "with what is known"
        _log.error("%s: passed on %s: %s", method, changed, what)
        return prepared

    def _afterwards(
        self, method: str, follow: Callable[[], Rest | None], context: Context
    ) -> None:
        """Do what follows from an answer, which the caller gets in any case.

        What is known changes at once. What is left to be done is waited for, so that
        the caller finds it done, but not for long, and it is done in the end.
        """
        try:
            rest = follow()
            if rest is not None:
                patience_s = min(self._budget_s, context.time_remaining() / 2)
                self._finishers.submit(rest).result(patience_s)
        except Exception as exc:  # noqa: BLE001 - the runtime has done its part
            what = "late" if isinstance(exc, TimeoutError) else repr(exc)
            _log.error("%s: after the answer: %s", method, what)


class _Handlers(grpc.GenericRpcHandler):
    """Finds a handler for whatever is called."""

    def __init__(self, find: Callable[[str], Handler]) -> None:
        self._find = find

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        return self._find(handler_call_details.method)

"""The gRPC server that kubelet and crictl talk to instead of the runtime.

Each call has a thread of its own: gRPC's asyncio server is no faster for a proxy, and
some calls take long (StopContainer for a pod's grace period, PullImage for minutes).
Threads are started when they are needed. There may be many of them, because kubelet
stops all containers of a node at once, and other calls must not queue behind those.

The proxy's own work on a call has a time limit. If that work fails or exceeds the
limit, the call goes to the runtime nevertheless, unless `failurePolicy: fail` is
configured, or the runtime would write nriplugin's earlier values over an update
(see doors/cri/immediate.py).
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import grpc

from nriplugin.doors.cri.client import OPTIONS
from nriplugin.doors.cri.interception import Prepared
from nriplugin.doors.cri.methods import SERVER_STREAMS, UNARY
from nriplugin.doors.cri.overdue import OverdueJobs
from nriplugin.errors import RequestFails
from nriplugin.policy import FailurePolicy
from nriplugin.request_stats import RequestStats
from nriplugin.sockets import bind
from nriplugin.state.pending import Cancellation

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.doors.cri.forwarding import Forwarder
    from nriplugin.doors.cri.interception import Interceptor, Rest

    Context = grpc.ServicerContext
    Handler = grpc.RpcMethodHandler[bytes, bytes]

_log = logging.getLogger(__name__)

# Enough for stopping all containers of a full node at once (110 pods with a few
# containers each), and for other calls meanwhile.
WORKERS = 512

# Threads that decide. Most decisions take a fraction of a millisecond, but some have to
# ask the runtime or systemd first, and those may take long.
DECIDERS = 8
# How long a call waits for its decision.
BUDGET_S = 2.0

# How long calls that are under way may take to end after the proxy was asked to stop.
GRACE_S = 5.0


class Proxy:
    """Serves one socket, for one runtime."""

    def __init__(
        self,
        forwarder: Forwarder,
        interceptor: Interceptor,
        failure_policy: FailurePolicy = FailurePolicy.IGNORE,
        budget_s: float = BUDGET_S,
    ) -> None:
        """Forward every call; let the interceptor read or rewrite the ones it names.

        Args:
            forwarder: forwards calls to the runtime.
            interceptor: reads and rewrites some of the calls.
            failure_policy: what happens to a call if its decision fails or is late;
                may be replaced while the proxy serves.
            budget_s: after so many seconds a decision is late.
        """
        self.failure_policy = failure_policy
        self._forwarder = forwarder
        self._interceptor = interceptor
        self._budget_s = budget_s
        self._deciders = ThreadPoolExecutor(DECIDERS, "decide")
        # A second pool, because decisions that hang can occupy all threads of the first
        # one, and must not delay the work that follows answers of the runtime.
        self._finishers = ThreadPoolExecutor(DECIDERS, "finish")
        self._overdue = OverdueJobs(DECIDERS)
        self._overdue_finishing = OverdueJobs(DECIDERS)
        self.server = grpc.server(
            ThreadPoolExecutor(WORKERS, "call"),
            handlers=[_Handlers(self._handler_of)],
            options=OPTIONS,
        )
        self._handlers: dict[str, Handler] = {}
        # The calls that were decided about, and the time that deciding took.
        self.requests = RequestStats()
        self.late = 0
        self._counting = threading.Lock()  # calls are served on many threads

    def bind(self, path: str, mode: int) -> None:
        """Create the socket; `serve` begins to answer on it.

        Raises:
            ConfigError: the socket cannot be made there.
        """
        bind(self.server, "--listen", path, mode)

    def serve(self) -> None:
        """Start to answer calls on the socket."""
        self.server.start()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Refuse new calls, cancel streams, and wait for other calls to end.

        Calls that have not ended after `grace_s` seconds are cancelled.
        """
        stopped = self.server.stop(grace_s)
        self._forwarder.stop()
        stopped.wait()
        for pool in (self._deciders, self._finishers):
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def late_s(self) -> float:
        """Return for how many seconds all threads of a pool have been held; else 0."""
        return max(self._overdue.occupied_s, self._overdue_finishing.occupied_s)

    def _handler_of(self, method: str) -> Handler:
        handler = self._handlers.get(method)
        if handler is not None:
            return handler
        if method not in UNARY and method not in SERVER_STREAMS:
            # Handlers of unknown methods are not kept in `_handlers`: a client can call
            # any number of invented method names, and the table would grow for ever.
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
        except Exception:  # the forwarder raises when the runtime refused the call
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
        began, failed, late = monotonic(), True, False
        try:
            prepared = self._decided(rewrite, request, cancellation)
            failed = False
            return prepared
        except RequestFails:
            raise
        except Exception as exc:  # noqa: BLE001 - after any defect, containers must start
            late = isinstance(exc, TimeoutError)
            # From here on the deciding thread, if it still runs, must not write.
            cancellation.cancelled = True
            return self._undecided(method, request, exc, context)
        finally:
            with self._counting:
                operation = method.rpartition("/")[2]
                self.requests.note(operation, monotonic() - began, failed=failed)
                self.late += late

    def _decided(
        self,
        rewrite: Callable[[bytes, Cancellation], Prepared],
        request: bytes,
        cancellation: Cancellation,
    ) -> Prepared:
        """Decide on a thread of the pool, and wait for that at most `budget_s` seconds.

        Raises:
            TimeoutError: the decision is late.
        """
        future = self._deciders.submit(rewrite, request, cancellation)
        try:
            return future.result(self._budget_s)
        except TimeoutError:
            if not future.cancel():
                self._overdue.add(future)
            raise

    def _undecided(
        self, method: str, request: bytes, exc: Exception, context: Context
    ) -> Prepared:
        """Return the request to forward although its decision failed or is late.

        Under `failurePolicy: fail`, and for an update that would end with nriplugin's
        earlier values, the call is ended with an error instead.

        Raises:
            RequestFails: a handler is configured to fail the call.
        """
        problem = "the decision is late" if isinstance(exc, TimeoutError) else repr(exc)
        if self.failure_policy is FailurePolicy.FAIL:
            _log.error("%s: failed, as failurePolicy asks: %s", method, problem)
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, f"nriplugin: {method}: {problem}"
            )
        decide_at_once = self._interceptor.undecided.get(method, Prepared)
        try:
            prepared = decide_at_once(request)
        except RequestFails:
            raise
        except Exception as second:  # noqa: BLE001 - any defect: kubelet tries again
            if not self._interceptor.fails_lost_updates:
                prepared = Prepared(request)
            else:
                _log.error("%s: not forwarded: %s; %s", method, problem, second)
                reason = f"nriplugin: {method}: {problem}; {second}"
                context.abort(grpc.StatusCode.UNAVAILABLE, reason)
        unchanged = prepared.request == request
        form = "unchanged" if unchanged else "with a decision made from memory alone"
        _log.error("%s: forwarded %s: %s", method, form, problem)
        return prepared

    def _afterwards(
        self, method: str, follow: Callable[[], Rest | None], context: Context
    ) -> None:
        """Do the work that follows from the runtime's answer to a call.

        `follow` brings the inventory up to date on this thread. The `Rest` that it
        returns, which may write files, runs on a thread of the pool. This thread waits
        for it, so that the caller finds the files written, but at most `budget_s` and
        half of the caller's remaining time; the pool finishes it in any case. Failures
        are logged only: the caller gets the runtime's answer regardless.
        """
        try:
            rest = follow()
            if rest is not None:
                patience_s = min(self._budget_s, context.time_remaining() / 2)
                self._finished(rest, patience_s)
        except Exception as exc:  # noqa: BLE001 - the runtime has done its part
            late = isinstance(exc, TimeoutError)
            problem = "not done in time" if late else repr(exc)
            _log.error("%s: work after the runtime's answer: %s", method, problem)

    def _finished(self, rest: Rest, patience_s: float) -> None:
        """Do a call's last work on a thread of the pool, and wait for that so long.

        Raises:
            TimeoutError: it is not done yet; it still will be.
        """
        future = self._finishers.submit(rest)
        try:
            future.result(patience_s)
        except TimeoutError:
            self._overdue_finishing.add(future)
            raise


class _Handlers(grpc.GenericRpcHandler):
    """Lets the server look up the handler of any method name, known or not."""

    def __init__(self, find: Callable[[str], Handler]) -> None:
        self._find = find

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        return self._find(handler_call_details.method)

"""One connection to a runtime, from the registration to its end. Never used twice.

Threads:
- The thread that calls `run` is the request thread. It owns the socket, blocks on it
  and runs the plugin's handlers, one request at a time.
- The watchdog's thread takes the socket over while a handler is late (`interim.py`).
- Any thread of the plugin may queue an unsolicited update. It is sent by that thread
  if no request is being answered, else by the request thread after its answer.

`_writing` is the one lock. `_running` and `_interim` say which thread answers the
request under way; the lock is held while a thread decides by them and writes to the
socket. The watchdog's thread writes without the lock while it serves: `_running` is set
all that time, so no other thread writes. A handler runs without the lock. The answer of
a handler that was late is dropped: the runtime already has the watchdog's answer.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from time import monotonic, sleep
from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import (
    ConfigError,
    ConnectionClosed,
    NRIPluginError,
    RequestFails,
    RPCError,
)
from nriplugin.loglimit import LimitedLog
from nriplugin.nri.connection import Connection
from nriplugin.nri.dispatch import BoundMethod, bind, drop_harmful, unknown
from nriplugin.nri.fallback import Fallback
from nriplugin.nri.interim import DeferredEvent, InterimServer
from nriplugin.nri.methods import (
    PLUGIN_CONNECTION,
    PLUGIN_SERVICE,
    RUNTIME_CONNECTION,
    RUNTIME_SERVICE,
)
from nriplugin.nri.plugin import subscription
from nriplugin.nri.releases import NRI_VERSION, release_of, valid_mask
from nriplugin.nri.updates import UpdateQueue
from nriplugin.nri.watchdog import NO_DEADLINE, Watchdog
from nriplugin.policy import FailurePolicy
from nriplugin.wire.single_frame import write_reply
from nriplugin.wire.ttrpc import UNDECODABLE, Call, Code, RefusedCall

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from nriplugin.nri.launch import Launch
    from nriplugin.nri.plugin import Plugin, UpdateDone
    from nriplugin.nri.stats import Stats
    from nriplugin.wire.ttrpc import Answer

_log = logging.getLogger(__name__)

# The request timeout of a runtime that does not announce one (NRI before 0.7): the
# default of the Go library.
DEFAULT_REQUEST_TIMEOUT_S = 2.0

# The longest wait for each message from the registration to Synchronize. The runtime
# gives a plugin 5 s to register, but it admits one plugin after the other, so each mute
# plugin that connected earlier adds its 5 s.
REGISTRATION_PATIENCE_S = 60.0

# A runtime that does not read the socket for this long is taken for gone.
SEND_PATIENCE_S = 10.0

# The wait between the last answer and the closing of the socket. When a connection is
# closed while an answer is queued in the Go reader, the reader may see "closed" first
# and lose the answer.
LINGER_S = 0.05

# Under this name all requests are counted whose method no plugin has.
UNKNOWN_METHOD = "unknown"


class Session:
    """Serves one plugin on one socket."""

    def __init__(
        self, plugin: Plugin, sock: socket.socket, launch: Launch, stats: Stats
    ) -> None:
        # Whether the connection came to work; a connection that did not counts as a
        # failed attempt for the next wait of the runner.
        self.established = False
        self._plugin = plugin
        self._launch = launch
        self._stats = stats
        self._limited = LimitedLog(_log)
        self._connection = Connection(
            sock, serves=PLUGIN_CONNECTION, calls=RUNTIME_CONNECTION
        )
        self._methods = bind(plugin)
        self._methods["Configure"] = BoundMethod(
            nri.ConfigureRequest.FromString, self._configure
        )
        synchronize = plugin.views.get("synchronize", nri.SynchronizeRequest)
        self._methods["Synchronize"] = BoundMethod(
            synchronize.FromString, self._synchronize
        )
        self._fallback = Fallback(
            plugin, self._connection, self._methods, self._limited
        )
        self._inbox: deque[Call | RefusedCall | Answer | DeferredEvent] = deque()
        self._updates = UpdateQueue(self._connection.client)
        self._watchdog = Watchdog(self._handler_is_late, DEFAULT_REQUEST_TIMEOUT_S)
        self._registration = 0  # the stream id of the RegisterPlugin call
        # The pods and containers of the Synchronize requests with `more`.
        self._pods: list[nri.PodSandbox] = []
        self._containers: list[nri.Container] = []
        self._stopping = False
        self._refused: ConfigError | None = None
        self._writing = threading.Lock()  # see the rules at the top
        # The request under way; None while no request is being answered.
        self._running: Call | DeferredEvent | None = None
        # Set while the handler of `_running` is late.
        self._interim: InterimServer | None = None

    # From the registration to the end

    def run(self) -> None:
        """Register and serve until `stop`; on the request thread.

        Raises:
            ConnectionClosed: the runtime or the kernel ended the connection.
            RemoteProtocolError: the runtime broke the protocol.
            RPCError: the runtime refused the registration.
            ConfigError: the plugin refused the runtime or its configuration.
        """
        self._watchdog.start()
        try:
            self._register()
            self._serve()
        except ConnectionClosed:
            if self._refused:
                raise self._refused from None
            if not self._stopping:
                raise
            sleep(LINGER_S)
        finally:
            # In this order: first no thread can queue updates any more, then the
            # watchdog's thread ends, which may be using the socket, then the socket is
            # closed, and at last the updates that were not answered are reported.
            self._plugin.attach(None)
            self._watchdog.close()
            self._connection.close()
            self._updates.abandon()

    def stop(self) -> None:
        """End `run` after the request under way; from any thread or signal handler.

        Only reading ends here, so that the request thread can still send its answer.
        """
        self._stopping = True
        self._connection.end(reading_only=True)

    @property
    def late_since(self) -> float | None:
        """Return since when the handler under way is late (`monotonic`), or None.

        It is read from the deadline that the watchdog needs anyway, so that the request
        path has nothing to do for it.
        """
        deadline = self._watchdog.deadline
        return deadline if deadline <= monotonic() else None

    def _register(self) -> None:
        self._connection.limit_waiting(
            receive_s=REGISTRATION_PATIENCE_S, send_s=SEND_PATIENCE_S
        )
        request = nri.RegisterPluginRequest(
            plugin_name=self._launch.name,
            plugin_idx=self._launch.idx,
            NRI_version=NRI_VERSION,
        )
        self._registration, head, body = self._connection.client.call(
            RUNTIME_SERVICE, "RegisterPlugin", request.SerializeToString()
        )
        self._connection.send_call(head, body)

    def _serve(self) -> None:
        inbox, receive = self._inbox, self._connection.receive
        while True:
            while inbox:
                event = inbox.popleft()
                if isinstance(event, (Call, DeferredEvent)):
                    self._handle(event)
                elif isinstance(event, RefusedCall):
                    self._refuse(event)
                else:
                    self._take_answer(event)
            call = receive(inbox)
            if call is not None:
                self._handle(call)

    # Requests

    def _handle(self, event: Call | DeferredEvent) -> None:
        """Parse a request, call the plugin, answer.

        This is the request path: its time is part of every container start, and each
        Python function that it enters is measurable. Slow or rare work stays out.
        """
        call = event if isinstance(event, Call) else event.call
        stream_id, service, method, payload, _ = call
        # Set without the lock, to save its time. If another thread is sending an update
        # right now, the update crosses this request, as it can on the wire in any case.
        self._running = event
        watchdog = self._watchdog
        began = monotonic()
        watchdog.deadline = began + watchdog.budget_s
        failed = False
        try:
            bound = self._methods.get(method)
            if bound is None or service != PLUGIN_SERVICE:
                what = unknown(service, method) or method
                method, failed = UNKNOWN_METHOD, True
                reply = self._connection.failure(stream_id, Code.UNIMPLEMENTED, what)
            else:
                parse, handle, may_update = bound
                request = parse(payload)
                response = handle(request)
                payload = b""
                if response is not None:
                    if may_update and response.update:
                        creating = method == "CreateContainer"
                        drop_harmful(response.update, request if creating else None)
                    payload = response.SerializeToString()
                reply = write_reply(
                    PLUGIN_CONNECTION, stream_id, payload
                ) or self._connection.reply(stream_id, payload)
        except Exception as exc:  # noqa: BLE001 - plugin code must not end the session
            reply = self._failure(call, exc)
            failed = True
        watchdog.deadline = NO_DEADLINE
        with self._writing:
            # Under the lock the watchdog's thread has either taken this request over
            # or can no longer do so: there is exactly one answer.
            interim = self._interim
            if interim is None:
                self._running = None
                if event is call:  # a deferred event was answered when it arrived
                    self._connection.send(reply)
        self._stats.requests += 1
        note = self._stats.by_operation.note
        note(method, monotonic() - began, failed=failed)
        if interim is not None:
            self._come_back(call, interim)
        if self._updates:
            self._send_update()

    def _failure(self, call: Call, exc: Exception) -> bytes:
        """Return the answer to a request whose handler raised an exception."""
        self._stats.failed += 1
        code = Code.UNKNOWN
        log, method = self._limited.log, call.method
        if isinstance(exc, UNDECODABLE):
            code = Code.INTERNAL
            log(logging.ERROR, "%s: the request cannot be decoded", method)
        elif isinstance(exc, NRIPluginError):
            # An error of our own explains itself, so it is logged without a traceback.
            log(logging.ERROR, "%s: %s", method, exc)
        else:
            line = "%s: the plugin's handler failed"
            log(logging.ERROR, line, method, exc_info=exc)
        reason = f"{type(exc).__name__}: {exc}"
        failing = self._plugin.failure_policy is FailurePolicy.FAIL
        if failing or isinstance(exc, RequestFails):
            if call.method == "Synchronize":
                # The runtime closes the connection after this error, so the runner
                # must wait before it dials again.
                self.established = False
            return self._connection.failure(call.stream_id, code, reason)
        return self._fallback.reply_to(call, code, reason)

    def _refuse(self, refusal: RefusedCall) -> None:
        self._limited.log(logging.WARNING, "refused a request: %s", refusal.reason)
        with self._writing:
            self._connection.send(self._connection.failure(*refusal))

    # The two requests that the session serves itself

    def _configure(self, request: nri.ConfigureRequest) -> nri.ConfigureResponse:
        if request.request_timeout > 0:
            self._watchdog.allow(request.request_timeout / 1000)
        _log.info(
            "registered with %s %s", request.runtime_name, request.runtime_version
        )
        try:
            self._plugin.configure(request)
            release = release_of(request)
            events = subscription(self._plugin) & valid_mask(release)
            if not events:
                raise ConfigError(
                    f"{request.runtime_name} {request.runtime_version} speaks NRI "
                    f"{release[0]}.{release[1]}, which has none of the plugin's events"
                )
        except ConfigError as exc:
            self._refused = exc
            raise
        if self._launch.inherited_fd is not None:
            # Before NRI 0.7 a plugin that the runtime launched gets no Synchronize.
            self._establish()
        response = nri.ConfigureResponse(events=events)
        if self._plugin.failure_policy is FailurePolicy.FAIL:
            response.failure_policy.fail_request = True
        return response

    def _synchronize(self, request: nri.SynchronizeRequest) -> nri.SynchronizeResponse:
        # A runtime with many containers sends several Synchronize requests, which share
        # one timeout: the time that is left is the timeout of this request. All but the
        # last have `more` set and are answered with `more` and nothing else; the plugin
        # sees one list at the end.
        if isinstance(self._running, Call):
            self._watchdog.hurry(self._running.timeout_ns)
        self._pods.extend(request.pods)
        self._containers.extend(request.containers)
        if request.more:
            return nri.SynchronizeResponse(more=True)
        pods, self._pods = self._pods, []
        containers, self._containers = self._containers, []
        self._establish()
        _log.info("synchronized: %d pods, %d containers", len(pods), len(containers))
        updates = self._plugin.synchronize(pods, containers)
        response = nri.SynchronizeResponse(update=updates or ())
        drop_harmful(response.update)
        return response

    def _establish(self) -> None:
        """Note that the connection works: receive without a limit, allow updates."""
        if not self.established:
            self.established = True
            self._stats.connections += 1
            self._connection.limit_waiting(send_s=SEND_PATIENCE_S)
            self._plugin.attach(self._enqueue)

    # Calls to the runtime

    def _take_answer(self, answer: Answer) -> None:
        if answer.stream_id != self._registration:
            self._updates.answered(answer)
            self._send_update()
        elif answer.code != Code.OK:
            raise RPCError(answer.code, f"registration refused: {answer.reason}")

    def _enqueue(
        self, updates: Sequence[nri.ContainerUpdate], done: UpdateDone | None
    ) -> None:
        self._updates.put(updates, done)
        self._send_update()

    def _send_update(self) -> None:
        """Send the next update unless a request is being answered."""
        # The request thread reads the end of the connection, too, and reports it.
        with self._writing, contextlib.suppress(ConnectionClosed):
            if self._running is None and self._updates:
                self._connection.send_call(*self._updates.next_call())

    # A late handler

    def _handler_is_late(self) -> None:
        """On the watchdog's thread: serve until the late handler returns."""
        with self._writing:
            event = self._running
            # While this thread waited for the lock, the request thread may have
            # answered the late request and begun another one.
            if event is None or self._watchdog.deadline > monotonic():
                return
            interim = InterimServer(self._connection, self._fallback, self._stats)
            self._interim = interim
        self._stats.late += 1
        with contextlib.suppress(ConnectionClosed):  # `serve` handles that as well
            if isinstance(event, Call):
                interim.answer(event)
        self._inbox.extend(interim.serve())
        interim.give_back()

    def _come_back(self, call: Call, interim: InterimServer) -> None:
        """On the request thread, when a late handler has returned: serve again."""
        interim.take_back()
        with self._writing:
            self._interim = self._running = None
        line = "%s: the handler was late, its answer was dropped"
        self._limited.log(logging.WARNING, line, call.method)

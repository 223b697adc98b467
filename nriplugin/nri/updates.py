"""Queues calls to Runtime.UpdateContainers, the updates that no request asked for.

One call is under way at a time, and calls leave in the order in which they were
queued. The queue only builds and accounts: the session decides when a call may leave
(never while a request is being answered, because the runtime holds a lock over the
request) and sends it. Each queued call reports exactly one outcome: success, an error
of the runtime, or the loss of the connection.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import ConnectionClosed, LocalProtocolError, RPCError
from nriplugin.nri.methods import RUNTIME_SERVICE
from nriplugin.wire.ttrpc import MAX_MESSAGE, Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.errors import NRIPluginError
    from nriplugin.nri.plugin import UpdateDone
    from nriplugin.wire.ttrpc import Answer, Client

_log = logging.getLogger(__name__)

# The longest serialised update: a message less room for the envelope, which carries the
# names of service and method.
MAX_PAYLOAD = MAX_MESSAGE - 128


class UpdateQueue:
    """The calls that wait, and the one that is under way.

    Any thread may call `put`, and `next_call` if it holds the session's lock. Only the
    request thread calls `answered` and `abandon`.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: deque[tuple[bytes, UpdateDone | None]] = deque()
        self._stream = 0  # the stream id of the call under way; 0 if there is none
        self._done: UpdateDone | None = None
        self._abandoned = False

    def __bool__(self) -> bool:
        """Whether a call could be made now."""
        return not self._stream and bool(self._waiting)

    def put(
        self, updates: Sequence[nri.ContainerUpdate], done: UpdateDone | None
    ) -> None:
        """Queue one call.

        Raises:
            LocalProtocolError: the updates are longer than a message may be.
        """
        payload = nri.UpdateContainersRequest(update=updates).SerializeToString()
        if len(payload) > MAX_PAYLOAD:
            raise LocalProtocolError(
                f"update of {len(payload)} bytes, at most {MAX_PAYLOAD} are allowed"
            )
        self._waiting.append((payload, done))
        # The connection may have ended while this thread was on its way here. Then no
        # thread takes calls off the queue any more, so the new one is reported now.
        if self._abandoned:
            self.abandon()

    def next_call(self) -> tuple[bytes, bytes]:
        """Return header and body of the next call, which is under way from now on."""
        payload, self._done = self._waiting.popleft()
        self._stream, head, body = self._client.call(
            RUNTIME_SERVICE, "UpdateContainers", payload
        )
        return head, body

    def answered(self, answer: Answer) -> None:
        """Report the outcome of the call under way, if this is the answer to it."""
        if answer.stream_id != self._stream:
            return
        # `_done` is taken before `_stream` is cleared: with no stream under way another
        # thread may start the next call, which sets `_done`.
        done, self._done, self._stream = self._done, None, 0
        failed = answer.code != Code.OK
        _report(done, RPCError(answer.code, answer.reason) if failed else None)

    def abandon(self) -> None:
        """Report to each call, under way or waiting, that the connection is lost."""
        self._abandoned = True
        if self._stream:
            self._stream = 0
            _report(self._done, ConnectionClosed("connection lost, outcome unknown"))
        while self._waiting:
            _, done = self._waiting.popleft()
            never_sent = ConnectionClosed("connection lost before the update was sent")
            _report(done, never_sent)


def _report(done: UpdateDone | None, error: NRIPluginError | None) -> None:
    if done is None:
        if error is not None:
            _log.warning("unsolicited update: %s", error)
        return
    try:
        done(error)
    except Exception:  # noqa: BLE001 - plugin code must not end the connection
        _log.exception("the plugin's update callback failed")

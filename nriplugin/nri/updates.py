"""Unsolicited updates waiting for their turn: one call at a time, in order."""

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

# What is left of a message beside the envelope.
MAX_PAYLOAD = MAX_MESSAGE - 128


class UpdateQueue:
    """Calls to Runtime.UpdateContainers. The session decides when, and locks."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: deque[tuple[bytes, UpdateDone | None]] = deque()
        self._stream = 0  # of the call that is under way
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
            LocalProtocolError: it is longer than a message may be.
        """
        payload = nri.UpdateContainersRequest(update=updates).SerializeToString()
        if len(payload) > MAX_PAYLOAD:
            raise LocalProtocolError(
                f"update of {len(payload)} bytes, at most {MAX_PAYLOAD} are allowed"
            )
        self._waiting.append((payload, done))
        if self._abandoned:  # meanwhile
            self.abandon()

    def next_call(self) -> tuple[bytes, bytes]:
        """Return header and body of the next call."""
        payload, self._done = self._waiting.popleft()
        self._stream, head, body = self._client.call(
            RUNTIME_SERVICE, "UpdateContainers", payload
        )
        return head, body

    def answered(self, answer: Answer) -> None:
        """Take note of an answer, if it is one to the call under way."""
        if answer.stream_id != self._stream:
            return
        # In this order: with the stream gone, another thread may make the next call.
        done, self._done, self._stream = self._done, None, 0
        failed = answer.code != Code.OK
        _tell(done, RPCError(answer.code, answer.reason) if failed else None)

    def abandon(self) -> None:
        """Tell everybody who waits that the connection is gone."""
        self._abandoned = True
        if self._stream:
            self._stream = 0
            _tell(self._done, ConnectionClosed("connection lost, outcome unknown"))
        while self._waiting:
            _, done = self._waiting.popleft()
            _tell(done, ConnectionClosed("connection lost before the update was sent"))


def _tell(done: UpdateDone | None, error: NRIPluginError | None) -> None:
    if done is None:
        if error is not None:
            _log.warning("unsolicited update: %s", error)
        return
    try:
        done(error)
    except Exception:  # noqa: BLE001 - the plugin's own code; the connection goes on
        _log.exception("the plugin's update callback failed")

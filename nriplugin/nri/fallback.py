"""What is answered in place of a handler that failed or is late.

An empty answer is harmless for most requests: the runtime goes on as if the plugin were
not there. Two are different. An empty answer to Configure subscribes to everything, so
that request fails. And an empty answer to UpdateContainer makes the runtime write what
the plugin once put into the container's specification over kubelet's new numbers, so
the plugin is asked for something better.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nriplugin.errors import RequestFails
from nriplugin.nri.dispatch import drop_harmful, is_event, unknown
from nriplugin.policy import FailurePolicy
from nriplugin.wire.ttrpc import Code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.loglimit import LimitedLog
    from nriplugin.nri.connection import Connection
    from nriplugin.nri.dispatch import BoundMethod
    from nriplugin.nri.plugin import Plugin
    from nriplugin.wire.ttrpc import Call

UPDATE = "UpdateContainer"


class Fallback:
    """Answers requests that the plugin's handler does not answer.

    On the request thread after a handler has failed, on the watchdog's while one is
    late, so never both at a time.
    """

    def __init__(
        self,
        plugin: Plugin,
        connection: Connection,
        handlers: Mapping[str, BoundMethod],
        log: LimitedLog,
    ) -> None:
        self._plugin = plugin
        self._connection = connection
        self._handlers = handlers
        self._log = log

    def reply_to(self, call: Call, code: int, reason: str) -> bytes:
        """Return the bytes of an answer; `code` and `reason` are for a failure."""
        connection, stream_id, rpc = self._connection, call.stream_id, call.method
        what = unknown(call.service, rpc)
        if what is not None:
            return connection.failure(stream_id, Code.UNIMPLEMENTED, what)
        if is_event(rpc):
            return connection.reply(stream_id, b"")
        if rpc == "Configure" or self._plugin.failure_policy is FailurePolicy.FAIL:
            return connection.failure(stream_id, code, reason)
        if rpc != UPDATE:
            return connection.reply(stream_id, b"")
        try:
            return connection.reply(stream_id, self._update(call.payload))
        except RequestFails as exc:
            return connection.failure(stream_id, code, f"{reason}: {exc}")
        except Exception as exc:  # noqa: BLE001 - a supervisor: the node goes on
            line = "%s: the plugin has no answer in place of its handler's"
            self._log.log(logging.ERROR, line, rpc, exc_info=exc)
            return connection.reply(stream_id, b"")

    def _update(self, payload: bytes) -> bytes:
        request = self._handlers[UPDATE].parse(payload)
        if request is None:  # the plugin has no handler for it
            return b""
        response = self._plugin.fallback_update(request)
        if response is None:
            return b""
        drop_harmful(response.update)
        return response.SerializeToString()

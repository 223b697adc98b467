"""Builds the answer to a request whose handler failed or is late.

For most requests the answer is empty: the runtime goes on as if the plugin were not
there. With the failure policy `fail` it is an error status. Two requests differ:

- Configure always gets an error. An empty answer to it would subscribe the plugin to
  every event.
- UpdateContainer gets what `Plugin.fallback_update` returns. After an empty answer the
  runtime would write the `unified` values that the plugin set when the container was
  created, and they would replace the numbers that kubelet asks for now.
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
    """Answers in place of the plugin's handlers.

    The request thread calls it after a handler has failed, the watchdog's thread calls
    it while a handler is late. Never both at once: during a late handler the request
    thread is inside that handler.
    """

    def __init__(
        self,
        plugin: Plugin,
        connection: Connection,
        methods: Mapping[str, BoundMethod],
        log: LimitedLog,
    ) -> None:
        self._plugin = plugin
        self._connection = connection
        self._methods = methods
        self._log = log

    def reply_to(self, call: Call, code: int, reason: str) -> bytes:
        """Return the bytes of the answer.

        `code` and `reason` say why the handler has no answer; they are the status if
        the answer is an error.
        """
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
        except Exception as exc:  # noqa: BLE001 - plugin code must not end the session
            line = "%s: fallback_update failed, the answer is empty"
            self._log.log(logging.ERROR, line, rpc, exc_info=exc)
            return connection.reply(stream_id, b"")

    def _update(self, payload: bytes) -> bytes:
        request = self._methods[UPDATE].parse(payload)
        if request is None:  # the plugin has no handler for updates
            return b""
        response = self._plugin.fallback_update(request)
        if response is None:
            return b""
        drop_harmful(response.update)
        return response.SerializeToString()

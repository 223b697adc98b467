"""NRI's Plugin service over gRPC: decisions as a dry run, without a runtime.

A client sends the messages that a runtime would send, and gets the answers that the
plugin would give under the present configuration. No state changes and nothing is
written (doors/nri/dry_run.py).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from nriplugin.api import nri_pb2 as nri
from nriplugin.daemon.control.handlers import unary
from nriplugin.doors.nri.dry_run import DryRunPlugin
from nriplugin.nri.methods import METHODS, Kind
from nriplugin.nri.plugin import handles, subscription

if TYPE_CHECKING:
    from collections.abc import Mapping

    import grpc

    from nriplugin.nri.methods import Method
    from nriplugin.state.lifecycle import Lifecycle

    Handler = grpc.RpcMethodHandler[Any, Any]


class PluginService:
    """Answers as the live plugin would."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        """Decide by the plan and the inventory of a life-cycle."""
        self._plugin = DryRunPlugin(lifecycle)
        # A runtime sends one request at a time, so the plugin is not thread-safe.
        self._one_at_a_time = threading.Lock()

    def handlers(self) -> Mapping[str, Handler]:
        """Return gRPC's handlers by the names of the methods."""
        handlers = {method.rpc: self._handler_of(method) for method in METHODS}
        handlers["Configure"] = unary(nri.ConfigureRequest, self._configure)
        handlers["Synchronize"] = unary(nri.SynchronizeRequest, _synchronize)
        handlers["StateChange"] = unary(nri.StateChangeEvent, _nothing)
        handlers["Shutdown"] = unary(nri.Empty, _nothing)
        return handlers

    def _handler_of(self, method: Method) -> Handler:
        """Return a handler that asks the plugin; events are accepted and ignored."""
        if method.kind is not Kind.QUESTION or not handles(self._plugin, method):
            return unary(method.request, _nothing)
        request = self._plugin.views.get(method.handler, method.request)
        answer = getattr(self._plugin, method.handler)

        def ask(message: Any) -> Any:  # noqa: ANN401 - a `request`
            with self._one_at_a_time:
                return answer(message)

        return unary(request, ask)

    def _configure(self, request: nri.ConfigureRequest) -> nri.ConfigureResponse:
        return nri.ConfigureResponse(events=subscription(self._plugin))


def _synchronize(request: nri.SynchronizeRequest) -> nri.SynchronizeResponse:
    return nri.SynchronizeResponse(more=request.more)


def _nothing(request: object) -> None:
    """Answer with an empty message."""

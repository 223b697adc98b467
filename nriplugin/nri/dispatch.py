"""From a method name and payload bytes to a plugin's handler and back.

`bind` turns the table of methods and a plugin into plain functions from bytes to
bytes, once per connection, so that a request costs one dictionary look-up.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.methods import (
    BY_EVENT,
    BY_RPC,
    METHODS,
    PLUGIN_SERVICE,
    Kind,
    Method,
)
from nriplugin.nri.plugin import Plugin, has_resources

if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[bytes], bytes]

_log = logging.getLogger(__name__)


def bind(plugin: Plugin) -> dict[str, Handler]:
    """Return a function from request bytes to response bytes for each RPC."""
    table = {method.rpc: _bind_method(plugin, method) for method in METHODS}
    # Served even without handlers: an "unimplemented" would make a runtime fall back
    # to StateChange for all events, for good.
    table["StateChange"] = _bind_state_change(plugin)
    table["Shutdown"] = _answer_empty
    return table


def is_known(service: str, rpc: str) -> bool:
    """Whether there is such a method."""
    return service == PLUGIN_SERVICE and (rpc in BY_RPC or rpc in _UNSUBSCRIBABLE)


def is_event(rpc: str) -> bool:
    """Whether an RPC only tells something, so that it can be handled later."""
    method = BY_RPC.get(rpc)
    return rpc == "StateChange" if method is None else method.kind is not Kind.QUESTION


_UNSUBSCRIBABLE = {"Configure", "Synchronize", "Shutdown", "StateChange"}


def _answer_empty(payload: bytes) -> bytes:
    return b""


def _bind_method(plugin: Plugin, method: Method) -> Handler:
    # Any: the table pairs each handler with its own message types.
    handler: Callable[..., Any] = getattr(plugin, method.handler)
    parse: Callable[[bytes], Any] = method.request.FromString

    def question(payload: bytes) -> bytes:
        response = handler(parse(payload))
        if response is None:
            return b""
        return response.SerializeToString()  # type: ignore[no-any-return] # see above

    def question_with_updates(payload: bytes) -> bytes:
        request = parse(payload)
        response = handler(request)
        if response is None:
            return b""
        if response.update:
            creating = method.rpc == "CreateContainer"
            drop_harmful(response.update, request.container.id if creating else None)
        return response.SerializeToString()  # type: ignore[no-any-return] # see above

    def pod_event(payload: bytes) -> bytes:
        handler(parse(payload).pod)
        return b""

    def container_event(payload: bytes) -> bytes:
        request = parse(payload)
        handler(request.pod, request.container)
        return b""

    if getattr(type(plugin), method.handler) is getattr(Plugin, method.handler):
        return _answer_empty
    if method.kind is Kind.POD_EVENT:
        return pod_event
    if method.kind is Kind.CONTAINER_EVENT:
        return container_event
    if "update" in method.response.DESCRIPTOR.fields_by_name:
        return question_with_updates
    return question


def _bind_state_change(plugin: Plugin) -> Handler:
    def state_change(payload: bytes) -> bytes:
        event = nri.StateChangeEvent.FromString(payload)
        method = BY_EVENT.get(event.event)
        if method is None or method.kind is Kind.QUESTION:
            return b""
        handler = getattr(plugin, method.handler)
        if method.kind is Kind.POD_EVENT:
            handler(event.pod)
        else:
            handler(event.pod, event.container)
        return b""

    return state_change


def drop_harmful(updates: Any, creating: str | None = None) -> None:  # noqa: ANN401
    """Remove, in place, the entries that a runtime punishes.

    An entry without resources wipes kubelet's request (and crashes CRI-O when it
    comes unsolicited); one for the container being created fails its creation.
    """
    for i in range(len(updates) - 1, -1, -1):
        update: nri.ContainerUpdate = updates[i]
        if not has_resources(update):
            reason = "it carries no linux.resources, which would wipe the request"
        elif update.container_id == creating:
            reason = "the container is being created: adjust it instead"
        else:
            continue
        _log.error("dropped an update of container %r: %s", update.container_id, reason)
        del updates[i]

"""Which function of a plugin serves which RPC.

`bind` joins the table of methods with a plugin, once per connection, so that a request
costs one look-up, and a question goes straight to the plugin's own method.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.methods import BY_EVENT, BY_RPC, METHODS, PLUGIN_SERVICE, Kind
from nriplugin.nri.plugin import Plugin, handles, has_resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.nri.methods import Method

_log = logging.getLogger(__name__)

_UNSUBSCRIBABLE = {"Configure", "Synchronize", "Shutdown", "StateChange"}


class BoundMethod(NamedTuple):
    """How one RPC is served. Any: each row has message types of its own."""

    parse: Callable[[bytes], Any]
    handle: Callable[[Any], Any]  # returns a response, or None for an empty one
    may_update: bool = False  # the response can carry updates of containers


def bind(plugin: Plugin) -> dict[str, BoundMethod]:
    """Return the handlers of a plugin by RPC."""
    table = {method.rpc: _bind_method(plugin, method) for method in METHODS}
    # Served even without handlers: an "unimplemented" would make a runtime fall back
    # to StateChange for all events, for good.
    table["StateChange"] = _bind_state_change(plugin)
    table["Shutdown"] = _NOBODY
    return table


def unknown(service: str, rpc: str) -> str | None:
    """Return what there is no such thing as: the service, the method, or neither."""
    if service != PLUGIN_SERVICE:
        return f"service {service}"
    return None if rpc in BY_RPC or rpc in _UNSUBSCRIBABLE else f"method {rpc}"


def is_event(rpc: str) -> bool:
    """Whether an RPC only tells something, so that it can be handled later."""
    method = BY_RPC.get(rpc)
    return rpc == "StateChange" if method is None else method.kind is not Kind.QUESTION


# For what the plugin did not subscribe to: not even parsed.
_NOBODY = BoundMethod(parse=lambda payload: None, handle=lambda request: None)


def _bind_method(plugin: Plugin, method: Method) -> BoundMethod:
    if not handles(plugin, method):
        return _NOBODY
    handler: Callable[..., Any] = getattr(plugin, method.handler)
    handle = handler
    if method.kind is Kind.POD_EVENT:

        def handle(request: Any) -> None:  # noqa: ANN401
            handler(request.pod)

    elif method.kind is Kind.CONTAINER_EVENT:

        def handle(request: Any) -> None:  # noqa: ANN401
            handler(request.pod, request.container)

    may_update = "update" in method.response.DESCRIPTOR.fields_by_name
    request = plugin.views.get(method.handler, method.request)
    return BoundMethod(request.FromString, handle, may_update)


def _bind_state_change(plugin: Plugin) -> BoundMethod:
    def handle(change: nri.StateChangeEvent) -> None:
        method = BY_EVENT.get(change.event)
        if method is not None and method.kind is not Kind.QUESTION:
            bound[method.event].handle(change)

    bound = {method.event: _bind_method(plugin, method) for method in METHODS}
    return BoundMethod(nri.StateChangeEvent.FromString, handle)


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

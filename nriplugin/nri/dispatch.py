"""Decides which method of a plugin serves which RPC.

`bind` joins the table of `methods.py` with a plugin once per connection. A request
then costs one dictionary look-up, and a question calls the plugin's own method with
no function in between.

The module also keeps harmful entries out of answers: `drop_harmful` has to run on
every answer that carries updates of containers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.methods import BY_EVENT, BY_RPC, METHODS, PLUGIN_SERVICE, Kind
from nriplugin.nri.plugin import Plugin, handles, has_resources, observes

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.nri.methods import Method

_log = logging.getLogger(__name__)

_UNSUBSCRIBABLE = {"Configure", "Synchronize", "Shutdown", "StateChange"}


class BoundMethod(NamedTuple):
    """How one RPC is served. Any stands for the RPC's own message types."""

    parse: Callable[[bytes], Any]
    handle: Callable[[Any], Any]  # returns a response, or None for an empty one
    may_update: bool = False  # the response can carry updates of containers


def bind(plugin: Plugin) -> dict[str, BoundMethod]:
    """Return how each RPC is served, by the RPC's name.

    Every RPC of the table is in it, also those that the plugin has no handler for: the
    answer "unimplemented" to one event makes a runtime send all events of the
    connection as StateChange from then on.
    """
    table = {method.rpc: _bind_method(plugin, method) for method in METHODS}
    table["StateChange"] = _bind_state_change(plugin)
    table["Shutdown"] = _EMPTY_ANSWER
    return table


def unknown(service: str, rpc: str) -> str | None:
    """Name the service or the method that no plugin has; None if both are known.

    The words are those of Go's ttRPC server, which puts them into the error status.
    """
    if service != PLUGIN_SERVICE:
        return f"service {service}"
    return None if rpc in BY_RPC or rpc in _UNSUBSCRIBABLE else f"method {rpc}"


def is_event(rpc: str) -> bool:
    """Whether an RPC reports an event: its answer is empty, so handling can wait."""
    method = BY_RPC.get(rpc)
    return rpc == "StateChange" if method is None else method.kind is not Kind.QUESTION


# Serves an RPC that the plugin has no handler for, without parsing the request.
_EMPTY_ANSWER = BoundMethod(parse=lambda payload: None, handle=lambda request: None)


def _bind_method(plugin: Plugin, method: Method) -> BoundMethod:
    if observes(plugin, method):
        return _bind_observer(plugin, method)
    if not handles(plugin, method):
        return _EMPTY_ANSWER
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


def _bind_observer(plugin: Plugin, method: Method) -> BoundMethod:
    """Serve an RPC by `other_event`, and answer a question with an empty answer."""
    name, observe = method.handler, plugin.other_event
    request = plugin.views.get(name, method.request)
    of_container = "container" in request.DESCRIPTOR.fields_by_name

    def handle(request: Any) -> None:  # noqa: ANN401
        observe(name, request.pod, request.container if of_container else None)

    return BoundMethod(request.FromString, handle)


def _bind_state_change(plugin: Plugin) -> BoundMethod:
    def handle(change: nri.StateChangeEvent) -> None:
        method = BY_EVENT.get(change.event)
        if method is not None and method.kind is not Kind.QUESTION:
            bound[method.event].handle(change)

    bound = {method.event: _bind_method(plugin, method) for method in METHODS}
    return BoundMethod(nri.StateChangeEvent.FromString, handle)


def harm_of(update: nri.ContainerUpdate, creating: str | None = None) -> str:
    """Return which harm an update in an answer would do in the runtime; "" for none.

    An update without `linux.resources` makes the runtime replace kubelet's request by
    nothing, and crashes CRI-O in an unsolicited call. An update of the container that
    is being created (`creating`) makes the runtime fail the creation.
    """
    if not has_resources(update):
        return "it carries no linux.resources, which would wipe the request"
    if update.container_id == creating:
        return "the container is being created: adjust it instead"
    return ""


def drop_harmful(updates: Any, creating: Any = None) -> None:  # noqa: ANN401
    """Remove, in place, the updates that would do harm in the runtime.

    `creating` is the request if a container is being created. A view of the request may
    have no container.
    """
    own_id = creating.container.id if hasattr(creating, "container") else None
    for i in range(len(updates) - 1, -1, -1):
        update: nri.ContainerUpdate = updates[i]
        harm = harm_of(update, own_id)
        if harm:
            line = "dropped an update of container %r: %s"
            _log.error(line, update.container_id, harm)
            del updates[i]

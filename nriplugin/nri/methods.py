"""The one table of the RPCs that a plugin can subscribe to.

Dispatch, the event mask, the gRPC service and the embedded runtime all read it; no
other module lists RPCs. To support a new one, add its messages to
proto/nriplugin/api/nri.proto, a row to `METHODS`, and a method of the row's `handler`
name to `Plugin`.

Configure, Synchronize, StateChange and Shutdown are not in the table: a plugin gets
them without a subscription.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.api import nri_pb2 as nri

if TYPE_CHECKING:
    from google.protobuf.message import Message

RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"
PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"

# Ids of the logical connections: the plugin serves the first, the runtime the second.
PLUGIN_CONNECTION = 1
RUNTIME_CONNECTION = 2


class Kind(Enum):
    """How the plugin's method is called; the value says it in words."""

    QUESTION = "takes the request, returns a response or None for an empty one"
    POD_EVENT = "takes the pod, returns nothing"
    CONTAINER_EVENT = "takes pod and container, returns nothing"


class Method(NamedTuple):
    """A row of the table: one RPC of the Plugin service that has an event bit."""

    rpc: str
    handler: str  # the name of the method of `Plugin`: the RPC in snake case
    kind: Kind
    event: int  # a value of the enum nri.Event
    since: tuple[int, int]  # the first NRI release with the event
    request: type[Message]
    response: type[Message]
    # Whether `Plugin.other_event` may see it.
    observable: bool

    @property
    def mask(self) -> int:
        """Return the event's bit in a subscription mask."""
        return 1 << (self.event - 1)


def _method(
    rpc: str,
    kind: Kind,
    since: tuple[int, int] = (0, 2),
    *,
    observable: bool = True,
) -> Method:
    handler = re.sub(r"(?<=.)([A-Z])", r"_\1", rpc).lower()
    return Method(
        rpc=rpc,
        handler=handler,
        kind=kind,
        event=nri.Event.Value(handler.upper()),
        since=since,
        request=getattr(nri, f"{rpc}Request"),
        response=getattr(nri, f"{rpc}Response"),
        observable=observable,
    )


METHODS = (
    _method("RunPodSandbox", Kind.POD_EVENT),
    _method("UpdatePodSandbox", Kind.QUESTION, since=(0, 10)),
    _method("PostUpdatePodSandbox", Kind.POD_EVENT, since=(0, 10)),
    _method("StopPodSandbox", Kind.POD_EVENT),
    _method("RemovePodSandbox", Kind.POD_EVENT),
    _method("CreateContainer", Kind.QUESTION),
    # Not for observers: a runtime fails the creation of a container if a plugin that is
    # subscribed to this does not answer.
    _method(
        "ValidateContainerAdjustment",
        Kind.QUESTION,
        since=(0, 10),
        observable=False,
    ),
    _method("PostCreateContainer", Kind.CONTAINER_EVENT),
    _method("StartContainer", Kind.CONTAINER_EVENT),
    _method("PostStartContainer", Kind.CONTAINER_EVENT),
    _method("UpdateContainer", Kind.QUESTION),
    _method("PostUpdateContainer", Kind.CONTAINER_EVENT),
    _method("StopContainer", Kind.QUESTION),
    _method("RemoveContainer", Kind.CONTAINER_EVENT),
)

BY_RPC = {method.rpc: method for method in METHODS}
BY_EVENT = {method.event: method for method in METHODS}

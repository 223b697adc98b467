"""The one table of what a runtime may ask of a plugin.

Dispatch, the event mask, the embedded runtime and the SDK's documentation all follow
from it. To support a new method, add its messages to proto/, a row here and a
handler of that name to `Plugin`.
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

# Mux connection ids: each service is called on its own.
PLUGIN_CONNECTION = 1
RUNTIME_CONNECTION = 2


class Kind(Enum):
    """How a handler is called."""

    QUESTION = "takes the request, returns a response or None for an empty one"
    POD_EVENT = "takes the pod, returns nothing"
    CONTAINER_EVENT = "takes pod and container, returns nothing"


class Method(NamedTuple):
    """A row: a subscribable method of the Plugin service."""

    rpc: str
    handler: str  # the RPC in snake case
    kind: Kind
    event: int  # nri.Event
    since: tuple[int, int]  # NRI release in which the event appeared
    request: type[Message]
    response: type[Message]

    @property
    def mask(self) -> int:
        """Return the event's bit in a subscription mask."""
        return 1 << (self.event - 1)


def _method(rpc: str, kind: Kind, since: tuple[int, int] = (0, 2)) -> Method:
    handler = re.sub(r"(?<=.)([A-Z])", r"_\1", rpc).lower()
    return Method(
        rpc=rpc,
        handler=handler,
        kind=kind,
        event=nri.Event.Value(handler.upper()),
        since=since,
        request=getattr(nri, f"{rpc}Request"),
        response=getattr(nri, f"{rpc}Response"),
    )


METHODS = (
    _method("RunPodSandbox", Kind.POD_EVENT),
    _method("UpdatePodSandbox", Kind.QUESTION, since=(0, 10)),
    _method("PostUpdatePodSandbox", Kind.POD_EVENT, since=(0, 10)),
    _method("StopPodSandbox", Kind.POD_EVENT),
    _method("RemovePodSandbox", Kind.POD_EVENT),
    _method("CreateContainer", Kind.QUESTION),
    _method("ValidateContainerAdjustment", Kind.QUESTION, since=(0, 10)),
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

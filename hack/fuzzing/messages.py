"""The plugin's answers: any payload of any request is answered or undecodable.

The first byte of an input chooses the request. Its highest bit asks for a valid one,
made from the rest: four numbers and the `unified` keys that are taken already.
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import Any

from nriplugin.api import nri_pb2 as nri
from nriplugin.daemon.background import BackgroundThread
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.doors.nri.responses import adjustment
from nriplugin.errors import NRIPluginError, RequestFails
from nriplugin.nri.dispatch import bind, drop_harmful
from nriplugin.state.lifecycle import Lifecycle
from nriplugin.wire.ttrpc import UNDECODABLE

logging.disable()

# Only those that are parsed: the plugin handles them.
_PLUGIN = NodePlugin(Lifecycle(BackgroundThread(), render=adjustment))
_HANDLERS = [
    (rpc, handler)
    for rpc, handler in sorted(bind(_PLUGIN).items())
    if handler.parse(b"") is not None
]
_NUMBER = {rpc: number for number, (rpc, _) in enumerate(_HANDLERS)}

_NUMBERS = Struct(">QqQq")
_KEYS = ("cpu.weight", "cpu.max", "memory.max", "memory.high")

_RESOURCES = nri.LinuxResources(
    cpu=nri.LinuxCPU(
        shares=nri.OptionalUInt64(value=1024),
        quota=nri.OptionalInt64(value=-1),
        period=nri.OptionalUInt64(value=100_000),
    ),
    memory=nri.LinuxMemory(limit=nri.OptionalInt64(value=1 << 30)),
    unified={"memory.high": "max"},
)
_CONTAINER = nri.Container(
    id="c1",
    pod_sandbox_id="p1",
    name="app",
    labels={"a": "b"},
    linux=nri.LinuxContainer(resources=_RESOURCES),
)
_POD = nri.PodSandbox(id="p1", name="pod", namespace="default")
_CREATE = nri.CreateContainerRequest(pod=_POD, container=_CONTAINER)
_UPDATE = nri.UpdateContainerRequest(
    pod=_POD, container=_CONTAINER, linux_resources=_RESOURCES
)
_CHANGE = nri.StateChangeEvent(
    event=nri.Event.START_CONTAINER, pod=_POD, container=_CONTAINER
)

SEEDS = [
    bytes([_NUMBER[rpc]]) + message.SerializeToString()
    for rpc, message in (
        ("CreateContainer", _CREATE),
        ("UpdateContainer", _UPDATE),
        ("StateChange", _CHANGE),
    )
]
SEEDS += [
    bytes([128 | _NUMBER[rpc]]) + _NUMBERS.pack(1024, 50_000, 100_000, 1 << 30) + keys
    for rpc in ("CreateContainer", "UpdateContainer")
    for keys in (b"", b"\xff")
]


def _valid(data: bytes) -> bytes:
    """Return a request to create or to update, whatever the bytes."""
    shares, quota, period, limit = _NUMBERS.unpack(data[:32].ljust(32, b"\x00"))
    taken = sum(data[32:33])
    resources = nri.LinuxResources(
        cpu=nri.LinuxCPU(
            shares=nri.OptionalUInt64(value=shares),
            quota=nri.OptionalInt64(value=quota),
            period=nri.OptionalUInt64(value=period),
        ),
        memory=nri.LinuxMemory(limit=nri.OptionalInt64(value=limit)),
        unified={key: "x" for bit, key in enumerate(_KEYS) if taken >> bit & 1},
    )
    container = nri.Container(id="c1", linux=nri.LinuxContainer(resources=resources))
    update = nri.UpdateContainerRequest(container=container, linux_resources=resources)
    # To a CreateContainer the last field is an unknown one, which it ignores.
    return update.SerializeToString()


def _fallback(rpc: str, request: Any) -> nri.UpdateContainerResponse | None:  # noqa: ANN401
    """Answer as the session does after an error of our own."""
    if rpc != "UpdateContainer":
        return None
    try:
        return _PLUGIN.fallback_update(request)
    except RequestFails:
        return None


def check(data: bytes) -> None:
    """Serve one request as a session does."""
    if not data:
        return
    rpc, (parse, handle, may_update) = _HANDLERS[data[0] % 128 % len(_HANDLERS)]
    try:
        request = parse(_valid(data[1:]) if data[0] > 127 else data[1:])
    except UNDECODABLE:
        return
    before = request.SerializeToString(deterministic=True)
    try:
        response = handle(request)
    except RequestFails:  # the runtime is told so, and kubelet tries again
        response = None
    except UNDECODABLE:  # the pod, which a handler decodes if it needs it
        response = None
    except NRIPluginError:  # such as a number without a meaning
        response = _fallback(rpc, request)
    assert request.SerializeToString(deterministic=True) == before
    if response is None:
        return
    if may_update:
        count = len(response.update)
        drop_harmful(response.update)
        assert len(response.update) == count, "an answer that wipes the request"
    assert type(response).FromString(response.SerializeToString()) == response
    if rpc == "CreateContainer":
        theirs = request.container.linux.resources.unified
        ours = response.adjust.linux.resources.unified
        assert not theirs.keys() & ours.keys(), "an explicit value is overwritten"
    elif rpc == "UpdateContainer":
        theirs = request.linux_resources.unified
        for update in response.update:
            ours = update.linux.resources.unified
            # Also an equal value: the answer would claim the file for nriplugin.
            assert not theirs.keys() & ours.keys(), "an explicit value is repeated"

"""The memory requests in kubelet's checkpoint of what it has allocated to containers.

kubelet (1.33 and later) writes the file `allocated_pods_state` before it asks the
runtime for a pod's containers, and again at every resize. It is JSON with a JSON text
in the field `data`, and has one entry per pod, by the pod's UID:

    {"entries": {UID: {"ContainerResources": {NAME: {"requests": {"memory": "64Mi"}}}}}}

Up to 1.32, where the file had another name, the field was `allocationEntries` and a
pod's entry had its containers without a level between. Both are read. Init containers
that end before the others start are in the file since 1.36.

The file's checksum is not compared. kubelet replaces the file as a whole, so a reader
never sees half of it, and the checksum is over a printed form of Go's that would take
longer to compute here than everything else.

Pure: bytes in, requests out.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from nriplugin.errors import ConfigError
from nriplugin.kube.quantity import MAX_INT64, value

# Pod UID -> container -> bytes. A container that requests no memory has 0.
MemoryRequests: TypeAlias = dict[str, dict[str, int]]

# A pod with two containers takes about 700 bytes, so this is for far more pods than a
# node can have. It bounds how long the parser can hold the interpreter lock.
MAX_BYTES = 8 << 20

_CONTAINERS = "ContainerResources"

_SHIFTS = {"Ki": 10, "Mi": 20, "Gi": 30}


class _CheckpointFile(msgspec.Struct):
    data: str


class _PodEntries(msgspec.Struct):
    entries: dict[str, dict[str, msgspec.Raw]] | None = None
    # The name up to Kubernetes 1.32.
    earlier: dict[str, dict[str, msgspec.Raw]] | None = msgspec.field(
        default=None, name="allocationEntries"
    )


class _RequestedAmounts(msgspec.Struct):
    memory: str | None = None


class _AllocatedResources(msgspec.Struct):
    requests: _RequestedAmounts | None = None


_file = msgspec.json.Decoder(_CheckpointFile)
_entries = msgspec.json.Decoder(_PodEntries)
_containers = msgspec.json.Decoder(dict[str, _AllocatedResources] | None)
_container = msgspec.json.Decoder(_AllocatedResources)


def parse_allocations(text: bytes) -> MemoryRequests:
    """Return the memory requests of all containers in a checkpoint.

    Raises:
        ConfigError: the text is too long, or has another shape than kubelet's.
    """
    if len(text) > MAX_BYTES:
        raise ConfigError(f"more than {MAX_BYTES} bytes, expected kubelet's checkpoint")
    try:
        found = _entries.decode(_file.decode(text).data)
        pods = found.earlier if found.entries is None else found.entries
        amounts: dict[str, int] = {}  # pods share a few
        return {uid: _requests(pod, amounts) for uid, pod in (pods or {}).items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise ConfigError(f"{exc!s:.200}, expected kubelet's checkpoint") from exc


def _requests(pod: dict[str, Any], amounts: dict[str, int]) -> dict[str, int]:
    """Return the requests of one pod's containers."""
    below = pod.get(_CONTAINERS)
    if below is not None:
        containers = _containers.decode(below) or {}
    else:
        # The name of a container is in lower case, that of any other field is not.
        containers = {
            name: _container.decode(one)
            for name, one in pod.items()
            if not name[:1].isupper()
        }
    found = {}
    for name, resources in containers.items():
        requests = resources.requests
        memory = None if requests is None else requests.memory
        found[name] = 0 if memory is None else _amount(memory, name, amounts)
    return found


def _amount(memory: str, container: str, amounts: dict[str, int]) -> int:
    amount = amounts.get(memory)
    if amount is None:
        # As kubelet writes nearly all requests: much faster than a fraction.
        digits, shift = memory[:-2], _SHIFTS.get(memory[-2:])
        if shift and digits.isascii() and digits.isdecimal() and len(digits) < 10:
            amount = int(digits) << shift
        else:
            amount = value(memory, f"{container:.80}: requests.memory")
        amounts[memory] = amount = min(amount, MAX_INT64)
    return amount

"""From the API server's JSON to PodGroups; one bad object does not spoil the others."""

from __future__ import annotations

from typing import Any

import msgspec

from nriplugin.daemon.podgroups.failures import FailureReason, ReadFailed
from nriplugin.errors import ConfigError
from nriplugin.kube.podgroup_object import GroupObject, read_group

# A PodGroup has a few hundred bytes that count here.
MAX_OBJECT = 32 << 10

_EMPTY = msgspec.Raw(b"null")


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _ApiObject(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: msgspec.Raw = _EMPTY
    status: msgspec.Raw = _EMPTY


class _ListMeta(msgspec.Struct, frozen=True, rename={"after": "continue"}):
    after: str = ""
    resourceVersion: str = ""  # noqa: N815 - as it is written


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class GroupPage(msgspec.Struct, frozen=True):
    """A page of the list."""

    items: list[msgspec.Raw]
    after: str  # where the next page begins; empty for the last one
    version: str


class GroupChange(msgspec.Struct, frozen=True):
    """A change: an object that is there now, or one that is gone."""

    version: str
    group: GroupObject | None = None
    gone: str = ""  # the ID of its job


def read_page(body: bytes) -> GroupPage:
    """Return a page of the list.

    Raises:
        ReadFailed: it is none.
    """
    page = _decoded(body, _Page)
    meta = page.metadata
    return GroupPage(page.items or [], meta.after, meta.resourceVersion)


def read_object(raw: bytes | msgspec.Raw) -> GroupObject:
    """Return one PodGroup.

    Raises:
        ReadFailed: it is malformed or too large.
    """
    return _group_of(_decoded(raw, _ApiObject))


def read_change(line: bytes) -> GroupChange:
    """Return a change of a watch; a bookmark has neither object.

    Raises:
        ReadFailed: the line is malformed, or the server's report of an error.
    """
    event = _decoded(line, _Event)
    if event.type == "ERROR":
        status = _decoded(event.object, _Status)
        reason = FailureReason.GONE if status.code == 410 else FailureReason.ERROR
        raise ReadFailed(reason, f"status {status.code}: {status.message:.100}")
    found = _decoded(event.object, _ApiObject)
    version = found.metadata.resource_version
    if event.type == "DELETED":
        gone = f"{found.metadata.namespace}/{found.metadata.name}"
        return GroupChange(version, gone=gone)
    if event.type in ("ADDED", "MODIFIED"):
        return GroupChange(version, _group_of(found))
    return GroupChange(version)


def _group_of(found: _ApiObject) -> GroupObject:
    name = f"PodGroup {found.metadata.namespace}/{found.metadata.name}"
    if not found.metadata.name:
        raise ReadFailed(FailureReason.MALFORMED, "a PodGroup without a name")
    if len(bytes(found.spec)) + len(bytes(found.status)) > MAX_OBJECT:
        raise ReadFailed(
            FailureReason.TOO_LARGE, f"{name:.200}: over {MAX_OBJECT} bytes"
        )
    content = {
        "metadata": {"namespace": found.metadata.namespace},
        "spec": _decoded(found.spec, Any),
        "status": _decoded(found.status, Any),
    }
    try:
        return read_group(content, found.metadata.name, name)
    except ConfigError as exc:
        raise ReadFailed(FailureReason.MALFORMED, str(exc)[:300]) from exc


def _decoded(raw: bytes | msgspec.Raw, kind: Any) -> Any:  # noqa: ANN401 - by kind
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise ReadFailed(FailureReason.MALFORMED, f"{exc}"[:200]) from exc

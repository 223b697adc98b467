"""Reads what the runtime hands to a hook: the state, and the bundle that it names.

The state is a JSON object on standard input; the bundle is a directory with the
container's config.json, its "spec". Neither can be trusted to be well-formed, and a
hook must not crash because of them: every read has a size limit, and every value is
checked for its type before it is used.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from nriplugin.errors import NRIPluginError

# The state repeats the annotations of the pod, of which Kubernetes allows 256 KiB.
MAX_STATE_BYTES = 4 << 20
# The config.json of a real container has about 50 KiB.
MAX_SPEC_BYTES = 16 << 20

_CHUNK_BYTES = 1 << 16


class HookError(NRIPluginError):
    """The state, the bundle or the cgroup cannot be used; the text says why."""


class ContainerState(NamedTuple):
    """The state of a container that is being created."""

    id: str
    bundle: str
    pid: int | None = None


def read_state(fd: int) -> ContainerState:
    """Read the state from a file descriptor, up to the end of the file.

    Raises:
        HookError: the state is too long, not JSON, or has no ID or no bundle.
    """
    try:
        content = _read_all(fd, MAX_STATE_BYTES)
    except OSError as exc:
        raise HookError(f"state: {exc.strerror}") from exc
    state = _parse(content, "state")
    container_id, bundle, pid = state.get("id"), state.get("bundle"), state.get("pid")
    if not isinstance(container_id, str) or not container_id:
        raise HookError(f"state: id: {container_id!r:.60}, expected a name")
    if not isinstance(bundle, str) or not bundle.startswith("/") or "\0" in bundle:
        raise HookError(f"state: bundle: {bundle!r:.60}, expected an absolute path")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        pid = None
    return ContainerState(container_id, bundle, pid)


def read_spec(bundle: str) -> dict[str, Any]:
    """Read the config.json of a bundle.

    Raises:
        HookError: the file is missing, too long, or not a JSON object.
    """
    path = f"{bundle}/config.json"
    try:
        with open(path, "rb", buffering=0) as file:
            content = _read_all(file.fileno(), MAX_SPEC_BYTES)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise HookError(f"{path!r:.200}: {reason}") from exc
    return _parse(content, path)


def object_in(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return the JSON object at a path of keys; an empty one if there is none."""
    for key in keys:
        document = document.get(key) or {}
        if not isinstance(document, dict):
            return {}
    return document


def string_entries(value: object) -> dict[str, str]:
    """Return the entries of a JSON object whose values are strings.

    The object may also be given as JSON text, as CRI-O keeps some in annotations.
    Anything else has no entries.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}


def _read_all(fd: int, limit: int) -> bytes:
    content = b""
    while chunk := os.read(fd, _CHUNK_BYTES):
        content += chunk
        if len(content) > limit:
            raise HookError(f"more than {limit} bytes, expected less")
    return content


def _parse(content: bytes, source: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except RecursionError:
        raise HookError(f"{source!s:.200}: nested too deeply") from None
    except ValueError as exc:
        raise HookError(f"{source!s:.200}: not JSON: {exc!s:.100}") from exc
    if not isinstance(document, dict):
        raise HookError(f"{source!s:.200}: expected a JSON object")
    return document

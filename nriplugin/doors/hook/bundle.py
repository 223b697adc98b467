"""What the runtime hands over: the state on standard input, and the bundle it names.

A hook must not be brought down by what it reads, so everything is limited in size and
checked for its type.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from nriplugin.errors import NRIPluginError

# A state repeats the annotations, of which Kubernetes allows 256 KiB.
MAX_STATE_BYTES = 4 << 20
# Real ones have some 50 KiB.
MAX_SPEC_BYTES = 16 << 20

_CHUNK_BYTES = 1 << 16


class HookError(NRIPluginError):
    """What the runtime gave cannot be used: one line, and why."""


class State(NamedTuple):
    """The state of a container that is being created."""

    id: str
    bundle: str
    pid: int | None = None


def read_state(fd: int) -> State:
    """Read the state from a descriptor, up to its end.

    Raises:
        HookError: too long, not JSON, or without an ID and a bundle.
    """
    try:
        content = _read_all(fd, MAX_STATE_BYTES)
    except OSError as exc:
        raise HookError(f"state: {exc.strerror}") from exc
    state = _parse(content, "state")
    identity, bundle, pid = state.get("id"), state.get("bundle"), state.get("pid")
    if not isinstance(identity, str) or not identity:
        raise HookError(f"state: id: {identity!r:.60}, expected a name")
    if not isinstance(bundle, str) or not bundle.startswith("/") or "\0" in bundle:
        raise HookError(f"state: bundle: {bundle!r:.60}, expected an absolute path")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        pid = None
    return State(identity, bundle, pid)


def read_spec(bundle: str) -> dict[str, Any]:
    """Read the `config.json` of a bundle.

    Raises:
        HookError: not there, too long, or not a JSON object.
    """
    path = f"{bundle}/config.json"
    try:
        with open(path, "rb", buffering=0) as file:
            content = _read_all(file.fileno(), MAX_SPEC_BYTES)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise HookError(f"{path!r:.200}: {reason}") from exc
    return _parse(content, path)


def mapping(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return an object inside a document; an empty one where there is none."""
    for key in keys:
        document = document.get(key) or {}
        if not isinstance(document, dict):
            return {}
    return document


def texts(text: object) -> dict[str, str]:
    """Return what is text in a JSON object, or in the text of one."""
    if isinstance(text, str):
        try:
            text = json.loads(text)
        except (ValueError, RecursionError):
            return {}
    if not isinstance(text, dict):
        return {}
    return {key: value for key, value in text.items() if isinstance(value, str)}


def _read_all(fd: int, limit: int) -> bytes:
    content = b""
    while chunk := os.read(fd, _CHUNK_BYTES):
        content += chunk
        if len(content) > limit:
            raise HookError(f"more than {limit} bytes, expected less")
    return content


def _parse(content: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except RecursionError:
        raise HookError(f"{what!s:.200}: nested too deeply") from None
    except ValueError as exc:
        raise HookError(f"{what!s:.200}: not JSON: {exc!s:.100}") from exc
    if not isinstance(document, dict):
        raise HookError(f"{what!s:.200}: expected a JSON object")
    return document

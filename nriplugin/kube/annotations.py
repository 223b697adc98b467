"""Annotations of ours, `<key>.cgroup2.nri.io[/container.<name>]`, out of a pod's.

Anybody who may create a pod writes them, so a value is text from a stranger: whatever
is too long, not printable ASCII, or spelt as none of ours is handed back as refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

SUFFIX = ".cgroup2.nri.io"
OF_CONTAINER = "/container."

# No value that any file or setting takes is longer; the API server allows 256 KiB.
MAX_VALUE = 256
# A pod has a use for a few; more than this is somebody trying something.
MAX_COUNT = 64


class Annotation(NamedTuple):
    """A value, and the key under which it stands."""

    value: str
    key: str


class Annotations(NamedTuple):
    """What counts for one container, by key, and (key, reason) of what does not."""

    found: Mapping[str, Annotation]
    refused: list[tuple[str, str]]


NONE = Annotations({}, [])


def read_annotations(given: Mapping[str, str], container: str) -> Annotations:
    """Return what counts for a container: its own annotations, else the pod's.

    Only iterates and calls `get`, so a protobuf map will do.
    """
    of_pod: dict[str, Annotation] = {}
    of_container: dict[str, Annotation] = {}
    refused: list[tuple[str, str]] = []
    seen = 0
    for key in given:
        end = key.find(SUFFIX)
        if end < 0:
            continue
        seen += 1
        if seen > MAX_COUNT:
            refused.append((key, f"more than {MAX_COUNT} of them"))
            break
        rest = key[end + len(SUFFIX) :]
        if rest:
            if not rest.startswith(OF_CONTAINER):
                refused.append((key, "expected /container.NAME or nothing at the end"))
                continue
            if rest[len(OF_CONTAINER) :] != container:
                continue
        value = given.get(key, "")
        reason = strange(value)
        if reason:
            refused.append((key, reason))
        elif rest:
            of_container[key[:end]] = Annotation(value, key)
        else:
            of_pod[key[:end]] = Annotation(value, key)
    return Annotations({**of_pod, **of_container}, refused)


def strange(value: str) -> str:
    """Return why a value cannot be meant seriously; nothing if it can."""
    if len(value) > MAX_VALUE:
        return f"{len(value)} characters, expected at most {MAX_VALUE}"
    if not (value.isascii() and value.isprintable()):
        return f"{value!r:.60}, expected printable ASCII in one line"
    return ""

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


def ours(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return all that a decision can depend on: the first by key, and one too many.

    A map has no order, but pods that are alike are to be treated alike. Only iterates
    and calls `get`, so a protobuf map will do.
    """
    keys = sorted([key for key in given if SUFFIX in key])
    return [(key, given.get(key, "")) for key in keys[: MAX_COUNT + 1]]


def read_annotations(given: Mapping[str, str], container: str) -> Annotations:
    """Return what counts for a container: its own annotations, else the pod's."""
    found: dict[str, Annotation] = {}
    refused: list[tuple[str, str]] = []
    annotations = ours(given)
    if len(annotations) > MAX_COUNT:
        key, _ = annotations.pop()
        refused.append((key, f"more than {MAX_COUNT} of them"))
    own = OF_CONTAINER + container
    for key, value in annotations:  # by key: a container's own comes after the pod's
        name, _, rest = key.partition(SUFFIX)
        if rest and rest != own:
            if not rest.startswith(OF_CONTAINER):
                refused.append((key, "expected /container.NAME or nothing at the end"))
            continue
        reason = strange(value)
        if reason:
            refused.append((key, reason))
        else:
            found[name] = Annotation(value, key)
    return Annotations(found, refused)


def strange(value: str) -> str:
    """Return why a value cannot be meant seriously; nothing if it can."""
    if len(value) > MAX_VALUE:
        return f"{len(value)} characters, expected at most {MAX_VALUE}"
    if not (value.isascii() and value.isprintable()):
        return f"{value!r:.60}, expected printable ASCII in one line"
    return ""

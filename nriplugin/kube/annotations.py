"""nriplugin's annotations, `<key>.cgroup2.nri.io[/container.<name>]`, of a pod.

Every user who may create a pod can write them, so their text is not trusted: a value
that is too long or not printable ASCII, and a key that is spelt wrongly, are returned
as refused, with the reason. A container's own annotation wins over the pod's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

SUFFIX = ".cgroup2.nri.io"
OF_CONTAINER = "/container."

# No value that a file or a setting takes is longer; the API server allows 256 KiB.
MAX_VALUE = 256
# A pod needs a few; the bound limits the work that a hostile pod can cause.
MAX_COUNT = 64


class Annotation(NamedTuple):
    """A value, and the whole key that it was found under."""

    value: str
    key: str


class Annotations(NamedTuple):
    """The annotations of one container by key, and (key, reason) of refused ones."""

    found: Mapping[str, Annotation]
    refused: list[tuple[str, str]]


NONE = Annotations({}, [])


def ours(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return nriplugin's annotations, sorted by key: `MAX_COUNT` of them, and one more.

    Sorted, because a map has no order and equal pods must get equal decisions. The one
    more lets the caller see that there are too many. A protobuf map may be given: it is
    only iterated and asked by `get`.
    """
    keys = sorted([key for key in given if SUFFIX in key])
    return [(key, given.get(key, "")) for key in keys[: MAX_COUNT + 1]]


def read_annotations(given: Mapping[str, str], container: str) -> Annotations:
    """Return the annotations for a container: its own, else the pod's."""
    found: dict[str, Annotation] = {}
    refused: list[tuple[str, str]] = []
    annotations = ours(given)
    if len(annotations) > MAX_COUNT:
        key, _ = annotations.pop()
        refused.append((key, f"more than {MAX_COUNT} of them"))
    own = OF_CONTAINER + container
    # In the order of keys a container's own annotation comes after the pod's, which it
    # replaces.
    for key, value in annotations:
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
    """Return why a value is refused unread; empty if it is not."""
    if len(value) > MAX_VALUE:
        return f"{len(value)} characters, expected at most {MAX_VALUE}"
    if not (value.isascii() and value.isprintable()):
        return f"{value!r:.60}, expected printable ASCII in one line"
    return ""

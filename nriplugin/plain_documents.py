"""A fast way from YAML to values, for texts without anything that is rare.

It builds values from the parser's events, in one pass and without PyYAML's tree of
nodes: for what `kubectl get -o yaml` prints this takes a quarter of the time. It gives
up on anchors, aliases, tags, merges, keys that are no scalars, keys that a mapping has
twice, and mistakes; `documents` then reads the text by the usual way, which also says
what is wrong.
"""

from __future__ import annotations

from typing import Any

import yaml

# Both are safe loaders; not every build of PyYAML has the faster one, written in C.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# PyYAML does not catch what its own constructors of dates and numbers raise.
ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)

# PyYAML's composer in C calls itself for every level and has no limit of its own: some
# ten thousand levels end the process. Manifests have about ten.
MAX_DEPTH = 100

_NO_KEY = object()


class _NotPlainError(Exception):
    """The text has something that is not read here."""


def plain_documents(content: str | bytes) -> list[Any] | None:
    """Return all documents of a text; None if it has anything that is rare."""
    try:
        return _build(content)
    except (_NotPlainError, *ERRORS):
        return None


def _build(content: str | bytes) -> list[Any]:
    documents: list[Any] = []
    # The open collection, and the key in it whose value comes next; those around it.
    inner: Any = documents
    key: Any = _NO_KEY
    outer: list[tuple[Any, Any]] = []
    scalars = _Scalars()
    for event in yaml.parse(content, Loader=LOADER):
        kind = type(event)
        value: Any
        if kind is yaml.ScalarEvent:
            _refuse_marks(event)
            value = event.value
            if event.implicit[0]:  # it has no quotes, so it may be no text
                value = scalars.values.get(value, _NO_KEY)
                if value is _NO_KEY:
                    value = scalars.add(event.value)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            value = inner
            inner, key = outer.pop()
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            _refuse_marks(event)
            if (type(inner) is dict and key is _NO_KEY) or len(outer) >= MAX_DEPTH:
                raise _NotPlainError
            outer.append((inner, key))
            inner, key = ({} if kind is yaml.MappingStartEvent else []), _NO_KEY
            continue
        elif kind is yaml.AliasEvent:
            raise _NotPlainError
        else:
            continue  # the beginning or the end of the text or of a document
        if type(inner) is list:
            inner.append(value)
        elif key is not _NO_KEY:
            inner[key] = value
            key = _NO_KEY
        elif value in inner:
            raise _NotPlainError
        else:
            key = value
    return documents


def _refuse_marks(event: Any) -> None:  # noqa: ANN401 - PyYAML has no types
    if event.anchor is not None or event.tag is not None:
        raise _NotPlainError


class _Scalars:
    """The values of scalars without quotes, each of which is worked out once."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._loader = LOADER("")

    def add(self, text: str) -> Any:  # noqa: ANN401 - any scalar
        """Return the value of a text that is not known yet.

        The loader raises an error for a merge (`<<`), which is no value.
        """
        tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))
        node = yaml.ScalarNode(tag, text)
        self.values[text] = self._loader.construct_object(node)
        return self.values[text]

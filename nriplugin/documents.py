"""YAML text to dictionaries, lists and scalars, for configuration and manifests.

A key that occurs twice in a mapping is an error here, although YAML readers silently
take the last one. Import this module only when there is a text to read: a node without
a configuration must not spend time and memory on PyYAML.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import yaml

from nriplugin.errors import ConfigError

# Both are safe loaders; not every build of PyYAML has the faster one, written in C.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# PyYAML does not catch what its own constructors of dates and numbers raise.
_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)

# PyYAML's composer in C calls itself for every level and has no limit of its own: some
# ten thousand levels end the process. Manifests have about ten.
MAX_DEPTH = 100
# How many values a text may have beyond those it spells out, because of aliases: a few
# hundred bytes of them can stand for billions of values.
MAX_ALIASED = 100_000

# The line of a key, by the keys that lead to it: two levels of mappings.
KeyLines: TypeAlias = dict[tuple[str, ...], int]


def load_documents(content: str | bytes, source: str) -> list[Any]:
    """Return all documents of a text.

    Raises:
        ConfigError: the text is not YAML, a mapping has a key twice, or the text is
            nested too deeply; the message is one line with the place.
    """
    return [document for document, _ in load_documents_and_lines(content, source)]


def load_documents_and_lines(
    content: str | bytes, source: str
) -> list[tuple[Any, KeyLines]]:
    """Return all documents of a text, each with the lines of its keys.

    Raises:
        ConfigError: as `load_documents` does.
    """
    documents = []
    try:
        _refuse_bombs(content, source)
        loader = _LOADER(content)
        while loader.check_node():
            node = loader.get_node()
            _refuse_duplicates(node, source)
            lines = _key_lines(node)
            documents.append((loader.construct_document(node), lines))
    except _ERRORS as exc:
        raise ConfigError(f"{source}: not YAML: {' '.join(str(exc).split())}") from exc
    return documents


def _key_lines(document: yaml.Node) -> KeyLines:
    """Return the lines of the keys of a mapping and of the mappings in it."""
    lines: KeyLines = {}
    for key, value in _pairs(document):
        lines[(key.value,)] = key.start_mark.line + 1
        for inner, _ in _pairs(value):
            lines[(key.value, inner.value)] = inner.start_mark.line + 1
    return lines


def _pairs(node: yaml.Node) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    return [pair for pair in node.value if isinstance(pair[0], yaml.ScalarNode)]


def _refuse_bombs(content: str | bytes, source: str) -> None:
    """Raise a ConfigError for a text that would take the stack or the memory.

    The events of the parser come one by one, and none of them is kept.
    """
    sizes = [0]  # how many values each open collection has so far
    anchors: list[str | None] = []  # of the open collections
    known: dict[str, int] = {}  # how many values an anchor stands for
    aliased = 0
    for event in yaml.parse(content, Loader=_LOADER):
        if isinstance(event, yaml.ScalarEvent):
            sizes[-1] += 1
            if event.anchor is not None:
                known[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            sizes.append(1)
            anchors.append(event.anchor)
            if len(anchors) > MAX_DEPTH:
                raise _too_much(event, source, f"{MAX_DEPTH} nested levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            size, anchor = sizes.pop(), anchors.pop()
            sizes[-1] += size
            if anchor is not None:
                known[anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            size = known.get(event.anchor, 1)  # 1 inside of what it stands for
            sizes[-1] += size
            aliased += size
            if aliased > MAX_ALIASED:
                raise _too_much(event, source, f"{MAX_ALIASED} values by aliases")


def _too_much(event: yaml.Event, source: str, most: str) -> ConfigError:
    line = event.start_mark.line + 1
    return ConfigError(f"{source}: line {line}: too much, expected at most {most}")


def _refuse_duplicates(document: yaml.Node, source: str) -> None:
    """Raise a ConfigError for a key that a mapping has twice.

    The keys are compared as they are written, before merges (`<<`) are applied, because
    a merge may add a key again.
    """
    nodes, seen = [document], set()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:  # reached by an alias, perhaps from inside itself
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        elif isinstance(node, yaml.MappingNode):
            lines: dict[tuple[str, str], int] = {}
            for key, value in node.value:
                nodes.append(value)
                if not isinstance(key, yaml.ScalarNode):
                    continue  # a key that the constructor refuses later
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    raise ConfigError(
                        f"{source}: line {line}: duplicate key {key.value!r:.60}, "
                        f"expected only that in line {lines[name]}"
                    )
                lines[name] = line

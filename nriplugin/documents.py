"""YAML text to dictionaries, lists and scalars, for configuration and manifests.

A key that occurs twice in a mapping is an error here, although YAML readers silently
take the last one. Import this module only when there is a text to read: a node without
a configuration must not spend time and memory on PyYAML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import yaml

from nriplugin.errors import ConfigError
from nriplugin.plain_documents import ERRORS, LOADER, MAX_DEPTH, plain_documents

if TYPE_CHECKING:
    from collections.abc import Iterator

# How many values a text may have beyond those it spells out, because of aliases: a few
# hundred bytes of them can stand for billions of values.
MAX_ALIASED = 100_000

# The line of a key, by the keys that lead to it: two levels of mappings.
KeyLines: TypeAlias = dict[tuple[str, ...], int]


class MarkedDocument(NamedTuple):
    """A document, what it is made of, and what to say of the keys that it has twice."""

    content: Any
    node: yaml.Node
    duplicates: list[DuplicateKey]

    def line_of(self, place: str) -> int:
        """Return the line of a place such as `rules[0].match.namespace`.

        Where the document has no such place, it is the line of the nearest one above.
        """
        node, line = self.node, self.node.start_mark.line + 1
        while place:
            for step, key, below in _steps(node):
                if place == step or place.startswith((f"{step}.", f"{step}[")):
                    node, line = below, key.start_mark.line + 1
                    place = place[len(step) :].removeprefix(".")
                    break
            else:
                break
        return line


class DuplicateKey(NamedTuple):
    """A key that a mapping has a second time, and the line where it has it first."""

    line: int
    key: str
    first_line: int

    def __str__(self) -> str:
        return (
            f"line {self.line}: duplicate key {self.key!r:.60}, "
            f"expected only that in line {self.first_line}"
        )


def load_documents(content: str | bytes, source: str) -> list[Any]:
    """Return all documents of a text.

    Raises:
        ConfigError: the text is not YAML, a mapping has a key twice, or the text is
            nested too deeply; the message is one line with the place.
    """
    plain = plain_documents(content)
    if plain is not None:
        return plain
    return [document for document, _ in load_documents_and_lines(content, source)]


def load_documents_and_lines(
    content: str | bytes, source: str
) -> list[tuple[Any, KeyLines]]:
    """Return all documents of a text, each with the lines of its keys.

    Raises:
        ConfigError: as `load_documents` does.
    """
    documents = []
    for one in _marked(content, source):
        if one.duplicates:
            raise ConfigError(f"{source}: {one.duplicates[0]}")
        documents.append((one.content, _key_lines(one.node)))
    return documents


def load_marked_documents(content: str | bytes, source: str) -> list[MarkedDocument]:
    """Return all documents of a text; of a duplicate key, the last value counts.

    Raises:
        ConfigError: as `load_documents` does, but for duplicate keys.
    """
    return list(_marked(content, source))


def _marked(content: str | bytes, source: str) -> Iterator[MarkedDocument]:
    try:
        _refuse_bombs(content, source)
        loader = LOADER(content)
        while loader.check_node():
            node = loader.get_node()
            duplicates = list(_duplicates(node))
            yield MarkedDocument(loader.construct_document(node), node, duplicates)
    except ERRORS as exc:
        raise ConfigError(f"{source}: {_not_yaml(exc)}") from exc


def _not_yaml(exc: Exception) -> str:
    """Return what is wrong with a text that is not YAML, in one line."""
    mark, problem = getattr(exc, "problem_mark", None), getattr(exc, "problem", None)
    if mark is None or not problem:
        return f"not YAML: {' '.join(str(exc).split())}"
    line, column = mark.line + 1, mark.column + 1
    context = " ".join(str(getattr(exc, "context", None) or "").split())
    text = f"line {line}, column {column}: not YAML: {' '.join(problem.split())}"
    return f"{text} ({context})" if context else text


def _steps(node: yaml.Node) -> list[tuple[str, yaml.Node, yaml.Node]]:
    """Return how a place goes on below a node: its text, the key, and the value.

    The longest text comes first, because a key may begin as another one does.
    """
    if isinstance(node, yaml.SequenceNode):
        return [(f"[{at}]", one, one) for at, one in enumerate(node.value)]
    pairs = [(key.value, key, value) for key, value in _pairs(node)]
    return sorted(pairs, key=lambda pair: len(pair[0]), reverse=True)


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
    for event in yaml.parse(content, Loader=LOADER):
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


def _duplicates(document: yaml.Node) -> Iterator[DuplicateKey]:
    """Yield the keys that a mapping has twice.

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
                    yield DuplicateKey(line, key.value, lines[name])
                else:
                    lines[name] = line

"""YAML text to dictionaries, lists and scalars, for configuration and manifests.

A key that occurs twice in a mapping is an error here, although YAML readers silently
take the last one. Import this module only when there is a text to read: a node without
a configuration must not spend time and memory on PyYAML.
"""

from __future__ import annotations

from typing import Any

import yaml

from nriplugin.errors import ConfigError

# Both are safe loaders; not every build of PyYAML has the faster one, written in C.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# PyYAML does not catch what its own constructors of dates and numbers raise.
_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)


def load_documents(content: str | bytes, source: str) -> list[Any]:
    """Return all documents of a text.

    Raises:
        ConfigError: the text is not YAML, or a mapping has a key twice; the message is
            one line with the place.
    """
    documents = []
    try:
        loader = _LOADER(content)
        while loader.check_node():
            node = loader.get_node()
            _refuse_duplicates(node, source)
            documents.append(loader.construct_document(node))
    except _ERRORS as exc:
        raise ConfigError(f"{source}: not YAML: {' '.join(str(exc).split())}") from exc
    return documents


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

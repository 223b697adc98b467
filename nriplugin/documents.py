"""YAML text to plain values, for the configuration file and for manifests.

Import it late: a node without a configuration does not pay for the YAML reader.
"""

from __future__ import annotations

from typing import Any

import yaml

from nriplugin.errors import ConfigError

# Both are safe loaders; not every build of PyYAML has the one in C.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# PyYAML lets through what its constructors of dates and numbers raise.
_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)


def load_documents(content: str | bytes, source: str) -> list[Any]:
    """Return all documents of a text.

    Raises:
        ConfigError: it is not YAML, or a key stands twice in a mapping, of which YAML's
            readers take the last without a word; in one line, with the place.
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
    """Look at the keys as they stand: merges (`<<`) may bring the same ones again."""
    nodes, seen = [document], set()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:  # by an alias, which may be to what it is in
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        elif isinstance(node, yaml.MappingNode):
            lines: dict[tuple[str, str], int] = {}
            for key, value in node.value:
                nodes.append(value)
                if not isinstance(key, yaml.ScalarNode):
                    continue  # which the constructor refuses
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    raise ConfigError(
                        f"{source}: line {line}: duplicate key {key.value!r:.60}, "
                        f"expected only that in line {lines[name]}"
                    )
                lines[name] = line

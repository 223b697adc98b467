"""YAML text to plain values, for the configuration file and for manifests.

Import it late: a node without a configuration does not pay for the YAML reader.
"""

from __future__ import annotations

from typing import Any

import yaml

from nriplugin.errors import ConfigError

# Both are safe loaders; not every build of PyYAML has the one in C.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# PyYAML lets through what its constructors of dates and numbers raise.
_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)


def load_documents(content: str | bytes, source: str) -> list[Any]:
    """Return all documents of a text.

    Raises:
        ConfigError: it is not YAML; in one line, with the place.
    """
    try:
        return list(yaml.load_all(content, _LOADER))
    except _ERRORS as exc:
        raise ConfigError(f"{source}: not YAML: {' '.join(str(exc).split())}") from exc

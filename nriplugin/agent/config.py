"""The configuration file: strict YAML, from a file or from the runtime.

Imported only when there is a configuration: a node without one does not pay for the
YAML reader.
"""

from __future__ import annotations

import msgspec

from nriplugin.documents import load_documents
from nriplugin.errors import ConfigError
from nriplugin.nri import FailurePolicy


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What a user can set. Every field has a default that does no harm."""

    failure_policy: FailurePolicy = FailurePolicy.IGNORE


def parse_config(text: str, source: str) -> Config:
    """Read a configuration; an empty one is all defaults.

    Raises:
        ConfigError: not YAML, or an unknown field, or a wrong value; says where.
    """
    documents = load_documents(text, source)
    if len(documents) > 1:
        raise ConfigError(f"{source}: {len(documents)} documents, expected one")
    document = documents[0] if documents else None
    if document is None:
        return Config()
    try:
        return msgspec.convert(document, Config)
    except msgspec.ValidationError as exc:
        hint = ""
        if "enum value" in str(exc):  # the only thing that msgspec leaves unsaid
            hint = f", expected {' or '.join(FailurePolicy)}"
        raise ConfigError(f"{source}: {exc}{hint}") from exc


def read_config(path: str) -> Config:
    """Read a configuration file.

    Raises:
        ConfigError: as `parse_config`, or the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: cannot be read: {exc}") from exc
    return parse_config(text, path)

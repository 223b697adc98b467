"""Reads the objects in files that a user gives to `nriplugin capacity`."""

from __future__ import annotations

import json
from typing import Any

from nriplugin.cli.standard_input import read_standard_input
from nriplugin.errors import ConfigError


def read_objects(path: str, option: str) -> list[Any]:
    """Return the documents of a file of YAML or JSON; `-` is standard input.

    Raises:
        ConfigError: it cannot be read, or is neither.
    """
    text = _text_of(path, option)
    if text.lstrip()[:1] == "{":
        # JSON is read many times faster than YAML.
        try:
            return [json.loads(text)]
        except (ValueError, RecursionError):
            pass  # several documents, or YAML in braces
    from nriplugin.documents import load_documents

    return load_documents(text, path)


def _text_of(path: str, option: str) -> str:
    try:
        if path == "-":
            return read_standard_input().decode()
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "not UTF-8"
        raise ConfigError(f"{option}: {path!r}: {reason}, expected a file") from exc

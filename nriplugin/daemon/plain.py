"""Turns messages of the control API into plain values, for JSON and YAML.

protobuf's own JSON writes 64-bit integers as texts and leaves out what is zero. Tools
of operators want numbers, and every field in every answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import Message


def plain(message: Message) -> dict[str, Any]:
    """Return all fields of a message by their names in the .proto file.

    A message that is not set becomes its empty form, so every field is there.
    """
    names = [field.name for field in message.DESCRIPTOR.fields]
    return {name: _plain(getattr(message, name)) for name in names}


def valid_text(text: str) -> str:
    """Return a text that a message can hold.

    A path from the command line may have bytes that are not UTF-8, which Python keeps
    as surrogates. They are shown by their numbers.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a field can hold
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, Mapping):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(one) for one in value]
    return value

"""Turns messages of the control API into plain values, for JSON and YAML.

protobuf's own JSON writes 64-bit integers as texts and leaves out what is zero. Tools
of operators want numbers, and every field in every answer. What is absent is None, so
that a number which is not known is not taken for 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import Message


def plain(message: Message) -> dict[str, Any]:
    """Return all fields of a message by their names in the .proto file.

    None stands for a message, or a field that is `optional`, which is not set.
    """
    return {
        field.name: None
        if field.has_presence and not message.HasField(field.name)
        else _plain(getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
    }


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

"""Words for what the configuration file accepts at a place, from the file's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import inspect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msgspec.inspect import Type

# Bounds from here on keep a number within 64 bits; nobody has to be told them.
UNBOUNDED = 1 << 40

_PLAIN = {
    inspect.BoolType: "true or false",
    inspect.DictType: "a mapping",
    inspect.ListType: "a list",
    inspect.NoneType: "null",
}


def type_at(kind: type, path: tuple[str | int, ...]) -> Type:
    """Return the type of the file at a path; AnyType where it has none."""
    there = inspect.type_info(kind)
    for step in path:
        there = next(_below(there, step), inspect.AnyType())
    return there


def _below(there: Type, step: str | int) -> Iterator[Type]:
    if isinstance(there, inspect.UnionType):
        for one in there.types:
            yield from _below(one, step)
    elif isinstance(there, inspect.Metadata):
        yield from _below(there.type, step)
    elif isinstance(there, inspect.StructType):
        yield from (one.type for one in there.fields if one.encode_name == step)
    elif isinstance(there, inspect.ListType) and isinstance(step, int):
        yield there.item_type
    elif isinstance(there, inspect.DictType):
        yield there.value_type


def keys(there: Type) -> list[str]:
    """Return the keys of a section."""
    fields = there.fields if isinstance(there, inspect.StructType) else ()
    return [one.encode_name for one in fields]


def sections_with(kind: type, key: str) -> list[str]:
    """Return the places of a key that sections of the file have, not the file itself.

    A key that many sections have, such as `enabled`, could be meant anywhere.
    """
    top = inspect.type_info(kind)
    places = [
        f"{section}.{key}"
        for section in keys(top)
        if key in keys(type_at(kind, (section,)))
    ]
    return places if len(places) <= 2 else []


def words(there: Type) -> list[str]:
    """Return the words that are accepted; none if any text or number will do."""
    if isinstance(there, inspect.UnionType):
        return [word for one in there.types for word in words(one)]
    if isinstance(there, inspect.Metadata):
        return words(there.type)
    if isinstance(there, inspect.EnumType):
        return [str(one.value) for one in there.cls]
    if isinstance(there, inspect.LiteralType):
        return [str(one) for one in there.values]
    return []


def of(there: Type) -> str:
    """Return what a type accepts, to follow `expected`."""
    if isinstance(there, inspect.Metadata):
        return of(there.type)
    if isinstance(there, inspect.UnionType):
        *others, last = [of(one) for one in there.types]
        return f"{', '.join(others)} or {last}"
    if isinstance(there, inspect.StructType):
        return f"a mapping with {', '.join(keys(there))}"
    if isinstance(there, inspect.IntType | inspect.FloatType):
        what = "a whole number" if isinstance(there, inspect.IntType) else "a number"
        return what + _bounds(there)
    if isinstance(there, inspect.StrType):
        if there.pattern == "^/":
            return "a path that begins with /"
        return "a text" if not there.min_length else "a text that is not empty"
    if accepted := words(there):
        return " or ".join(accepted)
    return _PLAIN.get(type(there), "another value")


def _bounds(there: Any) -> str:  # noqa: ANN401 - numbers of either kind
    most = there.le if there.le is not None and there.le < UNBOUNDED else None
    if there.ge is not None and most is not None:
        return f" from {there.ge} to {most}"
    parts = [
        f" {word} {bound:g}"
        for word, bound in (
            ("greater than", there.gt),
            ("not below", there.ge),
            ("below", there.lt),
            ("not above", most),
        )
        if bound is not None
    ]
    return " and".join(parts)

"""All mistakes of a configuration, not only the first: place, value, what was expected.

msgspec is the judge, and it stops at the first mistake. So what it refuses is noted and
taken out of the document, and the rest is judged again. The words for what is expected
come from the types of the file, and a misspelt word is compared with the known ones.
None of this is imported while a configuration is valid.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nriplugin.config import expectations
from nriplugin.errors import ConfigError
from nriplugin.suggestions import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable

# A file that is something else altogether has as many mistakes as lines.
MAX_MISTAKES = 50

_PLACE = re.compile(r" - at (?:`key` in )?`\$([^`]*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"missing required field `(\w+)`")

Path = tuple[str | int, ...]


class Mistake(NamedTuple):
    """One mistake: the place, such as `rules[0].match`, and the rest of the text."""

    place: str
    text: str


def all_mistakes(document: Any, kind: type) -> tuple[Any, list[Mistake]]:  # noqa: ANN401
    """Return what is left of a document that msgspec refuses, and what it refuses.

    The first part of the result is None if nothing is left.
    """
    document = copy.deepcopy(document)
    mistakes: list[Mistake] = []
    for _ in range(2 * MAX_MISTAKES):
        try:
            return msgspec.convert(document, kind), mistakes
        except msgspec.ValidationError as exc:
            path, mistake = _understood(document, kind, str(exc))
            if any(one.place == mistake.place for one in mistakes):
                path = path[:-1]  # what was wrong is now missing
            else:
                mistakes.append(mistake)
            if len(mistakes) == MAX_MISTAKES or not _taken_out(document, kind, path):
                break
    return None, mistakes


def of_items(
    convert: Callable[[Any, str], Any],
    given: object,
    where: str,
    raised: ConfigError,
) -> list[Mistake]:
    """Return the mistakes in an option's value that its handler does not accept.

    In a list, each item is tried by itself.
    """
    if not isinstance(given, list):
        return [_mistake_of(raised)]
    mistakes = []
    for index, item in enumerate(given):
        try:
            convert([item], where)
        except ConfigError as exc:
            text = _mistake_of(exc).text
            known = text.partition("expected one of ")[2].split(", ")
            place = f"{where}[{index}]"
            mistakes.append(Mistake(place, text + suggestion(item, known)))
    return mistakes or [_mistake_of(raised)]


def _mistake_of(exc: ConfigError) -> Mistake:
    place, _, text = str(exc).partition(": ")
    return Mistake(place, text)


def shown(value: object) -> str:
    """Return a value of a file in a few characters, spelt as in YAML."""
    try:
        return f"{json.dumps(value, default=str, ensure_ascii=False):.60}"
    except (TypeError, ValueError, RecursionError):  # a date as key; an endless alias
        return f"{value!r:.60}"


def _understood(document: Any, kind: type, message: str) -> tuple[Path, Mistake]:  # noqa: ANN401
    """Return the path to what is wrong, and what to say about it."""
    found = _PLACE.search(message)
    path = _path_of(document, kind, found[1] if found else "", message)
    if unknown := _UNKNOWN.search(message.removesuffix(found[0] if found else "")):
        path = (*path, unknown[1])
        return path, Mistake(_text_of(path), _unknown(unknown[1], kind, path))
    if missing := _MISSING.search(message):
        path = (*path, missing[1])
        expected = expectations.of(expectations.type_at(kind, path))
        return path, Mistake(_text_of(path), f"missing, expected {expected}")
    value = _value_at(document, path)
    if "`key` in " in message:
        wrong = next(key for key in value if not isinstance(key, str))
        text = f"{shown(wrong)}, expected a text as key"
        return (*path, wrong), Mistake(_text_of(path), text)
    kind_there = expectations.type_at(kind, path)
    advice = suggestion(value, expectations.words(kind_there))
    text = f"{shown(value)}, expected {expectations.of(kind_there)}{advice}"
    return path, Mistake(_text_of(path), text)


def _unknown(name: str, kind: type, path: Path) -> str:
    """Return what to say about a key that does not exist at its place."""
    known = expectations.keys(expectations.type_at(kind, path[:-1]))
    advice = suggestion(name, known)
    if not advice and len(path) == 1:
        places = expectations.sections_with(kind, name)
        if places:
            advice = f"; did you mean {' or '.join(places)}?"
    return f"unknown key, expected {', '.join(known)}{advice}"


def _taken_out(document: Any, kind: type, path: Path) -> bool:  # noqa: ANN401
    """Take out what is wrong, so that the rest can be judged; whether that is possible.

    The places of the rest must stay what they are. So a section, such as one of the
    rules, is replaced by an empty one, and a list of anything else goes as a whole.
    """
    if not path:
        return False
    above = _value_at(document, path[:-1])
    there = expectations.type_at(kind, path)
    if isinstance(there, msgspec.inspect.StructType):
        needed = [one.encode_name for one in there.fields if one.required]
        empty: dict[str, object] = {name: {} for name in needed}
        if _below(above, path[-1]) != empty:
            above[path[-1]] = empty
            return True
    if isinstance(above, dict) and path[-1] in above:
        del above[path[-1]]
        return True
    return _taken_out(document, kind, path[:-1])


def _path_of(document: Any, kind: type, text: str, message: str) -> Path:  # noqa: ANN401
    """Return the path in msgspec's text; `[...]` is a key that it leaves out."""
    path: Path = ()
    for name, index in _STEP.findall(text):
        if index == "...":
            mapping = _value_at(document, path)
            path = (*path, _wrong_key(mapping, document, kind, message))
        else:
            path = (*path, name or int(index))
    return path


def _wrong_key(
    mapping: dict[str, Any],
    document: Any,  # noqa: ANN401
    kind: type,
    message: str,
) -> str:
    """Return the key in a mapping of the document that msgspec's message is about."""
    entries = dict(mapping)
    found = ""
    for key in entries:
        mapping.clear()
        mapping[key] = entries[key]
        try:
            msgspec.convert(document, kind)
        except msgspec.ValidationError as exc:
            if str(exc) == message:
                found = key
                break
    mapping.clear()
    mapping.update(entries)
    return found


def _below(above: Any, step: str | int) -> Any:  # noqa: ANN401
    return above[step] if isinstance(step, int) else above.get(step)


def _value_at(document: Any, path: Path) -> Any:  # noqa: ANN401
    for step in path:
        document = document[step]
    return document


def _text_of(path: Path) -> str:
    steps = (f"[{one}]" if isinstance(one, int) else f".{one}" for one in path)
    return "".join(steps).removeprefix(".")

"""Finds mistakes that a plugin's author should not have to look for in a log.

In production the SDK answers in place of a handler that fails, drops harmful updates,
and logs both, because no mistake of a plugin may do harm to a node. In a test the same
mistakes are to be seen: `check_handlers` puts a checking function in front of each
handler of one plugin, and each mistake becomes a sentence.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import ConfigError, RequestFails
from nriplugin.nri.dispatch import harm_of
from nriplugin.nri.methods import METHODS, Kind
from nriplugin.nri.misspelt import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.nri.plugin import Plugin

    Note = Callable[[str, Exception | None], None]
    Check = Callable[[Any, tuple[Any, ...]], str]

# With these exceptions a plugin refuses on purpose.
_DELIBERATE = ConfigError, RequestFails


class StrictFailure(AssertionError):
    """A mistake of a plugin, which the embedded runtime found in strict mode."""


def check_handlers(plugin: Plugin, note: Note) -> None:
    """From now on call `note` for each mistake that a handler of the plugin makes.

    It gets a sentence, and the exception if the handler raised one. The plugin's class
    stays as it is: the checking functions are attributes of the instance.
    """
    questions = {row.handler: row for row in METHODS if row.kind is Kind.QUESTION}
    for name in HANDLERS:
        if name == "synchronize":
            check = _wrong_updates
        elif name in questions or name == "fallback_update":
            row = questions.get(name, questions["update_container"])
            check = functools.partial(_wrong_answer, row.response)
        else:
            check = _wrong_silence
        handler = getattr(plugin, name)
        full_name = f"{type(plugin).__name__}.{name}"
        vars(plugin)[name] = _checked(handler, full_name, check, note)


def uncheck_handlers(plugin: Plugin) -> None:
    """Undo `check_handlers`."""
    for name in HANDLERS:
        vars(plugin).pop(name, None)


def _checked(
    handler: Callable[..., Any], name: str, check: Check, note: Note
) -> Callable[..., Any]:
    def checked(*args: Any) -> Any:  # noqa: ANN401
        try:
            answer = handler(*args)
        except _DELIBERATE:
            raise
        except Exception as exc:
            note(f"{name} raised {type(exc).__name__}: {exc}", exc)
            raise
        if inspect.isgenerator(answer):
            answer = [*answer]  # which can be read twice
        wrong = check(answer, args)
        if not wrong:
            return answer
        if inspect.iscoroutine(answer):
            answer.close()
        note(f"{name} {wrong}", None)
        return None

    return checked


def _wrong_silence(answer: Any, args: tuple[Any, ...]) -> str:  # noqa: ANN401
    return "" if answer is None else _unexpected(answer, "None")


def _wrong_answer(
    response: type[Message],
    answer: Any,  # noqa: ANN401
    args: tuple[Any, ...],
) -> str:
    if answer is None:
        return ""
    if not isinstance(answer, response):
        return _unexpected(answer, f"{response.DESCRIPTOR.name} or None")
    creating = None
    # A view of the request may have no container.
    if response is nri.CreateContainerResponse and hasattr(args[0], "container"):
        creating = args[0].container.id
    return _harmful(getattr(answer, "update", ()), creating)


def _wrong_updates(answer: Any, args: tuple[Any, ...]) -> str:  # noqa: ANN401
    if answer is None:
        return ""
    expected = "an iterable of ContainerUpdate or None"
    if isinstance(answer, Message) or not hasattr(answer, "__iter__"):
        return _unexpected(answer, expected)
    for update in answer:
        if not isinstance(update, nri.ContainerUpdate):
            return _unexpected(update, expected, "an iterable with ")
    return _harmful(answer, None)


def _harmful(updates: Any, creating: str | None) -> str:  # noqa: ANN401
    for update in updates:
        if harm := harm_of(update, creating):
            return f"returned an update of container {update.container_id!r}: {harm}"
    return ""


def _unexpected(answer: object, expected: str, inside: str = "") -> str:
    return f"returned {inside}{type(answer).__name__}, expected {expected}"

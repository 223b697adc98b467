"""The annotation by which a container changes the settings of a policy at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.engine.context import HandlerContext
    from nriplugin.kube.annotations import Annotations

S = TypeVar("S")

OFF = "off"


def changed_by_annotation(
    settings: S,
    annotations: Annotations,
    key: str,
    read: Callable[[S, str], S | None],
    expected: str,
    refuse: Callable[[str], None],
) -> S | None:
    """Return a container's own settings; None if the annotation is `off`.

    A mistake leaves the settings as they are configured.

    Args:
        settings: as they are configured.
        annotations: those of the pod that concern the container.
        key: of the annotation, without the suffix.
        read: returns the settings that a value leads to; None if it is not valid.
        expected: the end of the text of a mistake.
        refuse: is called with that text.
    """
    stated = annotations.found.get(key)
    if stated is None:
        return settings
    if stated.value == OFF:
        return None
    found = read(settings, stated.value)
    if found is None:
        refuse(f"{stated.key}: {stated.value!r:.60}, expected {expected}")
    return settings if found is None else found


def report_annotation(
    context: HandlerContext,
    settings: S,
    settings_of: Callable[[S, Annotations, Callable[[str], None]], S | None],
    handler: str,
    key: str,
    what: str,
) -> bool:
    """Report a mistake in the annotation, or that it switches the policy off.

    A handler that only acts at run time has nothing else to decide about. Returns
    whether the policy is on. `what` is the file that it acts on.
    """
    own = settings_of(
        settings, context.annotations, lambda text: context.refuse(handler, text)
    )
    if own is None:
        stated = context.annotation(key)
        where = "" if stated is None else stated.key
        context.decision.leave(what, f"{handler}: switched off by annotation {where}")
    return own is not None

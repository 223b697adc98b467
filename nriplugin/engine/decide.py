"""The one way from a container to a decision, for every door and for `explain`.

`decide` is called for a container that is about to be made or exists already,
`decide_update` when it is to be changed; the second only works out what will hold after
the update, and both follow the same path: choose the settings, ask the handlers that
are on, retract earlier values (updates only), convert, resolve conflicts.

Everything here is pure. It is also in the way of every container start, so with nothing
but the conversion on, a creation skips handlers, annotations and the context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.engine.conflicts import resolve_conflicts
from nriplugin.engine.context import HandlerContext, RequestedUpdate
from nriplugin.engine.crun_scope import reach_scope
from nriplugin.engine.decision import RESOURCES, Decision, HandlerFailed, Reason
from nriplugin.engine.explicit import (
    explicit_values,
    recorded_values_of_others,
    without_own_values,
)
from nriplugin.engine.handlers import table
from nriplugin.engine.handlers.resources import CONVERSION, convert_resources
from nriplugin.engine.qos_class import qos_class_of
from nriplugin.engine.retract import fail_lost_update, retract_old_values
from nriplugin.engine.rules import select
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.engine.update_rules import complete_update, send_again
from nriplugin.errors import ConversionError
from nriplugin.kube.annotations import NONE, read_annotations

if TYPE_CHECKING:
    from nriplugin.convert import Resources
    from nriplugin.engine.model import Container, NodeFacts, Pod, Use
    from nriplugin.engine.settings import EngineConfig
    from nriplugin.kube.annotations import Annotations


def decide(
    pod: Pod,
    container: Container,
    facts: NodeFacts,
    config: EngineConfig,
    use: Use | None = None,
    *,
    update: RequestedUpdate | None = None,
) -> Decision:
    """Decide about a container.

    Args:
        pod: the container's pod.
        container: the container; at an update, as it is before it.
        facts: about the node.
        config: the configuration.
        use: what the container uses, if it exists and that is known.
        update: what `decide_update` makes of a request; None for a creation.

    Raises:
        HandlerFailed: a handler could not do its work, and is configured to fail.
    """
    settings, qos_class = config.base, None
    if config.rules:
        qos_class = qos_class_of(pod, container)
        settings = select(pod, container, qos_class, config)
    decision = Decision(settings)
    if facts.direct_only:
        evidence = f" ({facts.cgroup_evidence})" if facts.cgroup_evidence else ""
        text = f"direct writes only: cgroup v{facts.cgroup_version}{evidence}"
        decision.leave("cgroup v2 files", text)
    given, chosen = container.resources, config.curve or pod.curve
    if update is not None:
        given = together(given, update.requested)
    elif container.ours:
        given = without_own_values(given, container)
    context = None
    if settings.only_resources and update is None:
        try:
            if not facts.direct_only:
                convert_resources(given, facts, decision, chosen, container.ours)
        except Exception as exc:  # noqa: BLE001 - see _note_failure
            _note_failure(decision, RESOURCES, exc)
    else:
        annotations = NONE
        if not settings.only_resources:
            if qos_class is None:
                qos_class = qos_class_of(pod, container)
            if pod.annotations:
                annotations = _read_annotations(pod, container, decision)
        context = HandlerContext(
            pod,
            container,
            facts,
            decision,
            given,
            chosen_curve=chosen,
            qos_class=qos_class,
            annotations=annotations,
            use=use,
            update=update,
        )
        _ask_handlers(context)
    if container.others:
        _leave_files_of_others(decision, container)
    if facts.driver == SYSTEMD:
        reach_scope(pod, given.shares, facts, decision)
    if context is not None and update is not None and not facts.direct_only:
        complete_update(context, unasked=update.unasked)
    return decision


def decide_update(
    pod: Pod,
    container: Container,
    asked: Resources,
    facts: NodeFacts,
    config: EngineConfig,
    use: Use | None = None,
    *,
    unasked: bool = False,
    new_request: bool = False,
) -> Decision:
    """Decide about an update of a container.

    The decision's files are to be laid over the request, less what is in `cleared`.

    Args:
        pod: the container's pod.
        container: the container as it is before the update.
        asked: the request; None for every number that it does not mention.
        facts: about the node.
        config: the configuration.
        use: what the container uses, if that is known.
        unasked: whether nriplugin starts the update itself. Every runtime takes the
            files of such an update, also one that drops them from an answer.
        new_request: whether the memory request has become another one, so that the
            files that follow from it are decided anew, whatever is asked for.

    Raises:
        HandlerFailed: a handler could not do its work, and is configured to fail.
    """
    # kubelet's "not set" for a memory file would end a value that nriplugin has set.
    undone = explicit_values(asked.unified) is not asked.unified
    if container.ours is not None:
        kept = without_own_values(container.resources, container).unified
        asked = asked._replace(unified={**kept, **asked.unified})
    if asked.quota_us is None:
        # A period without a quota would lift the quota that the container has.
        asked = asked._replace(period_us=None)
    memory = undone or new_request or asked.memory_limit_bytes is not None
    update = RequestedUpdate(asked, memory, unasked)
    return decide(pod, container, facts, config, use, update=update)


def together(old: Resources, asked: Resources) -> Resources:
    """Return the resources after an update: old numbers where it asks for none."""
    return old._replace(
        shares=old.shares if asked.shares is None else asked.shares,
        quota_us=old.quota_us if asked.quota_us is None else asked.quota_us,
        period_us=old.period_us if asked.period_us is None else asked.period_us,
        memory_limit_bytes=(
            old.memory_limit_bytes
            if asked.memory_limit_bytes is None
            else asked.memory_limit_bytes
        ),
        unified=asked.unified,
    )


def _ask_handlers(context: HandlerContext) -> None:
    """Ask every handler that is on, and the conversion last."""
    settings, decision = context.settings, context.decision
    for handler, own in settings.handlers:
        try:
            handler.decide(context, own)
        except Exception as exc:  # noqa: BLE001 - see _note_failure
            _note_failure(decision, handler.name, exc)
    if context.updating:
        # Before the conversion: a container that stops being idle gets a weight.
        retract_old_values(context)
    if context.facts.direct_only:
        return  # nothing leaves through the door, and the runtime keeps nothing
    if settings.resources.enabled:
        try:
            CONVERSION.decide(context, settings.resources)
        except Exception as exc:  # noqa: BLE001 - see _note_failure
            fail_lost_update(context, exc)
            _note_failure(decision, RESOURCES, exc)
    resolve_conflicts(context)
    if context.updating:
        send_again(context)


def _note_failure(decision: Decision, handler: str, exc: Exception) -> None:
    """Go on without a handler, or fail the request if the configuration says so.

    A failure of one handler must not keep the others from their work, so every
    exception is caught. A `ConversionError` is a mistake in the numbers; everything
    else is a defect of nriplugin, and is counted as one.

    Raises:
        HandlerFailed: the handler's failure policy is `fail`.
    """
    known = isinstance(exc, ConversionError)
    text = str(exc) if known else repr(exc)
    if handler in decision.settings.failing:
        raise HandlerFailed(handler, text) from exc
    decision.refuse(handler, Reason.CONVERSION if known else Reason.ERROR, text)


def _read_annotations(
    pod: Pod, container: Container, decision: Decision
) -> Annotations:
    """Return nriplugin's annotations for a container; note those that are not read."""
    read = read_annotations(pod.annotations, container.name)
    for key, reason in read.refused:
        decision.refuse("annotations", Reason.ANNOTATION, f"{key:.120}: {reason}")
    settings = decision.settings
    for setting, (_, key) in read.found.items():
        if setting in settings.annotations or (settings.reads_files and "." in setting):
            continue
        readers = sorted(one.name for one in table.HANDLERS if one.reads(setting))
        if readers:
            decision.leave(f"annotation {key:.120}", f"{' and '.join(readers)}: off")
        else:
            text = f"{key:.120}: not an annotation of nriplugin"
            decision.refuse("annotations", Reason.ANNOTATION, text)
    return read


def _leave_files_of_others(decision: Decision, container: Container) -> None:
    """Withdraw every file that another plugin or a user set at creation.

    Some runtimes do not show these values later, so no handler has seen them.
    """
    for file in recorded_values_of_others(container).keys() & decision.files.keys():
        handler = decision.why(file).handler
        decision.leave(file, f"{handler}: set by another plugin or a user before")
        decision.unset(file)

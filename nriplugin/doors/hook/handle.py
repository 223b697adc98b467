"""From the runtime's words to the kernel's files: read, decide, write."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.types.tree import Tree
from nriplugin.cgroup.writing.kernel_text import same
from nriplugin.cgroup.writing.updates import Status
from nriplugin.convert.readers import from_oci
from nriplugin.doors.hook.bundle import mapping, read_spec, read_state, texts
from nriplugin.doors.hook.host import facts_for
from nriplugin.doors.hook.identity import identify_container, pod_labels
from nriplugin.doors.hook.own_cgroup import own_cgroup
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import RESOURCES, HandlerFailed, Reason
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.model import Container, Pod
from nriplugin.errors import NRIPluginError
from nriplugin.node.observe import held
from nriplugin.node.protection import without_effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from nriplugin.cgroup.locate.identify import CgroupIdentity
    from nriplugin.cgroup.writing.updates import Outcome
    from nriplugin.doors.hook.bundle import State
    from nriplugin.doors.hook.host import Surroundings
    from nriplugin.doors.hook.identity import Identity
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.settings import EngineConfig

_BAD = (Status.FAILED, Status.REFUSED)
# What is wrong with our work, rather than with somebody's wish.
_OURS = (Reason.CONVERSION, Reason.ERROR)


class Done(NamedTuple):
    """What became of a container: nothing to say, if all went well."""

    failures: list[str]
    remarks: list[str]


NOTHING = Done([], [])


def handle(
    fd: int,
    config: EngineConfig,
    around: Surroundings,
    *,
    environ: Mapping[str, str],
    state_dir: str | None = None,
) -> Done:
    """Give the container whose state is read from a descriptor its files.

    Raises:
        HandlerFailed: a handler could not do its work, and is configured to fail.
        NRIPluginError: there is no telling what the container is to get, or no way to
            write it.
    """
    state = read_state(fd)
    if around.version.number != 2:
        return NOTHING
    spec = read_spec(state.bundle)
    annotations = texts(spec.get("annotations"))
    identity = identify_container(annotations)
    if identity.sandbox:
        return NOTHING
    cgroups_path = mapping(spec, "linux").get("cgroupsPath")
    cgroup, place = own_cgroup(
        state.id,
        cgroups_path if isinstance(cgroups_path, str) else "",
        around.process_cgroups(state.pid),
    )
    labels = pod_labels(state.bundle, identity) if config.rules else {}
    pod = _pod(identity, annotations, labels, place)
    container = _container(state, identity, spec, place)
    node = around.node(place)
    with node.open_files() as opened:
        tree = Tree(opened, around.version.number)
        decision = decide(pod, container, facts_for(node, tree, cgroup), config)
        files = _missing(decision, config, tree, cgroup)
        done = _told(decision)
        if not (files or decision.writes):
            return done
        failures = _write(
            decision,
            files,
            node=node,
            tree=tree,
            cgroup=cgroup,
            in_pod=place is not None,
            environ=environ,
            state_dir=state_dir,
        )
        remarks = []
        if place is not None:
            pod_cgroup = cgroup.rpartition("/")[0]
            raised = decision.settings.of(MemoryQoSSettings).raise_ancestors
            gaps = without_effect(
                tree, pod_cgroup, cgroup, decision.files, raised=raised
            )
            remarks = [gap.text for gap in gaps]
    return Done(done.failures + failures, done.remarks + remarks)


def _write(
    decision: Decision,
    files: Mapping[str, str],
    **where: Any,  # noqa: ANN401 - what `write_all` wants to know
) -> list[str]:
    """Write, and return what went wrong, unless that has to stop the container."""
    # Late: most containers have everything already.
    from nriplugin.doors.hook.apply_files import write_all

    try:
        outcomes = write_all(files, decision.writes, **where)
    except NRIPluginError as exc:
        _fail_for(_handlers(decision, files).values(), decision, str(exc))
        raise
    return _judged(outcomes, decision, files)


def _told(decision: Decision) -> Done:
    """Return what the engine has to say about its decision."""
    failures: list[str] = []
    remarks = list(decision.warnings)
    for one in decision.refused:
        ours = one.reason in _OURS
        (failures if ours else remarks).append(f"{one.handler}: {one.text}")
    return Done(failures, remarks)


def _pod(
    identity: Identity,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    place: CgroupIdentity | None,
) -> Pod:
    pod = Pod(
        uid=identity.uid,
        name=identity.pod,
        namespace=identity.namespace,
        labels=labels,
        annotations=annotations,
    )
    if place is None:
        return pod
    return pod._replace(
        uid=place.pod_uid or identity.uid,
        qos_class=place.qos_class,
    )


def _container(
    state: State, identity: Identity, spec: dict[str, Any], place: CgroupIdentity | None
) -> Container:
    # Outside of a pod the score says nothing about a request.
    score = None if place is None else mapping(spec, "process").get("oomScoreAdj")
    whole = isinstance(score, int) and not isinstance(score, bool)
    return Container(
        name=identity.container,
        id=state.id,
        resources=from_oci(mapping(spec, "linux").get("resources")),
        oom_score_adj=score if whole else None,
    )


def _missing(
    decision: Decision, config: EngineConfig, tree: Tree, cgroup: str
) -> dict[str, str]:
    """Return the files that do not hold their value yet.

    Without a curve, a weight is the runtime's own, and the runtime has just set it.
    """
    missing = {}
    for file, value in decision.files.items():
        ours = config.curve is not None or decision.why(file).handler != RESOURCES
        if file == "cpu.weight" and not ours:
            continue
        there = held(tree, cgroup, file)
        if there is None or not same(file, value, there):
            missing[file] = value
    return missing


def _handlers(decision: Decision, files: Iterable[str]) -> dict[str, str]:
    """Return who wants each file that is to be written."""
    wanted = {write.file: write.why.handler for write in decision.writes}
    return wanted | {file: decision.why(file).handler for file in files}


def _judged(
    outcomes: Iterable[Outcome], decision: Decision, files: Iterable[str]
) -> list[str]:
    """Return what went wrong, unless that has to stop the container."""
    handlers = _handlers(decision, files)
    failures = []
    for outcome in outcomes:
        if outcome.status in _BAD:
            handler = handlers.get(outcome.path.rpartition("/")[2], "")
            _fail_for([handler], decision, outcome.reason)
            failures.append(f"{handler}: {outcome.reason}")
    return failures


def _fail_for(handlers: Iterable[str], decision: Decision, reason: str) -> None:
    for handler in handlers:
        if handler in decision.settings.failing:
            raise HandlerFailed(handler, reason)

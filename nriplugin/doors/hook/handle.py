"""What the hook does for one container: read the bundle, decide, write.

The runtime has already written its own values. A file that holds the decided value is
left as it is, so for most containers nothing is written and the modules that write are
never imported.

A failure belongs to the handler that wanted the file. If that handler's failure policy
is `fail`, HandlerFailed ends the hook and the container does not start. Every other
failure becomes a line of text, and the container starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.types.tree import Tree
from nriplugin.convert.readers import from_oci
from nriplugin.doors.hook.bundle import (
    object_in,
    read_spec,
    read_state,
    string_entries,
)
from nriplugin.doors.hook.host import facts_for
from nriplugin.doors.hook.identity import identify_container, pod_labels
from nriplugin.doors.hook.own_cgroup import own_cgroup
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import RESOURCES, HandlerFailed, Reason
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.model import Container, Pod
from nriplugin.errors import NRIPluginError
from nriplugin.node.observe import files_not_holding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.locate.identify import CgroupIdentity
    from nriplugin.cgroup.writing.updates import Outcome
    from nriplugin.doors.hook.bundle import ContainerState
    from nriplugin.doors.hook.host import Host
    from nriplugin.doors.hook.identity import ContainerIdentity
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.settings import EngineConfig

# Reasons of a refusal that are failures of nriplugin. The others are about a value that
# a user asked for and that cannot be given: those are only remarked on.
_FAILURES = (Reason.CONVERSION, Reason.ERROR)


class HookResult(NamedTuple):
    """What to tell about a container; both lists are empty if all went well."""

    failures: list[str]
    remarks: list[str]


def handle(
    fd: int,
    config: EngineConfig,
    host: Host,
    *,
    state_dir: str | None = None,
    checkpoint: str | None = None,
) -> HookResult:
    """Give the container whose state is read from a file descriptor its files.

    `checkpoint` is the path on the host of kubelet's checkpoint, if it is to be read.

    Raises:
        HandlerFailed: a handler with the failure policy `fail` could not do its work.
        NRIPluginError: the decision cannot be made, or nothing can be written.
    """
    state = read_state(fd)
    version = host.version.number
    if version != 2 and config.base.only_resources and not config.rules:
        return HookResult([], [])  # cgroup v1 needs no conversion
    spec = read_spec(state.bundle)
    annotations = string_entries(spec.get("annotations"))
    identity = identify_container(annotations)
    if identity.sandbox:
        return HookResult([], [])
    cgroups_path = object_in(spec, "linux").get("cgroupsPath")
    cgroup, kube_cgroup = own_cgroup(
        state.id,
        cgroups_path if isinstance(cgroups_path, str) else "",
        host.process_cgroups(state.pid),
        version=version,
    )
    labels = pod_labels(state.bundle, identity) if config.rules else {}
    pod = _pod(identity, annotations, labels, kube_cgroup)
    container = _container(state, identity, spec, kube_cgroup)
    if checkpoint is not None and kube_cgroup is not None:
        allocated = _allocated_request(host.root + checkpoint, pod.uid, container.name)
        container = container._replace(allocated_request_bytes=allocated)
    node = host.node_of(kube_cgroup)
    with node.open_files() as opened:
        tree = Tree(opened, version)
        decision = decide(pod, container, facts_for(node, tree, cgroup), config)
        if decision.settings.shadow:
            return HookResult([], [])
        files = files_not_holding(tree, cgroup, _files_to_check(decision, config))
        result = _refusals(decision)
        if files or decision.writes:
            in_pod = kube_cgroup is not None
            result.failures.extend(
                _write(decision, files, node, tree, cgroup, in_pod, state_dir=state_dir)
            )
            if in_pod:
                result.remarks.extend(_protection_gaps(decision, tree, cgroup))
    return result


def _pod(
    identity: ContainerIdentity,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    kube_cgroup: CgroupIdentity | None,
) -> Pod:
    pod = Pod(
        uid=identity.uid,
        name=identity.pod,
        namespace=identity.namespace,
        labels=labels,
        annotations=annotations,
    )
    if kube_cgroup is None:
        return pod
    return pod._replace(
        uid=kube_cgroup.pod_uid or identity.uid,
        qos_class=kube_cgroup.qos_class,
    )


def _container(
    state: ContainerState,
    identity: ContainerIdentity,
    spec: dict[str, Any],
    kube_cgroup: CgroupIdentity | None,
) -> Container:
    # kubelet computes oom_score_adj from the memory request, which the engine therefore
    # derives from it. Outside of a pod the score says nothing about a request.
    score = None
    if kube_cgroup is not None:
        score = object_in(spec, "process").get("oomScoreAdj")
    is_integer = isinstance(score, int) and not isinstance(score, bool)
    return Container(
        name=identity.container,
        id=state.id,
        resources=from_oci(object_in(spec, "linux").get("resources")),
        oom_score_adj=score if is_integer else None,
    )


def _allocated_request(path: str, uid: str, name: str) -> int | None:
    """Return the memory request in kubelet's checkpoint; None if it is not there.

    The hook reads the file itself: it has a process of its own, whose deadline also
    holds for a slow disk.
    """
    # Late: most configurations do not need the memory request.
    from nriplugin.node.kubelet_checkpoint import read_checkpoint

    try:
        _, requests = read_checkpoint(path)
    except (OSError, NRIPluginError):
        return None  # the request is estimated
    return requests.get(uid, {}).get(name)


def _files_to_check(decision: Decision, config: EngineConfig) -> Mapping[str, str]:
    """Return the decided files, without a weight that the runtime has just set itself.

    A configuration that names no curve means the runtime's own curve. The hook cannot
    know which one that is, but the runtime has written cpu.weight by it a moment ago.
    A weight that another handler than `resources` decided is checked all the same.
    """
    files = decision.files
    weight = "cpu.weight"
    if config.curve is not None or weight not in files:
        return files
    if decision.why(weight).handler != RESOURCES:
        return files
    return {file: value for file, value in files.items() if file != weight}


def _refusals(decision: Decision) -> HookResult:
    """Return the warnings and refusals in a decision, sorted by who has to act."""
    result = HookResult([], list(decision.warnings))
    for refusal in decision.refused:
        lines = result.failures if refusal.reason in _FAILURES else result.remarks
        lines.append(f"{refusal.handler}: {refusal.text}")
    return result


def _write(
    decision: Decision,
    files: Mapping[str, str],
    node: DetectedNode,
    tree: Tree,
    cgroup: str,
    in_pod: bool,
    *,
    state_dir: str | None,
) -> list[str]:
    """Write the files and the direct writes; return one line per failure.

    Raises:
        HandlerFailed: a write of a handler with the failure policy `fail` failed.
        NRIPluginError: nothing could be written at all.
    """
    # Late: most containers hold every value already.
    from nriplugin.doors.hook.apply_files import apply_files

    handlers = {write.file: write.why.handler for write in decision.writes}
    handlers |= {file: decision.why(file).handler for file in files}
    try:
        outcomes = apply_files(
            files,
            decision.writes,
            node=node,
            tree=tree,
            cgroup=cgroup,
            in_pod=in_pod,
            state_dir=state_dir,
        )
    except NRIPluginError as exc:
        _fail_for(handlers.values(), decision, str(exc))
        raise
    return _failures(outcomes, decision, handlers)


def _failures(
    outcomes: Iterable[Outcome], decision: Decision, handlers: Mapping[str, str]
) -> list[str]:
    from nriplugin.cgroup.writing.updates import Status

    failures = []
    for outcome in outcomes:
        if outcome.status in (Status.FAILED, Status.REFUSED):
            handler = handlers.get(outcome.path.rpartition("/")[2], "")
            _fail_for([handler], decision, outcome.reason)
            failures.append(f"{handler}: {outcome.reason}")
    return failures


def _fail_for(handlers: Iterable[str], decision: Decision, reason: str) -> None:
    for handler in handlers:
        if handler in decision.settings.failing:
            raise HandlerFailed(handler, reason)


def _protection_gaps(decision: Decision, tree: Tree, cgroup: str) -> list[str]:
    """Say where memory.min or memory.low has no effect because of a cgroup above."""
    # Late: most decisions protect no memory.
    from nriplugin.node.protection import without_effect

    pod = cgroup.rpartition("/")[0]
    raised = decision.settings.of(MemoryQoSSettings).raise_ancestors
    gaps = without_effect(tree, pod, cgroup, decision.files, raised=raised)
    return [gap.text for gap in gaps]

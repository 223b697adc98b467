"""`nriplugin explain`: which cgroup v2 files the pods of a manifest would get, and why.

It needs no node: the options describe one. The decision itself is made by the same
engine as in `nriplugin run`.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.paths import Driver
from nriplugin.cli.printing import print_json, print_line, print_table
from nriplugin.convert.curves import AUTO, Curve, curve_named
from nriplugin.engine.decision import EXACT, RESOURCES
from nriplugin.engine.settings import DEFAULT_CONFIG
from nriplugin.errors import ConfigError
from nriplugin.explain import DEFAULT_KUBELET, TYPICAL_NODE, explain_pods
from nriplugin.kube.api_objects import read_node
from nriplugin.kube.capacity import node_capacity
from nriplugin.kube.manifests import read_manifests
from nriplugin.kube.quantity import value

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from nriplugin.engine.model import NodeFacts
    from nriplugin.explain import (
        ExplainedContainer,
        ExplainedFile,
        ExplainedPod,
        ExplainedWrite,
    )
    from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
    from nriplugin.kube.manifests import Manifests
    from nriplugin.kube.podgroup_object import GroupObject

# The least widths of a label and of `file = value`: most containers then line up.
LABEL_WIDTHS = (14,)
FILE_WIDTHS = (28,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="manifest with pods or workloads, YAML or JSON; - is standard input",
    )
    parser.add_argument(
        "--curve",
        choices=[AUTO, *Curve],
        help="the curve from cpu shares to cpu.weight (default: the one in the "
        f"configuration; `auto` is {curve_named(AUTO)} here)",
    )
    parser.add_argument("--config", metavar="FILE", help="configuration file, YAML")
    memory = parser.add_mutually_exclusive_group()
    memory.add_argument(
        "--node-memory",
        metavar="QUANTITY",
        help="the memory of a node without reservations, such as 64Gi; needed for "
        "containers without a memory limit, and to estimate memory requests that "
        "are in no checkpoint of kubelet's",
    )
    memory.add_argument(
        "--node",
        metavar="FILE",
        help="the Node object, as `kubectl get node NAME -o yaml` prints it; its "
        "capacity and its allocatable memory are used in place of --node-memory",
    )
    parser.add_argument(
        "--kubelet-config",
        metavar="FILE",
        help="the kubelet's configuration file; its reservations, quota period and "
        "MemoryQoS then count (default: a kubelet with default settings)",
    )
    parser.add_argument(
        "--driver",
        choices=[*Driver],
        help="the node's cgroup driver (default: the one in --kubelet-config, else "
        "systemd)",
    )
    parser.add_argument(
        "--oci-runtime",
        choices=["runc", "crun"],
        help="the node's OCI runtime, for pods without a runtimeClassName (default: "
        "crun, which accepts fewer combinations)",
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="assume that nriplugin may not write to cgroups itself, as with "
        "`run --read-only`; values that need such a write are left out",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list of pods")


def main(args: argparse.Namespace) -> int:
    """Explain every pod of every file; nothing is printed if a file has a mistake."""
    config, checkpoint = DEFAULT_CONFIG, True
    if args.config is not None:
        from nriplugin.config import read_config

        read = read_config(args.config)
        config, checkpoint = read.engine, read.kubelet_checkpoint.enabled
    if args.curve is not None:
        curve = None if args.curve == AUTO else Curve(args.curve)
        config = config._replace(curve=curve)
    kubelet = DEFAULT_KUBELET
    if args.kubelet_config is not None:
        from nriplugin.cli.kubelet_file import read_kubelet_file

        kubelet = read_kubelet_file(args.kubelet_config)
    facts = _facts(args, kubelet)
    explained: list[ExplainedPod] = []
    skipped: list[str] = []
    groups: list[GroupObject] = []
    for path in args.files:
        manifests = _read(path)
        explained += explain_pods(
            *(manifests.pods, path, config, facts, manifests.groups),
            kubelet=kubelet,
            checkpoint=checkpoint,
        )
        groups += manifests.groups
        skipped += [f"{entry.kind} {entry.name}" for entry in manifests.skipped]
    if args.json:
        print_json([dataclasses.asdict(pod) for pod in explained], indent=2)
        return 0
    for one in explained:
        _print_pod(one)
    for group in groups:
        _print_group(group)
    if skipped:
        print_line(f"skipped, no pods: {', '.join(skipped)}")
    elif not explained and not groups:
        print_line("no pods")
    return 0


def _facts(args: argparse.Namespace, kubelet: KubeletCapacitySettings) -> NodeFacts:
    """Return the facts of the node that the options describe."""
    memory, allocatable = _memory(args, kubelet)
    return TYPICAL_NODE._replace(
        driver=args.driver or kubelet.driver or Driver.SYSTEMD,
        oci_runtime=args.oci_runtime,
        memory_capacity_bytes=memory,
        memory_allocatable_bytes=allocatable,
        writable=not args.read_only,
    )


def _memory(
    args: argparse.Namespace, kubelet: KubeletCapacitySettings
) -> tuple[int | None, int | None]:
    """Return the node's memory, and what of it is left for pods.

    With --kubelet-config the latter is what the kubelet writes to the cgroup of all
    pods; without, it is what the Node reports.
    """
    if args.node_memory is not None:
        memory = value(args.node_memory, "--node-memory")
        left = memory
    elif args.node is not None:
        node = read_node(_documents(args.node), args.node)
        memory = value(node.capacity["memory"])
        left = value(node.allocatable.get("memory", memory))
    else:
        return None, None
    if args.kubelet_config is not None:
        capacity = node_capacity({"memory": memory}, kubelet)
        left = capacity.available_to_pods["memory"]
    return memory, left


def _read(path: str) -> Manifests:
    documents = _documents(path)
    try:
        return read_manifests(documents)
    except ConfigError as exc:
        raise ConfigError(f"{path}: {exc}") from exc


def _documents(path: str) -> list[object]:
    from nriplugin.documents import load_documents

    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as exc:
        raise ConfigError(
            f"{path}: cannot be read: {exc.strerror}, expected a manifest"
        ) from exc
    return load_documents(content, path)


def _print_pod(pod: ExplainedPod) -> None:
    name = pod.name if pod.namespace is None else f"{pod.namespace}/{pod.name}"
    print_line(f"{pod.kind} {name}")
    facts = [
        ("QoS class", pod.qos_class),
        ("curve", f"{pod.curve} ({pod.curve_evidence})"),
        *pod.cgroups.items(),
        ("kubelet writes", _joined(pod.pod_v2)),
    ]
    if pod.path not in ("", "spec.template"):
        facts.insert(0, ("template", pod.path))
    if pod.replicas is not None:
        facts.append(("replicas", str(pod.replicas)))
    if pod.task is not None:
        facts.append(("task", _task_text(pod.task)))
    if pod.added_annotations:
        facts.append(("annotations", _joined(pod.added_annotations)))
    print_table(facts, widths=LABEL_WIDTHS, indent=2)
    for container in pod.containers:
        _print_container(container)
    print_line()


def _task_text(task: Mapping[str, object]) -> str:
    """Return what the scheduler makes of a pod, in one line."""
    name = f"{task['name']} {task['index']}".strip() or "no task"
    parts = [f"{name} of {task['job']}", f"priority {task['priority']}"]
    if task["queue"]:
        parts.append(f"queue {task['queue']}")
    words = (("best_effort", "best effort"), ("preemptable", "preemptable"))
    parts += [word for key, word in words if task[key]]
    return ", ".join(parts)


def _print_group(group: GroupObject) -> None:
    name = group.name if group.namespace is None else f"{group.namespace}/{group.name}"
    print_line(f"PodGroup {name}")
    facts = [
        ("min members", str(group.min_member)),
        ("of tasks", _joined(group.min_task_member)),
        ("min resources", _joined(group.min_resources)),
        ("queue", group.queue),
        ("priority class", group.priority_class or "none"),
        ("phase", group.phase),
    ]
    if group.job:
        facts.append(("made for", f"the Volcano Job {group.job}"))
    print_table(facts, widths=LABEL_WIDTHS, indent=2)
    print_line()


def _print_container(container: ExplainedContainer) -> None:
    role = "" if container.role == "app" else f" ({container.role})"
    print_line(f"  container {container.name}{role}")
    requests = _joined(container.requests)
    if container.defaulted:
        requests += f" ({', '.join(container.defaulted)} from limits)"
    facts = [
        ("requests", requests),
        ("limits", _joined(container.limits)),
        ("kubelet sends", _joined(container.sent)),
    ]
    if container.settings:
        facts.append(("settings of", container.settings))
    if container.shadow:
        facts.append(("shadow mode", "these values are only shown, and not set"))
    print_table(facts, widths=LABEL_WIDTHS, indent=4)
    values = [(f"{f.file} = {f.value}", _reason(f)) for f in container.files]
    values += [(f"{w.file} = {w.value}", _written(w)) for w in container.writes]
    if values:
        print_table(values, widths=FILE_WIDTHS, indent=4)
    for field in container.cleared:
        print_line(f'    {field} cleared: sent as 0, which is "not given"')
    for left in container.left:
        print_line(f"    {left['what']} left alone: {left['why']}")
    for refusal in container.refused:
        print_line(f"    refused ({refusal['reason']}): {refusal['text']}")
    for clamped in container.clamped:
        print_line(
            f"    {clamped['field']} {clamped['given']} taken as {clamped['used']}: "
            f"{clamped['reason']}"
        )
    for dropped in container.dropped:
        print_line(f"    {dropped['field']} dropped: {dropped['reason']}")
    for note in container.notes:
        print_line(f"    note: {note}")


def _reason(file: ExplainedFile) -> str:
    if file.handler == RESOURCES:
        return f"from {', '.join(file.fields)}; {file.rule}"
    return f"{file.handler}: {file.rule}; {file.source}{_sure(file)}"


def _written(write: ExplainedWrite) -> str:
    return (
        f"{write.handler}: written to the {write.level}'s cgroup {write.when} the "
        f"runtime's; {write.rule}; {write.source}{_sure(write)}"
    )


def _sure(one: ExplainedFile | ExplainedWrite) -> str:
    return "" if one.confidence == EXACT else f" ({one.confidence})"


def _joined(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "none"

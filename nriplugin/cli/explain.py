"""`nriplugin explain`: which cgroup v2 files the pods of a manifest would get, and why.

It needs no node: the options describe one. The decision itself is made by the same
engine as in `nriplugin run`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.paths import Driver
from nriplugin.cli.explain_page import FOLDED, draw_group, draw_pod
from nriplugin.cli.layout import Tone, Toned
from nriplugin.cli.printing import add_output_argument, print_json_or_yaml, table_page
from nriplugin.cli.standard_input import read_standard_input
from nriplugin.convert.curves import AUTO, Curve, curve_named
from nriplugin.engine.settings import DEFAULT_CONFIG
from nriplugin.errors import ConfigError
from nriplugin.explain import (
    DEFAULT_KUBELET,
    TYPICAL_NODE,
    TYPICAL_V1_NODE,
    explain_pods,
)
from nriplugin.explained import explained_document
from nriplugin.kube.api_objects import read_node
from nriplugin.kube.capacity import node_capacity
from nriplugin.kube.manifests import read_manifests
from nriplugin.kube.quantity import value

if TYPE_CHECKING:
    import argparse

    from nriplugin.engine.model import NodeFacts
    from nriplugin.explained import ExplainedPod
    from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
    from nriplugin.kube.manifests import Manifests
    from nriplugin.kube.podgroup_object import GroupObject


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
        "--cgroup-version",
        type=int,
        choices=[1, 2],
        default=2,
        help="the node's cgroup version; with 1, nriplugin does direct writes only "
        "(default: 2)",
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
    parser.add_argument(
        "--details",
        action="store_true",
        help="also show what nriplugin does not change: requests, numbers, cgroups",
    )
    parser.add_argument(
        "--html", metavar="FILE", help="also write a page with a picture of each pod"
    )
    add_output_argument(parser, "how the pods are printed", alias=True)


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
    if args.html is not None:
        _write_page(explained, args.html)
    if args.output != "table":
        print_json_or_yaml(explained_document(explained, groups, skipped), args.output)
        return 0
    page = table_page()
    for one in explained:
        draw_pod(page, one, v1=facts.direct_only, details=args.details)
    for group in groups:
        draw_group(page, group)
    if skipped:
        page.text("skipped, no pods:", ", ".join(skipped))
    elif not explained and not groups:
        page.text("no pods")
    if explained and not args.details:
        page.text(Toned(FOLDED, Tone.FAINT))
    page.show()
    return 0


def _write_page(explained: list[ExplainedPod], path: str) -> None:
    from nriplugin.cli.explain_html import explained_html

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(explained_html(explained))
    except OSError as exc:
        raise ConfigError(
            f"--html: {path!r}: {exc.strerror}, expected a file to write"
        ) from exc


def _facts(args: argparse.Namespace, kubelet: KubeletCapacitySettings) -> NodeFacts:
    """Return the facts of the node that the options describe."""
    memory, allocatable = _memory(args, kubelet)
    typical = TYPICAL_NODE if args.cgroup_version == 2 else TYPICAL_V1_NODE
    return typical._replace(
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
        content = read_standard_input() if path == "-" else Path(path).read_bytes()
    except OSError as exc:
        raise ConfigError(
            f"{path}: cannot be read: {exc.strerror}, expected a manifest"
        ) from exc
    return load_documents(content, path)

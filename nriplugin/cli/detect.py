"""`nriplugin detect`: this node's cgroup version and driver, with the evidence.

Also the options --host-root and --cgroup-root, and the node that they name, for every
other command that looks at a node.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nriplugin.cgroup.locate.detect import ENV_HOST_ROOT, detect_node
from nriplugin.cgroup.types.registry import Type
from nriplugin.cli.printing import add_output_argument, print_document, table_page
from nriplugin.errors import CgroupError
from nriplugin.kube import kubelet_config

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.types.tree import Tree

# Types that depend on the kernel, not only on the cgroup version.
FEATURES = (
    Type.CPU_BURST,
    Type.CPU_IDLE,
    Type.CPU_PRESSURE,
    Type.CPU_QOS_LEVEL,
    Type.MEMORY_MIN,
    Type.MEMORY_HIGH,
    Type.MEMORY_OOM_GROUP,
    Type.MEMORY_PRESSURE,
    Type.MEMORY_QOS_LEVEL,
    Type.IO_BFQ_WEIGHT,
    Type.IO_PRESSURE,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_output_argument(parser, "how the node is printed", alias=True)
    add_node_arguments(parser)


def add_node_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say where the node's files are."""
    parser.add_argument(
        "--host-root",
        metavar="DIR",
        help=f"where the node's / is mounted (default: ${ENV_HOST_ROOT}, or /)",
    )
    parser.add_argument(
        "--cgroup-root",
        metavar="DIR",
        help="cgroups to use instead of /sys/fs/cgroup; may be a directory of ordinary "
        "files, such as a copy",
    )


def node_of(args: argparse.Namespace) -> DetectedNode:
    """Detect the node that the options name."""
    roots = (args.host_root, args.cgroup_root)
    return detect_node(os.environ, *roots, kubelet=kubelet_config)


def main(args: argparse.Namespace) -> int:
    """Detect and print."""
    facts = describe(node_of(args))
    if args.output != "table":
        print_document("DetectedNode", facts, args.output)
    else:
        page = table_page()
        page.table(list(_rows(facts)))
        page.show()
    return 0


def describe(node: DetectedNode) -> dict[str, Any]:
    """Return everything that was detected, as JSON can hold it."""
    version, driver = node.version, node.driver
    facts: dict[str, Any] = {
        "version": version.number,
        "version_evidence": version.evidence,
        "hybrid": version.hybrid or None,
        "cgroup_root": node.cgroup_root,
        "host_root": node.host_root,
        "unified_mounts": list(node.mounts.unified),
        "controllers": node.controllers(),
        "missing_controllers": node.missing_controllers(),
        "driver": str(driver.driver),
        "rungs": [
            {"name": rung.name, "evidence": rung.evidence, "driver": rung.driver}
            for rung in driver.rungs
        ],
        "kubelet_cgroup_root": "/" + "/".join(driver.kube_root),
        "kubelet_cgroup_root_evidence": driver.kube_root_evidence,
        "kubepods": node.paths.kubepods(),
        "kernel": os.uname().release,
    }
    try:
        tree = node.open_tree()
    except CgroupError as exc:
        return {**facts, "looked_at": None, "problem": str(exc), "features": {}}
    looked_at = _some_cgroup(tree, node.paths.kubepods())
    features = {}
    if looked_at is not None:
        for kind in FEATURES:
            support = tree.supported(kind, looked_at)
            features[str(kind)] = {
                "supported": support.supported,
                "reason": support.reason,
            }
    return {**facts, "looked_at": looked_at, "problem": None, "features": features}


def _some_cgroup(tree: Tree, kubepods: str) -> str | None:
    """Return a cgroup in which to look for files: kubepods, else any other.

    The root cgroup will not do, because it lacks most files.
    """
    try:
        tree.children(kubepods)
    except CgroupError:
        try:
            names = tree.children("/")
        except CgroupError:
            return None
        return f"/{names[0]}" if names else None
    return kubepods


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return what people read: a label and a text for each fact."""
    hybrid = " (hybrid)" if facts["hybrid"] else ""
    yield "cgroup version", f"{facts['version']}{hybrid}: {facts['version_evidence']}"
    if facts["hybrid"]:
        yield "hybrid", facts["hybrid"]
    yield "cgroup root", facts["cgroup_root"]
    yield "controllers", " ".join(facts["controllers"]) or "none found"
    if facts["missing_controllers"]:
        missing = " ".join(facts["missing_controllers"])
        yield "missing", f"{missing} (kubelet does not start without them)"
    yield "driver", facts["driver"]
    for rung in facts["rungs"]:
        answer = f"{rung['evidence']}" if rung["driver"] else f"- {rung['evidence']}"
        yield f"  {rung['name']}", answer
    root = facts["kubelet_cgroup_root"]
    yield "kubelet's root", f"{root} ({facts['kubelet_cgroup_root_evidence']})"
    yield "kubepods", facts["kubepods"]
    yield "kernel", facts["kernel"]
    if facts["problem"]:
        yield "problem", facts["problem"]
    elif facts["looked_at"] is None:
        yield "features", "no cgroup to look at"
    for kind, support in facts["features"].items():
        yield kind, "yes" if support["supported"] else f"no: {support['reason']}"

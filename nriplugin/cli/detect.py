"""`nriplugin detect`: what this node's cgroups are, and how we know."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nriplugin.cgroup.locate.detect import ENV_HOST_ROOT, detect_node
from nriplugin.cgroup.types.registry import Type
from nriplugin.cli.printing import print_json, print_line
from nriplugin.errors import CgroupError
from nriplugin.kube import kubelet_config

if TYPE_CHECKING:
    import argparse

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.types.tree import Tree

LABEL_WIDTH = 17

# What depends on the kernel rather than on the version of cgroups.
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
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    add_node_arguments(parser)


def add_node_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where the node's files are; for every command that looks at them."""
    parser.add_argument(
        "--host-root",
        metavar="DIR",
        help=f"where the node's own / is mounted (default: ${ENV_HOST_ROOT} or /)",
    )
    parser.add_argument(
        "--cgroup-root",
        metavar="DIR",
        help="a tree of cgroups to use instead of sys/fs/cgroup; may be plain files",
    )


def node_of(args: argparse.Namespace) -> DetectedNode:
    """Detect the node that the options name."""
    roots = (args.host_root, args.cgroup_root)
    return detect_node(os.environ, *roots, kubelet=kubelet_config)


def main(args: argparse.Namespace) -> int:
    """Detect and print."""
    facts = describe(node_of(args))
    if args.json:
        print_json(facts, indent=2)
    else:
        _print(facts)
    return 0


def describe(node: DetectedNode) -> dict[str, Any]:
    """Return everything that was detected, as JSON has it."""
    version, driver = node.version, node.driver
    facts: dict[str, Any] = {
        "version": version.number,
        "version_evidence": version.evidence,
        "hybrid": version.hybrid or None,
        "cgroup_root": node.cgroup_root,
        "host_root": node.host_root,
        "unified_mounts": list(node.mounts.unified),
        "controllers": node.controllers(),
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
    """Return a cgroup to look for files in; the root itself lacks most of them."""
    try:
        tree.children(kubepods)
    except CgroupError:
        try:
            names = tree.children("/")
        except CgroupError:
            return None
        return f"/{names[0]}" if names else None
    return kubepods


def _print(facts: dict[str, Any]) -> None:
    hybrid = " (hybrid)" if facts["hybrid"] else ""
    _line("cgroup version", f"{facts['version']}{hybrid}: {facts['version_evidence']}")
    if facts["hybrid"]:
        _line("hybrid", facts["hybrid"])
    _line("cgroup root", facts["cgroup_root"])
    _line("controllers", " ".join(facts["controllers"]) or "none found")
    _line("driver", facts["driver"])
    for rung in facts["rungs"]:
        answer = f"{rung['evidence']}" if rung["driver"] else f"- {rung['evidence']}"
        _line(f"  {rung['name']}", answer)
    root = facts["kubelet_cgroup_root"]
    _line("kubelet's root", f"{root} ({facts['kubelet_cgroup_root_evidence']})")
    _line("kubepods", facts["kubepods"])
    _line("kernel", facts["kernel"])
    if facts["problem"]:
        _line("problem", facts["problem"])
    elif facts["looked_at"] is None:
        _line("features", "no cgroup to look at")
    for kind, support in facts["features"].items():
        _line(kind, "yes" if support["supported"] else f"no: {support['reason']}")


def _line(label: str, text: str) -> None:
    print_line(f"{label.ljust(LABEL_WIDTH)} {text}")

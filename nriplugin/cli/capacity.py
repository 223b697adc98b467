"""`nriplugin capacity`: who may use how much of a node, on four levels.

It computes what kubelet means the cgroups of the node, the QoS classes, the pods and
the containers to hold, from kubelet's settings and the pods. `--check` compares that
with the cgroups that there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cli.capacity_daemon import decided_files
from nriplugin.cli.capacity_document import capacity_document
from nriplugin.cli.capacity_page import draw_differences, draw_report
from nriplugin.cli.capacity_pods import NodeToAsk, given_pods, pods_of_node
from nriplugin.cli.capacity_sources import driver_of, find_capacity, find_settings
from nriplugin.cli.container_names import ContainersOfDaemon
from nriplugin.cli.control_client import add_control_argument
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.printing import (
    add_output_argument,
    on_terminal,
    print_document,
    print_error,
    table_page,
)
from nriplugin.convert.curves import AUTO, Curve
from nriplugin.errors import CgroupError, ConfigError
from nriplugin.node.capacity_check import compare_levels, observed_curve
from nriplugin.node.capacity_report import capacity_report

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.kube.level_tree import CapacityReport
    from nriplugin.node.capacity_check import LevelDifference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.description = (
        "Shows a node's capacity, what is reserved, what its pods have requested, and "
        "the values that kubelet means the cgroups on its four levels to hold. Without "
        "options it is about this node."
    )
    parser.add_argument(
        "--node",
        metavar="FILE",
        help="the node, as `kubectl get node NAME -o yaml` prints it",
    )
    parser.add_argument(
        "--pods",
        metavar="FILE",
        action="append",
        help="its pods, as `kubectl get pods -A -o yaml` or `-o json` prints them; - "
        "is standard input (default: those of kubelet's checkpoint and the runtime)",
    )
    parser.add_argument(
        "--kubelet-config",
        metavar="FILE",
        help="kubelet's configuration (default: that of this node's kubelet)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare with the cgroups of this node; the exit code is 1 if one differs",
    )
    parser.add_argument(
        "--curve",
        choices=(AUTO, *Curve),
        default=AUTO,
        help="the runtime's curve from shares to weight (default: auto, the one that "
        "the containers of this node show)",
    )
    parser.add_argument("--svg", metavar="FILE", help="also draw it into this file")
    add_output_argument(parser, "how the report is printed")
    add_control_argument(parser)
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Compute, print, draw and compare."""
    if [args.node, *(args.pods or ())].count("-") > 1:
        raise ConfigError("--pods: '-', expected standard input only once")
    node = node_of(args)
    tree = _tree_of(node, args)
    build = _builder(args, node, tree)
    curve = None if args.curve == AUTO else Curve(args.curve)
    report = build(curve or Curve.QUADRATIC)
    if curve is None and tree is not None:
        observed = observed_curve(tree, report.tree)
        if observed is not Curve.QUADRATIC:
            report = build(observed)
    differences = None
    if args.check and tree is not None:
        decided = decided_files(ContainersOfDaemon(args), tree, report.tree.cgroup)
        meant = report.tree.with_decided(decided)
        differences = compare_levels(
            tree, meant, report.reserved, pods_are_complete=True
        )
    if args.svg is not None:
        _write_drawing(report, args.svg)
    _print(report, differences, args)
    return int(bool(differences))


def _tree_of(node: DetectedNode, args: argparse.Namespace) -> Tree | None:
    """Return the live tree if it is needed.

    Raises:
        ConfigError: --check is given, and the cgroups cannot be opened. The exit code
            of an internal error is that of a difference.
    """
    if not args.check and args.pods:
        return None
    try:
        return node.open_tree()
    except CgroupError as exc:
        if args.check:
            raise ConfigError(f"--check: {exc}, expected cgroups to compare") from exc
        return None


def _builder(
    args: argparse.Namespace, node: DetectedNode, tree: Tree | None
) -> Callable[[Curve], CapacityReport]:
    """Return what makes the report by a curve; files are read only once."""
    kubelet = find_settings(args, node)
    for problem in kubelet.problems:
        print_error(problem)
    settings = kubelet.settings
    found = find_capacity(args, settings)
    if args.pods:
        pods = given_pods(args, found.name if args.node is not None else None)
    else:
        asked = NodeToAsk(
            args.host_root or "/",
            kubelet.root_dir,
            kubelet.runtime_endpoint,
            found.capacity.capacity.get("memory", 0),
            ContainersOfDaemon(args),
            tree,
            node.paths.kubepods(),
        )
        pods = pods_of_node(asked)
    driver = driver_of(node, settings)
    sources = (
        found.source,
        kubelet.source,
        pods.source,
        f"cgroup driver: {driver}",
    )

    def build(curve: Curve) -> CapacityReport:
        return capacity_report(
            found.name,
            sources,
            found.capacity,
            settings,
            pods.pods,
            driver,
            curve=curve,
            swap_bytes=found.swap_bytes,
        )

    return build


def _write_drawing(report: CapacityReport, path: str) -> None:
    from nriplugin.cli.capacity_svg import capacity_svg

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(capacity_svg(report))
    except OSError as exc:
        raise ConfigError(
            f"--svg: {path!r}: {exc.strerror}, expected a file to write"
        ) from exc


def _print(
    report: CapacityReport,
    differences: list[LevelDifference] | None,
    args: argparse.Namespace,
) -> None:
    if args.output != "table":
        found = capacity_document(report, differences)
        print_document("Capacity", found, args.output)
    else:
        terminal = on_terminal()
        page = table_page()
        if differences is None:
            draw_report(page, report, bars=terminal)
        else:
            draw_differences(page, report, differences)
        page.show()

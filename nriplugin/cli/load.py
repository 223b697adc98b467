"""`nriplugin load`: how many tasks of each pod run, sleep or wait, and the pressure.

On cgroup v2 the states come from /proc, thread by thread, and the pressure from the
cgroup's files. On v1 the kernel counts (taskstats), where it allows that.
"""

from __future__ import annotations

from contextlib import ExitStack
from errno import ELOOP, ENOTDIR, EXDEV
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.tasks.states import GONE, tasks_below
from nriplugin.cgroup.types.reader import Reader
from nriplugin.cgroup.types.tree import Tree
from nriplugin.cli.container_names import CgroupNames
from nriplugin.cli.control_client import add_control_argument
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.labels import cgroup_label, unseen_tasks
from nriplugin.cli.layout import titles
from nriplugin.cli.printing import (
    add_output_argument,
    print_document,
    print_error,
    table_page,
)
from nriplugin.errors import CgroupError, ConfigError
from nriplugin.node.pod_usage import RESOURCES
from nriplugin.node.task_readers import open_states_reader

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.tasks.states import CgroupTasks, StatesReader, TaskStates
    from nriplugin.cgroup.types.formats import Pressure

# The errors of a path that leads nowhere, or out of the tree.
_NO_CGROUP = (*GONE, ENOTDIR, ELOOP, EXDEV)
COLUMNS = ("RUNNING", "SLEEPING", "STOPPED", "UNINTERRUPTIBLE", "IO-WAIT")


class LoadRow(NamedTuple):
    """A cgroup with its tasks, and the pressure where it is measured."""

    cgroup: str
    states: TaskStates
    pressure: dict[str, Pressure | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help="a cgroup, such as /kubepods/burstable (default: every pod)",
    )
    parser.add_argument(
        "-r",
        "--recursive",
        action="store_true",
        help="list every cgroup below PATH, too; without this, their tasks are only "
        "counted into PATH",
    )
    add_output_argument(parser, "how the tasks are printed", alias=True)
    add_control_argument(parser)
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Count and print; standard error says how many tasks could not be seen."""
    node = node_of(args)
    with ExitStack() as opened:
        files = opened.enter_context(node.open_files())
        tree = Tree(files, node.version.number)
        reader = open_states_reader(node, files, opened)
        rows = _rows(node, tree, reader, args)
    if args.output != "table":
        cgroups = [_as_json(row) for row in rows]
        print_document("Load", {"cgroups": cgroups}, args.output)
    else:
        names = CgroupNames(args, [row.cgroup for row in rows])
        _print_table(rows, names, with_pressure=node.version.number == 2)
    unseen = rows[0].states.unseen
    if unseen:
        print_error(unseen_tasks(unseen))
    return 0


def _rows(
    node: DetectedNode, tree: Tree, reader: StatesReader, args: argparse.Namespace
) -> list[LoadRow]:
    cgroup = _below_root(node, args.path) if args.path else node.paths.kubepods()
    try:
        found = tasks_below(tree.children, reader, cgroup)
    except CgroupError as exc:
        if exc.errno not in _NO_CGROUP:
            raise
        named = f"PATH: {args.path!r}" if args.path else f"pods: {cgroup!r}"
        raise ConfigError(
            f"{named}, expected a cgroup below {node.cgroup_root}"
        ) from exc
    if not args.path:
        found = [one for one in found if _is_shown(one)]
    elif not args.recursive:
        found = found[:1]
    pressure = Reader(tree) if node.version.number == 2 else None
    return [LoadRow(one.cgroup, one.states, _pressure(pressure, one)) for one in found]


def _below_root(node: DetectedNode, path: str) -> str:
    """Return the cgroup that a path names; its directory is understood as well."""
    roots = [*node.mounts.hierarchies.values(), node.cgroup_root]
    for root in sorted(roots, key=len, reverse=True):
        if path == root or path.startswith(f"{root}/"):
            path = path.removeprefix(root) or "/"
            break
    if path[:1] != "/":
        raise ConfigError(f"PATH: {path!r}, expected a cgroup that begins with /")
    return path.rstrip("/") or "/"


def _is_shown(tasks: CgroupTasks) -> bool:
    """Whether kubelet or the runtime made the cgroup, rather than a container."""
    place = identify(tasks.cgroup)
    return place is not None and not place.inner


def _pressure(reader: Reader | None, tasks: CgroupTasks) -> dict[str, Pressure | None]:
    if reader is None:
        return {}
    try:
        return {name: reader.pressure(tasks.cgroup, name) for name in RESOURCES}
    except CgroupError:
        return dict.fromkeys(RESOURCES)  # it went away after its tasks were counted


def _as_json(row: LoadRow) -> dict[str, object]:
    place = identify(row.cgroup)
    return {
        "cgroup": row.cgroup,
        "level": None if place is None else place.level,
        "qos_class": None if place is None else place.qos_class,
        "pod_uid": None if place is None else place.pod_uid,
        "container_id": None if place is None else place.container_id,
        "tasks": row.states._asdict(),
        "pressure": {
            name: None if pressure is None else pressure.as_dict()
            for name, pressure in row.pressure.items()
        },
    }


def _print_table(
    rows: list[LoadRow], names: CgroupNames, *, with_pressure: bool
) -> None:
    head = ["CGROUP", *COLUMNS]
    if with_pressure:
        head += [f"{name} %" for name in RESOURCES]
    lines: list[Sequence[str]] = [titles(*head)]
    top = _depth(rows[0].cgroup)
    for row in rows:
        states = row.states
        counts = [
            states.running,
            states.sleeping,
            states.stopped,
            states.uninterruptible,
            states.io_wait,
        ]
        indent = "  " * (_depth(row.cgroup) - top)
        line = [indent + cgroup_label(row.cgroup, names), *map(str, counts)]
        line += [
            "-" if pressure is None else f"{pressure.some.avg10:.2f}"
            for pressure in row.pressure.values()
        ]
        lines.append(line)
    page = table_page()
    page.table(lines, numbers=True)
    page.show()


def _depth(cgroup: str) -> int:
    return len([part for part in cgroup.split("/") if part])

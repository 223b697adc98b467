"""`nriplugin load`: what the tasks of the node's pods are doing."""

from __future__ import annotations

from contextlib import ExitStack
from errno import ELOOP, ENOTDIR, EXDEV
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.tasks.states import GONE, CountOrWalk, ThreadWalk, tasks_below
from nriplugin.cgroup.types.reader import Reader
from nriplugin.cgroup.types.tree import Tree
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.printing import print_error, print_json, print_table
from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    import argparse

    from nriplugin.cgroup.files import Files
    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.tasks.states import CgroupTasks, StatesReader, TaskStates
    from nriplugin.cgroup.types.formats import Pressure

RESOURCES = ("cpu", "memory", "io")
# Of a container's ID: as much as other tools show.
SHORT_ID = 13
# What it means that a name leads nowhere, or out of the tree.
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
        help="a cgroup, such as /kubepods/burstable (default: all pods, one by one)",
    )
    parser.add_argument(
        "-r",
        "--recursive",
        action="store_true",
        help="also list every cgroup below PATH; its tasks are counted either way",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Count and print; tasks that cannot be seen are told of on standard error."""
    node = node_of(args)
    with ExitStack() as opened:
        files = opened.enter_context(node.open_files())
        tree = Tree(files, node.version.number)
        reader = _states_reader(node, files, opened)
        rows = _rows(node, tree, reader, args)
    if args.json:
        print_json([_as_json(row) for row in rows])
    else:
        _print_table(rows, with_pressure=node.version.number == 2)
    unseen = rows[0].states.unseen
    if unseen:
        print_error(
            f"{unseen} tasks are not visible from this PID namespace and "
            "not in the table: run in the node's own (hostPID: true)"
        )
    return 0


def _states_reader(node: DetectedNode, files: Files, opened: ExitStack) -> StatesReader:
    from nriplugin.cgroup.files import PROC_MAGIC, LocalFiles

    # Our own, even where the host's is mounted: tasks have the reader's numbers.
    proc = opened.enter_context(LocalFiles("/proc", (PROC_MAGIC,)))
    walk = ThreadWalk(files, proc, node.version.number)
    if node.version.number == 2:
        return walk
    from nriplugin.cgroup.tasks.taskstats import CgroupStats

    hierarchies = node.mounts.hierarchies
    directory = hierarchies.get("cpu", f"{node.cgroup_root}/cpu")
    return CountOrWalk(opened.enter_context(CgroupStats(directory)), walk)


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
    """Return the cgroup; the directory on the machine is understood as well."""
    roots = [*node.mounts.hierarchies.values(), node.cgroup_root]
    for root in sorted(roots, key=len, reverse=True):
        if path == root or path.startswith(f"{root}/"):
            path = path.removeprefix(root) or "/"
            break
    if path[:1] != "/":
        raise ConfigError(f"PATH: {path!r}, expected a cgroup that begins with /")
    return path.rstrip("/") or "/"


def _is_shown(tasks: CgroupTasks) -> bool:
    """Whether it is a pod's or container's own, not one that a container made."""
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


def _print_table(rows: list[LoadRow], with_pressure: bool) -> None:
    titles = ["CGROUP", *COLUMNS]
    if with_pressure:
        titles += [f"{name.upper()} %" for name in RESOURCES]
    lines = [titles]
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
        line = [indent + _label(row.cgroup), *map(str, counts)]
        line += [
            "-" if pressure is None else f"{pressure.some.avg10:.2f}"
            for pressure in row.pressure.values()
        ]
        lines.append(line)
    print_table(lines, numbers=True)


def _depth(cgroup: str) -> int:
    return len([part for part in cgroup.split("/") if part])


def _label(cgroup: str) -> str:
    place = identify(cgroup)
    if place is None or place.inner:
        return cgroup.rpartition("/")[2] or "/"
    if place.container_id is not None:
        kind = "conmon" if place.conmon else "container"
        return f"{kind} {place.container_id[:SHORT_ID]}"
    if place.pod_uid is not None:
        return f"pod {place.pod_uid}"
    return "kubepods" if place.qos_class is None else place.qos_class

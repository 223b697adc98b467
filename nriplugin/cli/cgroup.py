"""`nriplugin cgroup`: shows and changes values in the cgroups of the node's pods.

A value is named by its resource type, such as `cpu.cfs_quota_us`, on cgroup v1 and v2
alike; the registry of types knows the file and the format. `tree` shows the main values
of all pods, `get` one type, and `set` is in cgroup_set.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nriplugin.cgroup.locate.walk import find, walk
from nriplugin.cgroup.types.formats import UNLIMITED, Pressure
from nriplugin.cgroup.types.registry import Type
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.labels import cgroup_label
from nriplugin.cli.printing import print_json, print_line, print_table
from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    import argparse

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.locate.walk import FoundCgroup
    from nriplugin.cgroup.types.registry import Resource
    from nriplugin.cgroup.types.tree import Tree

# The columns of `tree`; a type that this node's cgroup version lacks has no column.
SHOWN = (
    Type.CPU_SHARES,
    Type.CPU_WEIGHT,
    Type.CPU_QUOTA,
    Type.CPU_PERIOD,
    Type.CPUSET_CPUS,
    Type.MEMORY_LIMIT,
    Type.MEMORY_USAGE,
    Type.PIDS_CURRENT,
)

WHERE = "a cgroup such as /kubepods/burstable, a pod UID or a container ID"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the three commands and their options."""
    commands = parser.add_subparsers(metavar="WHAT", required=True)
    tree = commands.add_parser(
        "tree", help="show QoS classes, pods and containers with their main values"
    )
    tree.add_argument("--json", action="store_true", help="print a JSON list")
    tree.set_defaults(what=_tree)
    get = commands.add_parser("get", help="show one resource type")
    get.add_argument("type", metavar="TYPE", help="such as cpu.cfs_quota_us")
    get.add_argument(
        "where", metavar="WHERE", nargs="?", help=f"{WHERE} (default: all of kubepods)"
    )
    get.add_argument("--json", action="store_true", help="print a JSON list")
    get.set_defaults(what=_get)
    change = commands.add_parser("set", help="change one resource type of one cgroup")
    change.add_argument("type", metavar="TYPE", help="such as memory.high")
    change.add_argument("where", metavar="WHERE", help=WHERE)
    change.add_argument(
        "value", metavar="VALUE", help="a number, `max` for no limit, or such as 512Mi"
    )
    change.add_argument(
        "--dry-run", action="store_true", help="print the change, write nothing"
    )
    change.add_argument(
        "--state-dir",
        metavar="DIR",
        help="directory of the journal, which keeps the old value for "
        "`nriplugin restore` (default: $NRIPLUGIN_STATE_DIR, or /var/lib/nriplugin)",
    )
    change.set_defaults(what=_set)
    for command in (tree, get, change):
        add_node_arguments(command)


def main(args: argparse.Namespace) -> int:
    """Run tree, get or set."""
    return int(args.what(args))


def _tree(args: argparse.Namespace) -> int:
    node = node_of(args)
    tree = node.open_tree()
    resources = [one for one in tree.registry if one.type in SHOWN]
    resources.sort(key=lambda one: SHOWN.index(Type(one.type)))
    rows = []
    for found in walk(tree, node.paths.kubepods()):
        values = {str(one.type): _value(tree, one, found.cgroup) for one in resources}
        rows.append((found, values))
    if args.json:
        print_json([{**_described(found), "values": v} for found, v in rows])
        return 0
    table = [["CGROUP", *(str(one.type).upper() for one in resources)]]
    for found, values in rows:
        label = "  " * found.depth + cgroup_label(found.cgroup)
        table.append([label, *(shown(value) for value in values.values())])
    print_table(table)
    return 0


def _get(args: argparse.Namespace) -> int:
    node = node_of(args)
    tree = node.open_tree()
    resource = resource_named(tree, args.type)
    if args.where is None:
        cgroups = [found.cgroup for found in walk(tree, node.paths.kubepods())]
        rows = [(cgroup, _value(tree, resource, cgroup)) for cgroup in cgroups]
    else:
        cgroup = cgroup_named(tree, node, args.where)
        check_support(tree, resource, cgroup)
        rows = [(cgroup, plain(tree.get(resource.type, cgroup)))]
    if args.json:
        kind = str(resource.type)
        entries = [
            {"type": kind, "cgroup": cgroup, "path": resource.path(cgroup), "value": v}
            for cgroup, v in rows
        ]
        print_json(entries)
    elif args.where is not None:
        for line in _lines(rows[0][1]):
            print_line(line)
    else:
        print_table([[cgroup, shown(value)] for cgroup, value in rows])
    return 0


def _set(args: argparse.Namespace) -> int:
    # Late: only `set` needs the journal and its database.
    from nriplugin.cli.cgroup_set import set_value

    return set_value(args)


def resource_named(tree: Tree, name: str) -> Resource:
    """Find a type by its name, or by a file name that belongs to one type only.

    Raises:
        ConfigError: this version has no such type.
    """
    try:
        return tree.registry.get(name)
    except ConfigError:
        by_file = [one for one in tree.registry if one.file == name]
        if len(by_file) == 1:
            return by_file[0]
        if by_file:
            types = " or ".join(str(one.type) for one in by_file)
            raise ConfigError(f"TYPE: {name!r}, expected {types}") from None
        known = ", ".join(sorted(str(one.type) for one in tree.registry))
        raise ConfigError(f"TYPE: {name!r}, expected one of {known}") from None


def cgroup_named(tree: Tree, node: DetectedNode, where: str) -> str:
    """Find the cgroup that a path, a pod UID or a container ID names.

    Raises:
        ConfigError: no cgroup has this name, or several have.
    """
    if where.startswith("/"):
        return where.rstrip("/") or "/"
    kubepods = node.paths.kubepods()
    found = find(tree, kubepods, where)
    if len(found) == 1:
        return found[0].cgroup
    expected = f"{WHERE} below {kubepods}"
    if found:
        expected = f"one of {', '.join(one.cgroup for one in found)}"
    raise ConfigError(f"WHERE: {where!r}, expected {expected}")


def check_support(tree: Tree, resource: Resource, cgroup: str) -> None:
    """Check that a cgroup has the file of a type.

    Raises:
        ConfigError: it does not; the text says what the node would need.
    """
    support = tree.supported(resource.type, cgroup)
    if not support:
        kind = str(resource.type)
        raise ConfigError(f"TYPE: {kind!r} is not supported here: {support.reason}")


def plain(value: Any) -> Any:  # noqa: ANN401 # by type, as Tree.get
    """Return a value of a resource as JSON can hold it."""
    if isinstance(value, Pressure):
        return value.as_dict()
    return list(value) if isinstance(value, tuple) else value


def shown(value: Any) -> str:  # noqa: ANN401 # by type, as Tree.get
    """Return a value as text for people: `-` for none, `max` for no limit."""
    if value is None or value == "":
        return "-"
    if value == UNLIMITED and isinstance(value, int):
        return "max"
    return value if isinstance(value, str) else json.dumps(value)


def _value(tree: Tree, resource: Resource, cgroup: str) -> Any:  # noqa: ANN401
    """Return a value as JSON can hold it, or None if it cannot be read."""
    try:
        return plain(tree.get(resource.type, cgroup))
    except CgroupError:
        return None


def _lines(value: Any) -> list[str]:  # noqa: ANN401
    if isinstance(value, dict):
        return [f"{key} {shown(one)}" for key, one in value.items()]
    if isinstance(value, list):
        return [str(one) for one in value]
    return shown(value).split("\n")


def _described(found: FoundCgroup) -> dict[str, Any]:
    place = found.identity
    return {
        "cgroup": found.cgroup,
        "level": place.level,
        "qos_class": place.qos_class,
        "pod_uid": place.pod_uid,
        "container_id": place.container_id,
        "runtime": place.runtime,
        "conmon": place.conmon,
        "inner": "/".join(place.inner) or None,
    }

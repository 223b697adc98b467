"""`nriplugin cgroup`: look at the node's kube cgroups, and change them, by type."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nriplugin.cgroup.locate.walk import find, walk
from nriplugin.cgroup.types.formats import UNLIMITED, Pressure
from nriplugin.cgroup.types.registry import Type
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.printing import print_json, print_line, print_table
from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    import argparse

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.locate.walk import FoundCgroup
    from nriplugin.cgroup.types.registry import Resource
    from nriplugin.cgroup.types.tree import Tree

# What `tree` shows; those that this version does not have are left out.
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
# Of a container's ID: as much as other tools show.
SHORT_ID = 13

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
        "value", metavar="VALUE", help="a number, max for none, or 512Mi for memory"
    )
    change.add_argument(
        "--dry-run", action="store_true", help="say what would be written"
    )
    change.add_argument(
        "--state-dir",
        metavar="DIR",
        help="where the old value is kept for `nriplugin restore`",
    )
    change.set_defaults(what=_set)
    for command in (tree, get, change):
        add_node_arguments(command)


def main(args: argparse.Namespace) -> int:
    """Do one of the three."""
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
        table.append([_label(found), *(shown(value) for value in values.values())])
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
    # Late: the journal's database is only for those who write.
    from nriplugin.cli.cgroup_set import set_value

    return set_value(args)


def resource_named(tree: Tree, name: str) -> Resource:
    """Find a type by its name, or by that of a file that is no other's.

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
        ConfigError: there is none, or more than one.
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
    """Refuse what this node does not have.

    Raises:
        ConfigError: with what it would need.
    """
    support = tree.supported(resource.type, cgroup)
    if not support:
        kind = str(resource.type)
        raise ConfigError(f"TYPE: {kind!r} is not supported here: {support.reason}")


def plain(value: Any) -> Any:  # noqa: ANN401 # by type, as Tree.get
    """Return a value as JSON has it."""
    if isinstance(value, Pressure):
        return value.as_dict()
    return list(value) if isinstance(value, tuple) else value


def shown(value: Any) -> str:  # noqa: ANN401 # by type, as Tree.get
    """Return a value as people read it."""
    if value is None or value == "":
        return "-"
    if value == UNLIMITED and isinstance(value, int):
        return "max"
    return value if isinstance(value, str) else json.dumps(value)


def _value(tree: Tree, resource: Resource, cgroup: str) -> Any:  # noqa: ANN401
    """Return a value, or None if there is none to be had."""
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


def _label(found: FoundCgroup) -> str:
    place = found.identity
    if place.inner:
        name = place.inner[-1]
    elif place.container_id is not None:
        who = "conmon of" if place.conmon else "container"
        name = f"{who} {place.container_id[:SHORT_ID]}"
    elif place.pod_uid is not None:
        name = f"pod {place.pod_uid}"
    else:
        name = place.qos_class or found.cgroup
    return "  " * found.depth + name

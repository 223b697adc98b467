"""`nriplugin cgroup`: shows and changes values in the cgroups of the node's pods.

A value is named by its resource type, such as `cpu.cfs_quota_us`, on cgroup v1 and v2
alike; the registry of types knows the file and the format. `tree` shows the main values
of all pods, `get` one type, and `set` is in cgroup_set.py.
"""

from __future__ import annotations

import json
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.locate.walk import find, walk
from nriplugin.cgroup.types.formats import UNLIMITED, Pressure
from nriplugin.cgroup.types.registry import Registry, Type
from nriplugin.cli.container_names import CgroupNames
from nriplugin.cli.control_client import add_control_argument
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.labels import cgroup_label
from nriplugin.cli.layout import titles
from nriplugin.cli.printing import (
    add_output_argument,
    print_document,
    print_line,
    table_page,
)
from nriplugin.errors import CgroupError, ConfigError
from nriplugin.suggestions import suggestion

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

# What the other version of cgroups has in the place of a type, on another scale.
_COUNTERPARTS = {
    Type.CPU_SHARES: Type.CPU_WEIGHT,
    Type.CPU_WEIGHT: Type.CPU_SHARES,
    Type.MEMORY_MEMSW: Type.MEMORY_SWAP,
    Type.MEMORY_SWAP: Type.MEMORY_MEMSW,
    Type.MEMORY_FAILCNT: Type.MEMORY_EVENTS,
    Type.BLKIO_WEIGHT: Type.IO_WEIGHT,
    Type.IO_WEIGHT: Type.BLKIO_WEIGHT,
}

WHERE = "a cgroup such as /kubepods/burstable, a pod UID or a container ID"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the three commands and their options."""
    commands = parser.add_subparsers(metavar="WHAT", required=True)
    tree = commands.add_parser(
        "tree", help="show QoS classes, pods and containers with their main values"
    )
    add_output_argument(tree, "how the cgroups are printed", alias=True)
    tree.set_defaults(what=_tree)
    get = commands.add_parser("get", help="show one resource type")
    get.add_argument("type", metavar="TYPE", help="such as cpu.max")
    get.add_argument(
        "where", metavar="WHERE", nargs="?", help=f"{WHERE} (default: all of kubepods)"
    )
    add_output_argument(get, "how the values are printed", alias=True)
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
    add_output_argument(change, "how the change is printed")
    for command in (tree, get):
        add_control_argument(command)
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
    names = CgroupNames(args, [found.cgroup for found, _ in rows])
    if args.output != "table":
        listed = [{**_described(found, names), "values": v} for found, v in rows]
        print_document("CgroupTree", {"cgroups": listed}, args.output)
        return 0
    columns = [
        (file, [str(one.type) for one in of_file])
        for file, of_file in groupby(resources, key=attrgetter("file"))
    ]
    table = [titles("cgroup", *(file for file, _ in columns))]
    for found, values in rows:
        label = "  " * found.depth + cgroup_label(found.cgroup, names)
        # A file with several types, such as cpu.max, is shown as the kernel shows it.
        cells = [
            " ".join(shown(values[kind]) for kind in kinds) for _, kinds in columns
        ]
        table.append((label, *cells))
    page = table_page()
    page.table(table, values=True)
    page.show()
    return 0


def _get(args: argparse.Namespace) -> int:
    node = node_of(args)
    tree = node.open_tree()
    kinds = resources_named(tree, args.type)
    if args.where is None:
        cgroups = [found.cgroup for found in walk(tree, node.paths.kubepods())]
        rows = [(cgroup, _content(tree, kinds, cgroup)) for cgroup in cgroups]
    else:
        cgroup = cgroup_named(tree, node, args.where)
        check_support(tree, kinds[0], cgroup)
        rows = [(cgroup, _read(tree, kinds, cgroup))]
    if args.output != "table":
        kind = str(kinds[0].type) if len(kinds) == 1 else kinds[0].file
        entries = [
            {"type": kind, "cgroup": cgroup, "path": kinds[0].path(cgroup), "value": v}
            for cgroup, v in rows
        ]
        print_document("CgroupValues", {"values": entries}, args.output)
    elif args.where is not None:
        for line in _lines(rows[0][1]):
            print_line(line)
    else:
        names = CgroupNames(args, [cgroup for cgroup, _ in rows])
        page = table_page()
        page.table([_labelled(cgroup, shown(value), names) for cgroup, value in rows])
        page.show()
    return 0


def _labelled(cgroup: str, value: str, names: CgroupNames) -> tuple[str, ...]:
    """Return a row: the path, the value, and the name of a pod or container."""
    place = identify(cgroup)
    parts: list[str] = []
    if place is not None and place.pod_uid:
        parts += names.pod(place.pod_uid) or ()
        container = place.container_id and names.container(place.container_id)
        parts += [container] if container else []
    return (cgroup, value, "/".join(parts))


def _set(args: argparse.Namespace) -> int:
    # Late: only `set` needs the journal and its database.
    from nriplugin.cli.cgroup_set import set_value

    return set_value(args)


def resources_named(tree: Tree, name: str) -> list[Resource]:
    """Find a type by its name, or all types of a file by the name of the file.

    Raises:
        ConfigError: this version has no such type, and no such file.
    """
    try:
        return [tree.registry.get(name)]
    except ConfigError:
        by_file = [one for one in tree.registry if one.file == name]
        if by_file:
            return by_file
        if instead := _instead(tree, name):
            raise ConfigError(
                f"TYPE: {name!r}, which cgroup v{tree.version} does not have, "
                f"expected {' or '.join(instead)}"
            ) from None
        names = {str(one.type) for one in tree.registry}
        names |= {one.file for one in tree.registry}
        raise ConfigError(
            f"TYPE: {name!r}, expected one of {', '.join(sorted(names))}"
            f"{suggestion(name, names)}"
        ) from None


def _instead(tree: Tree, name: str) -> list[str]:
    """Return the types of this version for a type or file of the other version."""
    here = {one.type for one in tree.registry}
    others = [
        Type(one.type)
        for one in Registry(1 if tree.version == 2 else 2)
        if name in (one.type, one.file)
    ]
    types = [one if one in here else _COUNTERPARTS.get(one) for one in others]
    return [str(one) for one in types if one in here]


def resource_named(tree: Tree, name: str) -> Resource:
    """Find a type by its name, or by a file name that belongs to one type only.

    Raises:
        ConfigError: this version has no such type, or the file has several.
    """
    first, *more = resources_named(tree, name)
    if more:
        types = " or ".join(str(one.type) for one in (first, *more))
        raise ConfigError(f"TYPE: {name!r}, expected {types}")
    return first


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
    return _content(tree, [resource], cgroup)


def _content(tree: Tree, kinds: list[Resource], cgroup: str) -> Any:  # noqa: ANN401
    try:
        return _read(tree, kinds, cgroup)
    except CgroupError:
        return None


def _read(tree: Tree, kinds: list[Resource], cgroup: str) -> Any:  # noqa: ANN401
    """Return the value of a type; of a file with several, its content."""
    if len(kinds) > 1:
        return tree.files.read(kinds[0].path(cgroup)).strip()
    return plain(tree.get(kinds[0].type, cgroup))


def _lines(value: Any) -> list[str]:  # noqa: ANN401
    if isinstance(value, dict):
        return [f"{key} {shown(one)}" for key, one in value.items()]
    if isinstance(value, list):
        return [str(one) for one in value]
    return shown(value).split("\n")


def _described(found: FoundCgroup, names: CgroupNames) -> dict[str, Any]:
    place = found.identity
    pod = names.pod(place.pod_uid) if place.pod_uid else None
    container = names.container(place.container_id) if place.container_id else None
    return {
        "cgroup": found.cgroup,
        "level": place.level,
        "qos_class": place.qos_class,
        "pod_uid": place.pod_uid,
        "container_id": place.container_id,
        "namespace": pod and pod[0],
        "pod": pod and pod[1],
        "container": container,
        "runtime": place.runtime,
        "conmon": place.conmon,
        "inner": "/".join(place.inner) or None,
    }

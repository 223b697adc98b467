"""`nriplugin cgroup set`: writes one value of one cgroup below kubepods.

The value is checked first, the original is journalled, so that `nriplugin restore` can
undo the change, and the file is read again after the write. Shares and weights are
converted to the one that this node's cgroup version has.
"""

from __future__ import annotations

from contextlib import ExitStack
from errno import EIO
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.types.registry import Registry, Type
from nriplugin.cgroup.types.tree import Tree
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Update
from nriplugin.cli.cgroup import (
    cgroup_named,
    check_support,
    plain,
    resource_named,
    shown,
)
from nriplugin.cli.detect import node_of
from nriplugin.cli.printing import print_document, print_error, print_line
from nriplugin.convert.curves import AUTO, curve_named, shares_of, weight_of
from nriplugin.errors import CgroupError, ConfigError
from nriplugin.node.state_directory import state_directory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from nriplugin.cgroup.types.registry import Resource

ORIGIN = "nriplugin cgroup set"


def set_value(args: argparse.Namespace) -> int:
    """Write the value and print old and new; a mistake is raised before any write."""
    node = node_of(args)
    with ExitStack() as opened:
        files = opened.enter_context(node.open_files())
        tree = Tree(files, node.version.number)
        tell = print_line if args.output == "table" else print_error
        resource, value = wanted(tree, args.type, args.value, tell)
        cgroup = cgroup_named(tree, node, args.where)
        if identify(cgroup) is None:
            kubepods = node.paths.kubepods()
            raise ConfigError(f"WHERE: {args.where!r}, expected {kubepods} or below")
        _check_text(args.where)
        resource.validate(value)
        check_support(tree, resource, cgroup)
        path = resource.path(cgroup)
        before = tree.files.read(path)
        content = resource.format(value, before).strip()
        if args.dry_run:
            now = before.strip()
            if args.output != "table":
                change = {"path": path, "before": now, "after": content}
                print_document("CgroupChange", {**change, "dryRun": True}, args.output)
            else:
                print_line(f"would write {content!r} to {path}, which is {now!r}")
            return 0
        directory = state_directory(node, args.state_dir)
        journal = None
        if directory is not None:
            journal = opened.enter_context(Journal(directory))
        executor = Executor(tree, journal=journal, writer=node.writer())
        update = Update(resource.type, cgroup, value, origin=ORIGIN)
        outcome = executor.update(update, cacheable=False)
        if not outcome.ok:
            reason = outcome.reason or str(outcome.status)
            number = outcome.errno or EIO
            raise CgroupError("write", path, content, number, reason)
        if outcome.reason:
            print_error(outcome.reason)
        old = plain(resource.parse_at(path, before))
        new = plain(tree.get(resource.type, cgroup))
        if args.output != "table":
            change = {"path": path, "before": shown(old), "after": shown(new)}
            print_document("CgroupChange", {**change, "dryRun": False}, args.output)
            return 0
        through = " (through systemd)" if outcome.by_writer else ""
        print_line(f"{path}: {shown(old)} -> {shown(new)}{through}")
    return 0


def _check_text(where: str) -> None:
    """Refuse a name that is not UTF-8: the journal could not hold it."""
    try:
        where.encode()
    except UnicodeEncodeError as exc:
        raise ConfigError(f"WHERE: {where!r}, expected a name in UTF-8") from exc


def wanted(
    tree: Tree, name: str, given: str, tell: Callable[[str], None] = print_line
) -> tuple[Resource, str]:
    """Return the resource to set and its value, for this node's cgroup version.

    cpu.shares become cpu.weight on cgroup v2, and the other way round on v1.

    Raises:
        ConfigError: there is no such type, or the value is not one of that type.
    """
    curve = curve_named(AUTO)
    if name == Type.CPU_SHARES and tree.version == 2:
        Registry(1).get(name).validate(given)
        value = str(weight_of(int(given), curve))
        tell(f"cpu.shares {given} is cpu.weight {value} on cgroup v2 ({curve})")
        return tree.registry.get(Type.CPU_WEIGHT), value
    if name == Type.CPU_WEIGHT and tree.version == 1:
        Registry(2).get(name).validate(given)
        value = str(shares_of(int(given), curve))
        tell(f"cpu.weight {given} is cpu.shares {value} on cgroup v1 ({curve})")
        return tree.registry.get(Type.CPU_SHARES), value
    resource = resource_named(tree, name)
    if resource.controller in ("memory", "hugetlb") and given != "max":
        return resource, _bytes(given)
    return resource, given


def _bytes(given: str) -> str:
    if not given[-1:].isalpha():
        return given
    from nriplugin.kube.quantity import byte_count

    return str(byte_count(given, "VALUE"))

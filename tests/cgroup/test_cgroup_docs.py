"""What docs/cgroup.md says, held against the code."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.trees import CONTAINER_ID, UID, make

from nriplugin.cgroup.types.registry import Registry, Type
from nriplugin.cli.main import COMMANDS

if TYPE_CHECKING:
    from nriplugin.cgroup.types.registry import Resource

DOCS = Path(__file__).parents[2] / "docs/cgroup.md"
TEXT = DOCS.read_text()
HEADER = "| type | v1 | v2 | set to | needs |"
MAX_BYTES = "0 to 9223372036854775807"


def both(one: str | None, two: str | None) -> str:
    """Join what is said of the two versions; None is a version without the type."""
    if one is None or two is None or one == two:
        return one or two or ""
    said = [f"v{n}: {text}" for n, text in ((1, one), (2, two)) if text]
    return "; ".join(said)


def settable(resource: Resource | None) -> str | None:
    if resource is None:
        return None
    if resource.content.check is None:
        return "read only"
    text = resource.content.expected.replace("a whole number from ", "")
    return text.replace(MAX_BYTES, "bytes")


def needs(resource: Resource | None) -> str | None:
    return None if resource is None else resource.needs.replace(", or cgroup v2", "")


def expected_rows() -> list[str]:
    one, two = ({str(r.type): r for r in Registry(n)} for n in (1, 2))
    rows = []
    for kind in dict.fromkeys([*map(str, Type), *one, *two]):
        v1, v2 = one.get(kind), two.get(kind)
        if v1 is None and v2 is None:
            continue
        cells = [
            f"`{kind}`",
            "–" if v1 is None else f"`{v1.controller}` `{v1.file}`",
            "–" if v2 is None else f"`{v2.file}`",
            both(settable(v1), settable(v2)),
            both(needs(v1), needs(v2)),
        ]
        rows.append("| " + " | ".join(cells).rstrip() + " |")
    return rows


def test_the_table_of_types_is_the_registry() -> None:
    """The table has every type, its files, its bounds and what it needs."""
    lines = TEXT.splitlines()
    first = lines.index(HEADER) + 2
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append(line)
    assert rows == expected_rows()


def commands() -> list[str]:
    """Return every command line of ours in the text."""
    return [
        *re.findall(r"^\$ (nriplugin .+)$", TEXT, re.MULTILINE),
        *re.findall(r"`(nriplugin [^`]+)`", TEXT),
    ]


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_every_command_is_one_that_we_have(line: str) -> None:
    """Every command line in the text is accepted by its parser."""
    _, command, *options = shlex.split(line)
    assert command in COMMANDS
    module = importlib.import_module(f"nriplugin.cli.{command}")
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    module.add_arguments(parser)
    if command == "cgroup" and len(options) == 1:
        return  # the text speaks of one of the three in general
    parser.parse_args(options)


@pytest.mark.parametrize("version", [1, 2])
def test_every_example_in_python_runs(version: int, tmp_path: Path) -> None:
    """The examples run one after the other, on a tree of either version."""
    root = tmp_path / "cgroup"
    make(version, root).files.close()  # type: ignore[attr-defined] # LocalFiles
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) >= 3
    code = "\n".join(blocks)
    for here, there in {
        "detect_node(os.environ": f"detect_node({{}}, cgroup_root={str(root)!r}",
        '"/var/lib/nriplugin"': repr(str(tmp_path)),
    }.items():
        assert here in code
        code = code.replace(here, there)
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(code, str(DOCS), "exec"), names)  # noqa: S102 # our own documentation
    assert (UID in code, CONTAINER_ID[:8] in code) == (True, True)
    findings = names["findings"]
    assert isinstance(findings, list)
    assert {str(finding.action) for finding in findings} == {"restored"}
    assert len(findings) == 6

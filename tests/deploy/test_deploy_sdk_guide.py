"""The wheel as a plugin's author gets it, and docs/sdk.md followed to the letter."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.harness import PATIENT
from support.needs import need
from support.wheels import (
    WheelsMissing,
    build_sdist,
    build_wheel,
    downloaded,
    offline,
)

from nriplugin.nri.testing import EmbeddedRuntime, make_container, make_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).parents[2]
GUIDE = TOP / "docs/sdk.md"
EXAMPLES = sorted(TOP.glob("examples/*.py"))

# It creates a virtual environment, installs into it, and generates code.
pytestmark = pytest.mark.timeout(1800)


class Block(NamedTuple):
    """A block of code of the guide."""

    language: str
    file: str  # the file that the sentence before it names; empty for commands
    text: str


def blocks(guide: str) -> Iterator[Block]:
    """Yield the blocks of code in order."""
    fenced = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for found in fenced.finditer(guide):
        before = guide[: found.start()].rstrip().rpartition("\n\n")[2]
        named = re.findall(r"[Ss]ave (?:this|its test) as\s+`([\w.]+)`:$", before)
        yield Block(found[1], named[0] if named else "", found[2])


def script(guide: str) -> str:
    """Return one shell script that does everything that the guide says, in order."""
    lines = []
    for block in blocks(guide):
        if block.file:
            lines.append(f"printf %s {shlex.quote(block.text)} >{block.file}\n")
        else:
            assert block.language == "sh", f"a block that no reader can use: {block}"
            lines.append(block.text)
    return "".join(lines)


@pytest.fixture(scope="module")
def packages() -> Path:
    """The packages that the guide installs, beside nriplugin."""
    try:
        return downloaded()
    except WheelsMissing as exc:
        need("packages", str(exc))


@pytest.fixture(scope="module")
def wheel(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"), packages)


def test_the_wheel_has_what_authors_need(wheel: Path) -> None:
    """Type hints, the messages' source, the kit and the fixtures, and no tests."""
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
        entry_points = next(name for name in files if name.endswith("entry_points.txt"))
        assert "[pytest11]\nnriplugin = nriplugin.pytest_plugin" in (
            archive.read(entry_points).decode()
        )
        for path in TOP.glob("proto/nriplugin/api/*.proto"):
            assert archive.read(f"nriplugin/api/{path.name}") == path.read_bytes()
    assert {
        *("nriplugin/py.typed", "nriplugin/pytest_plugin.py"),
        *("nriplugin/api/nri.proto", "nriplugin/api/nri_pb2.pyi"),
        "nriplugin/nri/testing/plugin_runtime.py",
    } <= files
    # Beside the package there are the manual pages, as data.
    outside = re.compile(r"[^/]+\.(dist-info|data/data/share/man)/")
    packages = {name.split("/")[0] for name in files if not outside.match(name)}
    assert packages == {"nriplugin"}


def test_the_sdist_has_the_examples(packages: Path, tmp_path: Path) -> None:
    """Who downloads the sources gets the examples and the guide that explains them."""
    with tarfile.open(build_sdist(tmp_path, packages)) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"examples/{path.name}" for path in EXAMPLES} <= files
    assert {"docs/sdk.md", "proto/nriplugin/api/nri.proto"} <= files


def test_the_guide_works_to_the_letter(
    wheel: Path, packages: Path, tmp_path: Path
) -> None:
    """Its files and commands, in order, give tests that pass and a plugin that runs."""
    guide = GUIDE.read_text()
    home = tmp_path / "empty"
    home.mkdir()
    environ = offline(packages)
    # Nothing of this checkout or its environment may help.
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTEST_ADDOPTS"):
        environ.pop(name, None)
    environ["NRIPLUGIN"] = str(wheel)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script(guide)],
        cwd=home,
        env=environ,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    counts = re.findall(r"^(\d+ passed) in", done.stdout, re.MULTILINE)
    promised = re.findall(r"ends with `(\d+ passed)`", guide)
    assert [counts[0], counts[-1]] == promised, done.stdout

    # The plugin as a process, launched as a runtime does.
    with EmbeddedRuntime(behaviour=PATIENT) as runtime:
        python, program = str(home / ".venv/bin/python"), str(home / "nice.py")
        pid = runtime.launch(python, program, name="nice", idx="50")
        try:
            runtime.wait_for_plugin(timeout_s=60)
            pod = make_pod(namespace="batch")
            created = runtime.create_container(pod, make_container(pod))
        finally:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
    assert created.adjust.linux.resources.unified["cpu.weight"] == "1"


def test_the_guide_tells_every_event() -> None:
    """Each handler has its place in the table of handlers."""
    from nriplugin.nri.misspelt import HANDLERS

    table = GUIDE.read_text().partition("## Handlers")[2].partition("\n## ")[0]
    rows = "".join(line for line in table.splitlines() if line.startswith("|"))
    further = {"fallback_update"}  # told among the rules
    assert [name for name in HANDLERS if f"`{name}`" not in rows] == [*further]


def test_each_example_is_short_and_told_in_the_guide() -> None:
    """An example has fewer than 60 lines, and docs/sdk.md leads to it."""
    guide = GUIDE.read_text()
    assert len(EXAMPLES) == 3
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) < 60, path.name
        assert f"(../examples/{path.name})" in guide

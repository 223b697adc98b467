"""What is released: the wheel, the sdist, their metadata, and the lock file."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.gopeers import ENVIRON
from support.harness import PATIENCE_S

TOP = Path(__file__).parents[2]
TEXTS = ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml")
PARTS = ("nriplugin", "proto", "man", "examples", "docs", *TEXTS)


def build(where: Path) -> Path:
    """Build both packages from a copy of the tree; return the directory of both."""
    tree = where / "tree"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in PARTS:
        source = TOP / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=ignored)
        else:
            shutil.copy(source, tree / name)
    for at, path in enumerate(sorted(tree.rglob("*"))):
        os.utime(path, (at * 1000, at * 1000))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(where / "dist")],
        cwd=tree,
        env=ENVIRON,
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    shutil.rmtree(tree)
    return where / "dist"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [path] = built.glob("*.whl")
    return path


def test_two_builds_are_equal(built: Path, tmp_path: Path) -> None:
    """Byte by byte, whatever the times of the files and the directory."""
    again = build(tmp_path)
    names = sorted(path.name for path in built.iterdir())
    assert len(names) == 2
    for name in names:
        first, second = (built / name).read_bytes(), (again / name).read_bytes()
        assert hashlib.sha256(first).digest() == hashlib.sha256(second).digest(), name


def test_the_wheel_works_without_the_tree(wheel: Path, tmp_path: Path) -> None:
    """Installed alone, it runs commands, and nothing is taken from the repository."""
    target = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    environ = {**ENVIRON, "PYTHONPATH": str(target)}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environ,
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return done.stdout

    found = run("-c", "import nriplugin; print(nriplugin.__file__)")
    assert found.startswith(str(target))
    assert run("-m", "nriplugin", "--version").startswith("nriplugin ")
    assert "cpu.weight" in run("-m", "nriplugin", "convert", "--shares", "1024")
    assert "cpu.max.burst" in run("-m", "nriplugin", "demo")


def test_the_wheel_has_types_pages_and_the_command(wheel: Path) -> None:
    """py.typed, the manual pages and the entry point; no tests and no bytecode."""
    names = zipfile.ZipFile(wheel).namelist()
    assert "nriplugin/py.typed" in names
    assert any(name.endswith("share/man/man1/nriplugin.1") for name in names)
    assert any(name.endswith("entry_points.txt") for name in names)
    assert not [name for name in names if "tests" in name or name.endswith(".pyc")]


def test_the_metadata_is_complete(wheel: Path) -> None:
    """What an index shows; no address that claims a published artefact."""
    archive = zipfile.ZipFile(wheel)
    [name] = [one for one in archive.namelist() if one.endswith("/METADATA")]
    metadata = Parser().parsestr(archive.read(name).decode())
    for field in ("Name", "Version", "Summary", "License-Expression", "Keywords"):
        assert metadata[field], field
    classifiers = metadata.get_all("Classifier") or []
    assert {"Typing :: Typed", "Operating System :: POSIX :: Linux"} <= {*classifiers}
    assert metadata["Requires-Python"] == ">=3.11"
    assert "# nriplugin" in str(metadata.get_payload())
    for url in metadata.get_all("Project-URL") or []:
        assert not re.search(r"pypi|ghcr|docker|releases/download", url), url


LOCK = TOP / "deploy" / "requirements.lock"


def locked() -> dict[str, tuple[str, str]]:
    """Return version and hashes by name."""
    text = LOCK.read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            head, _, hashes = line.partition(" --hash")
            name, _, version = head.partition(";")[0].strip().partition("==")
            found[name.lower()] = (version.strip(), hashes)
    return found


def test_the_lock_file_fits_the_project() -> None:
    """Each dependency, of every extra, is locked at a version that is allowed."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    known = locked()
    for text in wanted:
        requirement = Requirement(text)
        version, _ = known[requirement.name.lower()]
        assert requirement.specifier.contains(version), f"{text}: run hack/lock"


def test_the_lock_file_has_hashes_for_all() -> None:
    """And names no index, which would be this machine's."""
    assert all("sha256:" in hashes for _, hashes in locked().values())
    assert "index-url" not in LOCK.read_text(encoding="utf-8")
    assert "http" not in LOCK.read_text(encoding="utf-8")

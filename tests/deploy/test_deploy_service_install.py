"""The service's installation without a package index, as deploy/README.md has it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from documents.blocks import TOP, blocks
from nodes.cache import built, digest
from nodes.shell import NodeError, run
from support.needs import need
from support.wheels import PIP, WheelsMissing, build_wheel, downloaded, offline

if TYPE_CHECKING:
    from pathlib import Path

README = TOP / "deploy/README.md"
LOCK = TOP / "deploy/requirements.lock"
PLACE = "/opt/nriplugin"

pytestmark = pytest.mark.timeout(1800)


def block_with(words: str) -> str:
    """Return the only block of the page that has these words."""
    [found] = [one.text for one in blocks(README) if words in one.text]
    return found


def locked() -> Path:
    """Run the documented download, once for each lock file; return its directory."""
    [line] = [
        one
        for one in block_with("pip download").splitlines()
        if one.startswith("pip download")
    ]
    words = shlex.split(line)
    assert words[-2:] == ["-d", "packages"]

    def build(directory: Path) -> None:
        run(*PIP, *words[1:-1], directory, cwd=TOP)

    try:
        return built(
            "locked-packages",
            digest(sys.version, line, LOCK),
            "the packages of deploy/requirements.lock: downloading",
            build,
        )
    except NodeError as exc:
        need("packages", str(exc).splitlines()[-1])


def test_the_lock_installs_without_an_index(tmp_path: Path) -> None:
    """The commands give a nriplugin with all extras and the fast parser."""
    packages = tmp_path / "packages"
    shutil.copytree(locked(), packages)
    assert "cp deploy/requirements.lock packages\n" in block_with("pip download")
    shutil.copy(LOCK, packages)
    # `pip wheel`, which needs hatchling from an index.
    assert "pip wheel --no-deps --wheel-dir packages .\n" in block_with("pip download")
    try:
        build_wheel(packages, downloaded())
    except WheelsMissing as exc:
        need("packages", str(exc))
    place = tmp_path / "place"
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    environ = offline()
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PIP_NO_INDEX", "PIP_FIND_LINKS"):
        environ.pop(name, None)
    done = subprocess.run(
        ["sh", "-ec", block_with("--no-index").replace(PLACE, str(place))],
        cwd=tmp_path,
        # What is not there is not to be found elsewhere.
        env={**environ, "PIP_INDEX_URL": "http://127.0.0.1:9/"},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    told = subprocess.run(
        [
            *(place / "bin/python", "-c"),
            "import grpc, grpc_health, grpc_reflection, prometheus_client",
        ],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        check=False,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    version = subprocess.run(
        [place / "bin/nriplugin", "version"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "(upb)" in version.stdout


def test_a_package_that_was_changed_is_refused(tmp_path: Path) -> None:
    """`--require-hashes` takes no file whose hash is not in the lock."""
    packages = tmp_path / "packages"
    shutil.copytree(locked(), packages)
    shutil.copy(LOCK, packages)
    [file] = packages.glob("msgspec-*.whl")
    with file.open("ab") as wheel:
        wheel.write(b"\0")
    [line] = [
        one
        for one in block_with("--no-index").splitlines()
        if "--require-hashes" in one
    ]
    words = shlex.split(line)[1:]
    environ = offline()
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        environ.pop(name)
    done = subprocess.run(
        [*PIP, *words, "--target", tmp_path / "target"],
        cwd=packages,
        env=environ,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr

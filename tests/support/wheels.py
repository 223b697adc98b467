"""The wheel of this checkout, and packages that are installed without a network.

What is downloaded is kept beside the nodes, so that only the first run takes a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nodes.cache import REPOSITORY, built, digest
from nodes.payload import SOURCES
from nodes.shell import NodeError, run

# What an author installs, and what building takes. A package has to be named here
# before docs/sdk.md may install it.
PACKAGES = ("pytest", "grpcio-tools==1.76.0", "hatchling>=1.27")

PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")


class WheelsMissing(Exception):
    """The packages cannot be downloaded here; says why."""


def downloaded() -> Path:
    """Return a directory with the wheels of `PACKAGES` and of nriplugin's packages.

    Raises:
        WheelsMissing: there is no network.
    """
    project = REPOSITORY / "pyproject.toml"

    def build(directory: Path) -> None:
        needed = _dependencies(project)
        run(*PIP, "download", "--only-binary=:all:", "--dest", directory, *needed)

    try:
        return built(
            "author-wheels",
            digest(sys.version, PACKAGES, _dependencies(project)),
            "the packages that an author of a plugin installs: downloading",
            build,
        )
    except NodeError as exc:
        raise WheelsMissing(str(exc).splitlines()[-1]) from exc


def offline(*directories: Path) -> dict[str, str]:
    """Return an environment in which pip installs from these directories alone."""
    environ = {name: value for name, value in os.environ.items() if name[:4] != "PIP_"}
    environ |= {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environ |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    return environ | {"PIP_FIND_LINKS": " ".join(map(str, directories))}


def build_wheel(directory: Path, packages: Path) -> Path:
    """Build the wheel of this checkout into a directory."""
    with tempfile.TemporaryDirectory(prefix="nri-source-") as source:
        for name in SOURCES:
            copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy
            copy(REPOSITORY / name, Path(source) / name)
        subprocess.run(
            [*PIP, "wheel", "--no-deps", "--wheel-dir", directory, source],
            check=True,
            env=offline(packages),
        )
    (wheel,) = directory.glob("nriplugin-*.whl")
    return wheel


def build_sdist(directory: Path, packages: Path) -> Path:
    """Build the source distribution of this checkout into a directory."""
    builder = directory / "builder"
    environ = offline(packages)
    install = [*PIP, "install", "--target", str(builder), "hatchling"]
    subprocess.run(install, check=True, env=environ)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", directory],
        check=True,
        cwd=REPOSITORY,
        env={**environ, "PYTHONPATH": str(builder)},
    )
    (sdist,) = directory.glob("nriplugin-*.tar.gz")
    return sdist


def _dependencies(project: Path) -> list[str]:
    import tomllib

    declared = tomllib.loads(project.read_text())["project"]["dependencies"]
    return [*PACKAGES, *declared]

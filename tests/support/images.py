"""Images of hack/image for nodes: that of this checkout, and one of a later version."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from nodes.cache import REPOSITORY, built, digest
from nodes.payload import SOURCES, set_version

if TYPE_CHECKING:
    from pathlib import Path

NAME = "localhost/nriplugin"
# What hack/image reads.
INPUTS = ("hack/image", "hack/images", "hack/nodes", "deploy/image", *SOURCES)
EPOCH = 1_700_000_000


def archive(version: str) -> Path:
    """Return the OCI archive of this checkout as another version of nriplugin.

    Debian's packages are those of the day on which it was built.
    """

    def build(directory: Path) -> None:
        _build(directory / "source", version, directory)
        shutil.rmtree(directory / "source")

    key = digest(version, EPOCH, *(REPOSITORY / name for name in INPUTS))
    kind = f"image-{version}"
    directory = built(kind, key, f"{kind}: building (about a minute)", build)
    (found,) = directory.glob("*.oci.tar")
    return found


def _build(source: Path, version: str, output: Path) -> None:
    """Run hack/image on a copy of this checkout that has the version."""
    for name in INPUTS:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (REPOSITORY / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / name, source / name, ignore=ignored)
        else:
            shutil.copy(REPOSITORY / name, source / name)
    set_version(source, version)
    # hack/image makes its environment once, for this checkout.
    prepared = subprocess.run(
        [REPOSITORY / "hack/image", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert prepared.returncode == 0, prepared.stderr
    done = subprocess.run(
        [
            *(str(REPOSITORY / ".venv-image/bin/python"), "-P", "-m", "images.main"),
            *("--output", str(output), "--name", f"{NAME}:{version}"),
        ],
        env={
            **os.environ,
            "PYTHONPATH": f"{source / 'hack'}:{source}",
            "SOURCE_DATE_EPOCH": str(EPOCH),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

"""The Python part of the image: this checkout's wheel and the locked wheels it needs.

Wheels are unpacked, not installed: pip would have to run on the image's Python. The
result has the form of a virtual environment, in the place that the service has, too.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from nodes.cache import REPOSITORY
from nodes.payload import SOURCES
from nodes.shell import NodeError, run

from images.debian import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LOCK = REPOSITORY / "deploy/image/requirements.txt"
HOME = "opt/nriplugin"
EXTRAS = "[cri,grpc,metrics]"
# What pip calls the processors, by Debian's names, and the newest glibc of a wheel.
PROCESSORS = {"amd64": "x86_64", "arm64": "aarch64"}
GLIBC = 41
# The manual pages of a wheel. The image has no program that shows them.
MANUAL = re.compile(r"[^/]+\.data/data/share/man/")
# Wheels are zip files, which know no time before 1980.
ZIP_BEGINS = 315_532_800
PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")
COMMAND = f"""\
#!/{HOME}/bin/python
import sys

from nriplugin.cli.main import main

sys.exit(main())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel, and what its metadata says."""

    name: str
    version: str
    licence: str
    sha256: str
    file: Path


def build_wheel(scratch: Path, epoch: int) -> Path:
    """Build this checkout's wheel, with the build backend that is installed here."""
    source, target = scratch / "source", scratch / "own"
    source.mkdir(parents=True)
    for name in SOURCES:
        if (REPOSITORY / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / name, source / name, ignore=ignored)
        else:
            shutil.copy(REPOSITORY / name, source / name)
    run(
        *(*PIP, "wheel", "--no-deps", "--no-build-isolation"),
        "--wheel-dir",
        target,
        source,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(max(epoch, ZIP_BEGINS))},
    )
    (wheel,) = target.glob("*.whl")
    return wheel


def download(architecture: str, scratch: Path) -> list[Path]:
    """Download the locked wheels for an architecture; pip checks their hashes."""
    run(
        *(*PIP, "download", "--require-hashes", "--no-deps", "--dest", str(scratch)),
        *(*platform_options(architecture), "-r", str(LOCK)),
    )
    return sorted(scratch.glob("*.whl"))


def platform_options(architecture: str) -> list[str]:
    """Return pip's options for wheels of the image's Python on an architecture."""
    processor = PROCESSORS[architecture]
    platforms = [f"manylinux_2_{minor}_{processor}" for minor in range(17, GLIBC + 1)]
    return [
        *("--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"),
        *(f"--platform={one}" for one in (f"manylinux2014_{processor}", *platforms)),
    ]


def unpack(wheels: Iterable[Path], tree: Path) -> list[Wheel]:
    """Make the virtual environment of wheels."""
    home = tree / HOME
    packages = home / f"lib/python{PYTHON}/site-packages"
    packages.mkdir(parents=True)
    unpacked = []
    for file in wheels:
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if not MANUAL.match(name)]
            if any(name.split("/")[0].endswith(".data") for name in names):
                raise NodeError(f"{file.name}: has files outside of site-packages")
            archive.extractall(packages, names)
        (metadata,) = [each for each in names if each.endswith(".dist-info/METADATA")]
        unpacked.append(_wheel(file, (packages / metadata).read_text()))
    (home / "bin").mkdir()
    (home / "bin/python").symlink_to(f"/usr/bin/python{PYTHON}")
    (home / "bin/nriplugin").write_text(COMMAND)
    (home / "bin/nriplugin").chmod(0o755)
    (home / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {PYTHON}\n"
    )
    return sorted(unpacked, key=lambda one: one.name)


def _wheel(file: Path, metadata: str) -> Wheel:
    fields = HeaderParser().parsestr(metadata)
    return Wheel(
        name=fields["Name"],
        version=fields["Version"],
        licence=fields.get("License-Expression", ""),
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        file=file,
    )

"""The Debian part of the image: Python and the libraries that it needs.

apt finds and downloads the packages for a root of its own, and dpkg-deb unpacks them.
No maintainer script runs, so this needs neither root nor a chroot, and any architecture
can be built on any other.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodes.apt import KEYRING, mirror, settings
from nodes.shell import NodeError, run

if TYPE_CHECKING:
    from pathlib import Path

SUITE = "trixie"
PYTHON = "3.13"
# The wheels of protobuf and grpcio are linked with libstdc++. base-files says which
# Debian this is, which scanners want to know.
PACKAGES = (f"python{PYTHON}", "libstdc++6", "base-files")
# Only the maintainer scripts of other packages need these, and none runs.
LEFT_OUT = ("debconf", "mawk")
# Documentation, and parts of Python that build, draw and test programs.
UNUSED = (
    *("usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/info"),
    *("usr/share/bug", "usr/share/applications", "usr/share/pixmaps", "usr/include"),
    *("usr/share/readline", "usr/share/base-files", "usr/share/binfmts", "var", "home"),
    *(
        f"usr/lib/python{PYTHON}/{name}"
        for name in ("ensurepip", "idlelib", "pydoc_data", "test", "tkinter", "venv")
    ),
    "usr/lib/valgrind",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package as it was downloaded."""

    name: str
    version: str
    architecture: str
    source: str
    sha256: str
    control: str
    file: Path


def download(architecture: str, scratch: Path) -> list[Package]:
    """Download the packages of the image for an architecture."""
    environment = _apt(architecture, scratch)
    get = ("apt-get", "-qq", "-o=Debug::NoLocking=1")
    run(*get, "update", env=environment)
    run(
        *(*get, "--yes", "--download-only", "install", *PACKAGES),
        env=environment,
    )
    archives = sorted((scratch / "cache/archives").glob("*.deb"))
    packages = [_package(file) for file in archives]
    return [one for one in packages if one.name not in LEFT_OUT]


def unpack(packages: list[Package], tree: Path) -> None:
    """Unpack packages, without what the image does not use."""
    # base-files has the symbolic links from /lib and /bin to /usr.
    for package in sorted(packages, key=lambda one: one.name != "base-files"):
        run("dpkg-deb", "--extract", package.file, tree)
    for name in UNUSED:
        shutil.rmtree(tree / name, ignore_errors=True)
    for document in (tree / "usr/share/doc").glob("*/*"):
        if document.name != "copyright":
            shutil.rmtree(document) if document.is_dir() else document.unlink()
    # Where scanners of images look for packages that nobody has installed with dpkg.
    status = tree / "var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    for package in packages:
        (status / package.name).write_text(package.control)


def own_architecture() -> str:
    """Return Debian's name of this machine's architecture."""
    return run("dpkg", "--print-architecture").strip()


def _apt(architecture: str, scratch: Path) -> dict[str, str]:
    """Return an environment in which apt knows an empty root and nothing else."""
    for name in ("lists/partial", "cache/archives/partial", "etc/apt.conf.d"):
        (scratch / name).mkdir(parents=True)
    (scratch / "etc/preferences.d").mkdir()
    (scratch / "status").touch()
    signed = f"deb [signed-by={KEYRING}]"
    lines = [f"{signed} {mirror()} {SUITE} main"]
    # Without that mirror, the point releases have the same fixes, only later.
    with contextlib.suppress(NodeError):
        lines.append(f"{signed} {mirror('debian-security')} {SUITE}-security main")
    (scratch / "etc/sources.list").write_text("\n".join(lines) + "\n")
    wanted = {
        "Dir::State::lists": scratch / "lists",
        "Dir::State::status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        "Dir::Etc": scratch / "etc",
        "APT::Architecture": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    text = "".join(f'{key} "{value}";\n' for key, value in wanted.items())
    only = f'APT::Architectures {{ "{architecture}"; }};\n'
    (scratch / "apt.conf").write_text(
        settings() + "#clear APT::Architectures;\n" + text + only
    )
    return {**os.environ, "APT_CONFIG": str(scratch / "apt.conf"), "LC_ALL": "C"}


def _package(file: Path) -> Package:
    control = run("dpkg-deb", "--field", file)
    fields = dict(
        line.split(": ", 1)
        for line in control.splitlines()
        if ": " in line and not line.startswith(" ")
    )
    return Package(
        name=fields["Package"],
        version=fields["Version"],
        architecture=fields["Architecture"],
        source=fields.get("Source", fields["Package"]).split()[0],
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        control=control,
        file=file,
    )

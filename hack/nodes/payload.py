"""The disk with what Debian does not have: nriplugin, settings of the runtime, tools.

nriplugin is installed as a user would install it: its wheel, with pip, on the guest's
own Python. pip runs in a chroot of the guest's root, at this machine's full speed.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.box import write_box
from nodes.cache import REPOSITORY, built, digest
from nodes.disk import make_disk
from nodes.programs import program
from nodes.roots import root as build_root
from nodes.shell import run

if TYPE_CHECKING:
    from nodes.catalog import Node

GUEST = Path(__file__).parent / "guest"
SOURCES = ("nriplugin", "proto", "man", "pyproject.toml", "README.md", "LICENSE")
# A wheel of a release to come, so that tests can upgrade to it.
NEXT_VERSION = "999.0"
EXTRAS = "[cri,grpc,metrics]"


def payload(node: Node) -> Path:
    """Return a directory with `payload.img`."""
    root = build_root(node.root)
    tools = [program(name) for name in node.programs]
    wheels = _wheels(root)

    def build(directory: Path) -> None:
        # Not in the root's own tree: nodes of one root may be built at the same time.
        tree = directory / "node"
        shutil.copytree(GUEST, tree, ignore=shutil.ignore_patterns("__pycache__"))
        for tool in tools:
            for file in tool.iterdir():
                shutil.copy(file, tree / "bin" / file.name)
        write_box(root / "tree/bin/busybox", tree / "box.tar")
        (tree / "settings").write_text(_settings(node))
        shutil.copytree(wheels / "wheels", tree / "wheels")
        shutil.copytree(wheels / "nriplugin", tree / "nriplugin", symlinks=True)
        make_disk(tree, directory / "payload.img")
        shutil.rmtree(tree)

    return built(
        f"payload-{node.name}",
        digest(
            node,
            root.name,
            [tool.name for tool in tools],
            wheels.name,
            GUEST,
            Path(__file__),
            Path(__file__).with_name("box.py"),
        ),
        f"{node.name}: packing the plugin and the tools",
        build,
    )


def _settings(node: Node) -> str:
    return (
        f"NAME={node.name}\nRUNTIME={node.runtime}\nCONFIG={node.config}\n"
        f"CGROUP={node.cgroup}\nDRIVER={node.driver}\nKUBELET={int(node.kubelet)}\n"
    )


def _wheels(root: Path) -> Path:
    """Return a directory with `wheels` and `nriplugin`, where they are installed."""

    def build(directory: Path) -> None:
        tree, wheels = root / "tree", directory / "wheels"
        pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
        _build_wheel(pip, directory / "source", wheels, None)
        _build_wheel(pip, directory / "source", directory / "next", NEXT_VERSION)
        show = "import sys; print(*sys.version_info[:2], sep='.')"
        version = run("chroot", tree, "python3", "-c", show).strip()
        # This machine's pip, with its settings, downloads for the guest's Python.
        download = [*pip, "download", "--only-binary=:all:", "--dest", str(wheels)]
        (wheel,) = wheels.glob("*.whl")
        # For the CRI proxy, which serves nodes without NRI, and for the services of a
        # daemon.
        run(*download, "--python-version", version, f"{wheel}{EXTRAS}")
        place = tree / "node"
        shutil.copytree(wheels, place / "wheels")
        try:
            run("chroot", tree, "python3", "-m", "venv", "/node/nriplugin")
            run(
                *(
                    "chroot",
                    tree,
                    "/node/nriplugin/bin/pip",
                    "-q",
                    "--isolated",
                    "install",
                ),
                *("--no-index", "--find-links", "/node/wheels", f"nriplugin{EXTRAS}"),
            )
            (place / "nriplugin").rename(directory / "nriplugin")
        finally:
            shutil.rmtree(place)
            place.mkdir()
        for upgrade in (directory / "next").iterdir():
            upgrade.rename(wheels / upgrade.name)

    return built(
        f"wheels-{root.name.rsplit('-', 1)[0]}",
        digest(
            root.name,
            sys.version,
            Path(__file__),
            *(REPOSITORY / name for name in SOURCES),
        ),
        "the plugin's wheel: building and installing",
        build,
    )


def _build_wheel(
    pip: list[str], source: Path, wheels: Path, version: str | None
) -> None:
    source.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy
        copy(REPOSITORY / name, source / name)
    if version is not None:
        set_version(source, version)
    run(*pip, "wheel", "--no-deps", "--wheel-dir", wheels, source)
    shutil.rmtree(source)


def set_version(source: Path, version: str) -> None:
    """Have a copy of this checkout say that it is another version."""
    init = source / "nriplugin/__init__.py"
    text, count = re.subn(r'(__version__ = )".*"', rf'\1"{version}"', init.read_text())
    assert count == 1, "nriplugin/__init__.py says the version in another way now"
    init.write_text(text)

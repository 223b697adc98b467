"""Builds nriplugin's container image as an OCI archive, and its SBOM beside it.

The image is made of Debian packages and of wheels, without a registry and without a
program that runs containers. Two builds from the same packages are equal byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.cache import REPOSITORY
from nodes.shell import NodeError

from images import archive, bytecode, debian, lock, sbom, wheels
from images.libraries import missing_libraries
from nriplugin import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEFAULT_OUTPUT = Path("dist")
# The user is root, because only root may enter the directory of the NRI socket; which
# capabilities it has is for the pod to say, and the manifests drop all of them.
CONFIG = {
    "User": "0:0",
    "Entrypoint": [f"/{wheels.HOME}/bin/nriplugin"],
    "Cmd": ["run"],
    "Env": [
        f"PATH=/{wheels.HOME}/bin:/usr/bin:/bin",
        "LANG=C.UTF-8",
        # All byte code is in the image, and nothing of it can be written.
        "PYTHONDONTWRITEBYTECODE=1",
    ],
    "WorkingDir": "/",
    "StopSignal": "SIGTERM",
}
LABELS = {
    "title": "nriplugin",
    "description": "cgroup v2 resources for every container on a Kubernetes node",
    "licenses": "Apache-2.0",
    "version": __version__,
}


def main(argv: Sequence[str]) -> int:
    """Build; return 2 for a mistake of the user, 1 for any other failure."""
    parser = _parser()
    args = parser.parse_args(argv)
    given = os.environ.get("SOURCE_DATE_EPOCH", "0")
    if not given.isdigit():
        parser.error(f"SOURCE_DATE_EPOCH: {given!r}, expected seconds since 1970")
    try:
        with tempfile.TemporaryDirectory(prefix="nriplugin-image-") as scratch:
            _build(args, Path(scratch))
    except NodeError as exc:
        _say(str(exc))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    own = debian.own_architecture()
    parser = argparse.ArgumentParser(
        prog="hack/image", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "--output",
        type=_directory,
        default=DEFAULT_OUTPUT,
        metavar="DIR",
        help="where the archive and the SBOM are put (default: %(default)s)",
    )
    parser.add_argument(
        "--name",
        type=_image_name,
        default=f"localhost/nriplugin:{__version__}",
        help="name and tag of the image (default: %(default)s)",
    )
    parser.add_argument(
        "--arch",
        choices=sorted(wheels.PROCESSORS),
        default=own,
        help="the architecture of the nodes (default: %(default)s)",
    )
    parser.add_argument(
        "--tree",
        type=_new_directory,
        metavar="DIR",
        help="put the image's files there in place of an archive, as the Containerfile "
        "does",
    )
    parser.add_argument(
        "--lock",
        action="store_true",
        help="only write deploy/image/requirements.txt anew, with the newest packages",
    )
    return parser


def _directory(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: is a file, expected a directory")
    return path


def _new_directory(text: str) -> Path:
    path = _directory(text)
    if path.exists() and any(path.iterdir()):
        raise argparse.ArgumentTypeError(f"{text}: is not empty, expected no directory")
    return path


def _image_name(text: str) -> str:
    name, colon, tag = text.rpartition(":")
    if not colon or not name or "/" in tag or "/" not in name or text.split() != [text]:
        raise argparse.ArgumentTypeError(
            f"{text!r}, expected a whole name such as registry.example/nriplugin:0.1.0"
        )
    return text


def _build(args: argparse.Namespace, scratch: Path) -> None:
    epoch = _epoch()
    with _step("building nriplugin's wheel"):
        wheel = wheels.build_wheel(scratch / "wheel", epoch)
    if args.lock:
        with _step("finding the newest packages for each architecture"):
            lock.write_lock(wheel)
        _say(f"wrote {wheels.LOCK.relative_to(REPOSITORY)}")
        return
    system, application = _trees(args.tree, scratch)
    packages, unpacked = _fill(args.arch, wheel, system, application, scratch)
    if args.tree:
        _say(f"the image's files are in {args.tree}")
        return
    labels = {f"org.opencontainers.image.{key}": value for key, value in LABELS.items()}
    image = archive.Image(
        name=args.name,
        architecture=args.arch,
        epoch=epoch,
        config=CONFIG | {"Labels": labels},
        layers=(("Debian packages", system), ("nriplugin's wheels", application)),
    )
    args.output.mkdir(parents=True, exist_ok=True)
    written = args.output / f"nriplugin-{__version__}-{args.arch}.oci.tar"
    with _step("writing the archive"):
        digest = archive.write_archive(image, written)
    document = sbom.spdx(
        name="nriplugin",
        version=__version__,
        digest=digest,
        architecture=args.arch,
        epoch=epoch,
        packages=packages,
        wheels=unpacked,
    )
    beside = written.with_name(written.name.replace(".oci.tar", ".spdx.json"))
    beside.write_text(json.dumps(document, indent=2) + "\n")
    for path in (written, beside):
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{sha256}  {path}")
    _say(f"{args.name} has the digest {digest}")


def _fill(
    architecture: str, wheel: Path, system: Path, application: Path, scratch: Path
) -> tuple[list[debian.Package], list[wheels.Wheel]]:
    """Put all files into their trees; return the packages that they are of."""
    with _step(f"downloading Debian packages for {architecture}"):
        packages = debian.download(architecture, scratch / "apt")
    with _step(f"unpacking {len(packages)} Debian packages"):
        debian.unpack(packages, system)
    with _step("downloading wheels"):
        found = wheels.download(architecture, scratch / "wheels")
    with _step(f"unpacking {len(found) + 1} wheels"):
        unpacked = wheels.unpack([wheel, *found], application)
    for library, files in sorted(missing_libraries(system, application).items()):
        raise NodeError(f"{library}: not in the image, but {sorted(files)} need it")
    python = _python(architecture, system, scratch)
    with _step("compiling Python files"):
        bytecode.compile_all(python, system, f"usr/lib/python{debian.PYTHON}")
        bytecode.compile_all(python, application, wheels.HOME)
    return packages, unpacked


def _trees(tree: Path | None, scratch: Path) -> tuple[Path, Path]:
    """Return where Debian's files go and where nriplugin's: two layers, or one tree."""
    if tree is None:
        trees = scratch / "system", scratch / "application"
    else:
        trees = tree.absolute(), tree.absolute()
    for each in trees:
        each.mkdir(parents=True, exist_ok=True)
    return trees


def _python(architecture: str, tree: Path, scratch: Path) -> Path:
    """Return a tree whose Python this machine can run: the image's, or another."""
    own = debian.own_architecture()
    if architecture == own:
        return tree
    native = scratch / "native"
    native.mkdir()
    with _step(f"downloading Python for {own}, which compiles the files"):
        debian.unpack(debian.download(own, scratch / "native-apt"), native)
    return native


def _epoch() -> int:
    """Return the time of all files: SOURCE_DATE_EPOCH, else that of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given:
        return int(given)
    committed = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    # Without the history there is no time that two builds would agree on.
    return int(committed.stdout) if committed.returncode == 0 else 0


@contextmanager
def _step(what: str) -> Iterator[None]:
    _say(what)
    began = time.monotonic()
    yield
    taken = time.monotonic() - began
    if taken > 2:
        _say(f"{what}: done after {taken:.0f} s")


def _say(text: str) -> None:
    print(f"image: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

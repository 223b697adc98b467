"""Root file systems, from Debian's packages."""

from __future__ import annotations

from pathlib import Path

from nodes.apt import KEYRING, mirror, settings
from nodes.cache import built, digest
from nodes.catalog import PACKAGES
from nodes.disk import make_disk
from nodes.shell import run


def root(suite: str) -> Path:
    """Return a directory with `tree`, an unpacked root, and `root.img`, its disk."""

    def build(directory: Path) -> None:
        tree, apt_conf = directory / "tree", directory / "apt.conf"
        apt_conf.write_text(settings())
        run(
            *("mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"),
            *(f"--keyring={KEYRING}", f"--aptopt={apt_conf}", suite, tree, mirror()),
            limit_s=1800,
        )
        for mount_point in ("node", "with", "usr/lib/modules"):
            (tree / mount_point).mkdir(exist_ok=True)
        (tree / "opt/nriplugin").symlink_to("/node/nriplugin")
        (tree / "usr/local/bin/nriplugin").symlink_to("/opt/nriplugin/bin/nriplugin")
        # Where runtimes look for CNI plugins unless they are told otherwise.
        (tree / "opt/cni").mkdir()
        (tree / "opt/cni/bin").symlink_to("/usr/lib/cni")
        (tree / "etc/hostname").write_text(f"{suite}\n")
        make_disk(tree, directory / "root.img", spare_mb=1024)

    return built(
        f"root-{suite}",
        digest(suite, PACKAGES, Path(__file__)),
        f"{suite} root: installing Debian packages (about a minute)",
        build,
    )

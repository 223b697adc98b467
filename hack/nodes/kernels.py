"""Kernels of Debian's suites, each with an initramfs and a disk of its modules.

The kernel's packages are downloaded with an apt root of their own, so the suites that
this machine's apt knows do not matter, and nothing is installed on this machine.
"""

from __future__ import annotations

import lzma
import re
import shutil
from pathlib import Path

from nodes.apt import KEYRING, mirror
from nodes.cache import built, digest
from nodes.disk import make_disk
from nodes.shell import run

INITRAMFS = Path(__file__).parent / "guest/initramfs"

# The modules that the initramfs loads: for the disks, and for the serial port over
# which the tests talk to the guest. A kernel that has one of them built in has no
# module of that name.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "virtio_console")


def kernel(suite: str) -> Path:
    """Return a directory with `vmlinuz`, `initrd` and `modules.img`."""

    def build(directory: Path) -> None:
        unpacked = directory / "unpacked"
        for package in _download(suite, directory / "apt"):
            run("dpkg-deb", "-x", package, unpacked)
        shutil.rmtree(directory / "apt")
        # Before /usr was merged, modules were in /lib, where depmod still looks.
        modules = unpacked / "lib/modules"
        if not modules.exists():
            (unpacked / "lib").symlink_to("usr/lib")
        (release,) = modules.iterdir()
        run("depmod", "-b", unpacked, release.name)
        (vmlinuz,) = [*unpacked.glob("boot/vmlinuz-*"), *release.glob("vmlinuz")]
        shutil.copy(vmlinuz, directory / "vmlinuz")
        make_disk(modules, directory / "modules.img")
        _initramfs(unpacked, release, directory)
        shutil.rmtree(unpacked)

    return built(
        f"kernel-{suite}",
        digest(suite, BOOT_MODULES, Path(__file__), INITRAMFS),
        f"{suite} kernel: download and unpack",
        build,
    )


def _download(suite: str, apt: Path) -> list[Path]:
    """Fetch the kernel's packages and a static busybox with an apt root of its own."""
    lists, archives = apt / "lists", apt / "archives"
    (lists / "partial").mkdir(parents=True)
    archives.mkdir()
    (apt / "sources.list").write_text(
        f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n"
    )
    private = [
        option
        for setting in (
            f"Dir::Etc::sourcelist={apt}/sources.list",
            "Dir::Etc::sourceparts=-",
            f"Dir::State::lists={lists}",
            "Dir::State::status=/dev/null",
            f"Dir::Cache={apt}",
            # Root downloads into a directory that apt's own user cannot enter.
            "APT::Sandbox::User=root",
        )
        for option in ("-o", setting)
    ]
    run("apt-get", *private, "-qq", "update")
    wanted, found = ["linux-image-cloud-amd64"], ["busybox-static"]
    while wanted:
        found.append(wanted.pop())
        depends = run("apt-cache", *private, "depends", found[-1])
        # Newer suites have the kernel and its modules in packages of their own.
        named = r"^\s+Depends: (linux-(?:image|binary|modules)-[0-9]\S+)$"
        wanted += re.findall(named, depends, re.M)
    run("apt-get", *private, "-qq", "download", *found, cwd=archives)
    return sorted(archives.glob("*.deb"))


def _initramfs(unpacked: Path, release: Path, directory: Path) -> None:
    """Pack busybox, guest/initramfs as /init, and the modules in loading order."""
    tree = directory / "initramfs"
    for name in ("bin", "dev", "proc", "sys", "root", "modules"):
        (tree / name).mkdir(parents=True)
    shutil.copy(next(unpacked.glob("**/bin/busybox")), tree / "bin/busybox")
    shutil.copy(INITRAMFS, tree / "init")
    (tree / "init").chmod(0o755)
    order: list[str] = []
    depends = dict(
        line.split(":", 1)
        for line in (release / "modules.dep").read_text().splitlines()
    )
    for module in BOOT_MODULES:
        for path in depends:
            if re.fullmatch(rf"{module}\.ko(\.xz)?", Path(path).name):
                order += [*reversed(depends[path].split()), path]
    names = []
    for path in dict.fromkeys(order):
        content = (release / path).read_bytes()
        name = Path(path).name.removesuffix(".xz")
        (tree / "modules" / name).write_bytes(
            lzma.decompress(content) if path.endswith(".xz") else content
        )
        names.append(name)
    (tree / "modules/order").write_text("".join(f"{name}\n" for name in names))
    run("sh", "-c", f"find . | cpio -o -H newc --quiet >{directory}/initrd", cwd=tree)
    shutil.rmtree(tree)

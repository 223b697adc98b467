"""Roots and kernels, from Debian's packages.

The mirror is the one that this machine itself uses, read from its apt sources.
"""

from __future__ import annotations

import lzma
import re
import shutil
from pathlib import Path

from nodes.cache import built, digest
from nodes.catalog import PACKAGES
from nodes.shell import NodeError, run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
GUEST = Path(__file__).parent / "guest"

# What stands between the initramfs and the root: the disks, and the serial port that
# we talk over. A kernel that has one of them built in has no module of that name.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "virtio_console")


def mirror(sources: Path = Path("/etc/apt")) -> str:
    """Return the address of the Debian mirror that this machine is configured for."""
    files = [*sources.glob("sources.list.d/*.sources"), *sources.glob("sources.list.d/*.list")]
    files.append(sources / "sources.list")
    for file in files:
        text = file.read_text() if file.is_file() else ""
        for address in re.findall(r"^(?:URIs:|deb(?:\s+\[.*\])?)\s+(\S+)", text, re.M):
            if re.search(r"/debian/?$", address):
                return str(address)
    raise NodeError(f"{sources}: no Debian mirror in the apt sources of this machine")


def _apt_settings() -> str:
    """Return how this machine's apt reaches its mirror: proxies, frozen mirrors."""
    ours = re.compile(r"Acquire::(https?::|Check-Valid-Until |Retries |ForceIPv4 )")
    lines = run("apt-config", "dump").splitlines()
    return "".join(f"{line}\n" for line in lines if ours.match(line))


def root(suite: str) -> Path:
    """Return a directory with `tree`, an unpacked root, and `root.img`, its disk."""

    def build(directory: Path) -> None:
        tree, settings = directory / "tree", directory / "apt.conf"
        settings.write_text(_apt_settings())
        run(
            *("mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"),
            *(f"--keyring={KEYRING}", f"--aptopt={settings}", suite, tree, mirror()),
            limit_s=1800,
        )
        for mount_point in ("node", "with", "usr/lib/modules"):
            (tree / mount_point).mkdir(exist_ok=True)
        (tree / "opt/nriplugin").symlink_to("/node/nriplugin")
        (tree / "usr/local/bin/nriplugin").symlink_to("/opt/nriplugin/bin/nriplugin")
        (tree / "etc/hostname").write_text(f"{suite}\n")
        make_disk(tree, directory / "root.img", spare_mb=1024)

    return built(
        f"root-{suite}",
        digest(suite, PACKAGES, Path(__file__)),
        f"{suite} root: installing Debian packages (about a minute)",
        build,
    )


def make_disk(tree: Path, image: Path, spare_mb: int = 16) -> None:
    """Make an ext4 disk of a directory, without mounting anything."""
    used_kb = int(run("du", "-sk", tree).split()[0])
    size_kb = used_kb * 5 // 4 + spare_mb * 1024
    run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", tree, image, f"{size_kb}k")


def kernel(suite: str) -> Path:
    """Return a directory with `vmlinuz`, `initrd` and `modules.img`."""

    def build(directory: Path) -> None:
        unpacked = directory / "unpacked"
        for package in _download(suite, directory / "apt"):
            run("dpkg-deb", "-x", package, unpacked)
        shutil.rmtree(directory / "apt")
        if not (unpacked / "usr/lib/modules").exists():
            (unpacked / "lib/modules").rename(unpacked / "usr/lib/modules")
        (release,) = (unpacked / "usr/lib/modules").iterdir()
        if not (unpacked / "lib").exists():
            (unpacked / "lib").symlink_to("usr/lib")
        elif not (unpacked / "lib/modules").exists():
            (unpacked / "lib/modules").symlink_to("../usr/lib/modules")
        run("depmod", "-b", unpacked, release.name)
        (vmlinuz,) = [*unpacked.glob("boot/vmlinuz-*"), *release.glob("vmlinuz")]
        shutil.copy(vmlinuz, directory / "vmlinuz")
        make_disk(unpacked / "usr/lib/modules", directory / "modules.img")
        _initramfs(unpacked, release, directory)
        shutil.rmtree(unpacked)

    return built(
        f"kernel-{suite}",
        digest(suite, BOOT_MODULES, Path(__file__), GUEST / "initramfs"),
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
    """Pack busybox, our init and the modules that it loads, in order."""
    tree = directory / "initramfs"
    for name in ("bin", "dev", "proc", "sys", "root", "modules"):
        (tree / name).mkdir(parents=True)
    shutil.copy(next(unpacked.glob("**/bin/busybox")), tree / "bin/busybox")
    shutil.copy(GUEST / "initramfs", tree / "init")
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

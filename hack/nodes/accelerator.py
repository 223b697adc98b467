"""How qemu runs a guest: with KVM where that works on this machine, else by emulation.

KVM is taken if the processor has virtualization, /dev/kvm can be opened, and a guest
really boots: a machine that is itself virtual may offer a /dev/kvm on which no guest
gets beyond its first instructions. The answer to the last question is kept in the cache
for as long as neither the host's kernel nor qemu changes. NRIPLUGIN_ACCEL=kvm or =tcg
decides without asking.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nodes.cache import directory, say
from nodes.shell import NodeError, run

if TYPE_CHECKING:
    from collections.abc import Callable

QEMU = "qemu-system-x86_64"
VARIABLE = "NRIPLUGIN_ACCEL"
MEMORY = ("-m", "2048")
# A kernel and an initramfs alone are up within seconds under KVM. One that does not
# come up may spin for ever.
PROBE_LIMIT_S = 30
# What the initramfs prints before it powers off, if the command line has this word.
PROBE = "node.probe"


class Accelerator(NamedTuple):
    """How a guest runs: qemu's options for it."""

    name: str
    options: tuple[str, ...]


class Choice(NamedTuple):
    """An accelerator, and why it was chosen."""

    accelerator: Accelerator
    reason: str


# The emulation of cmpxchg16b (cx16) breaks kernels; a processor without AVX is emulated
# about twice as fast; with rdrand, the kernel's random numbers are ready at once. Two
# processors take turns on one thread: on two threads a guest alone is faster, but two
# guests at once wait for each other's locks.
TCG = Accelerator(
    "tcg",
    (
        *("-accel", "tcg,thread=single", "-cpu", "Nehalem,-cx16,+rdrand"),
        *("-smp", "2", *MEMORY),
    ),
)


def kvm(cores: int) -> Accelerator:
    """Return KVM with all cores, but two at least: tests use CPUs 0 and 1."""
    cpus = str(max(2, cores))
    return Accelerator("kvm", ("-accel", "kvm", "-cpu", "host", "-smp", cpus, *MEMORY))


def choose(
    wanted: str,
    cores: int,
    cpu_flags: frozenset[str],
    device_opens: Callable[[], bool],
    guest_boots: Callable[[], bool],
) -> Choice:
    """Choose an accelerator; `device_opens` and `guest_boots` are asked if need be.

    Raises:
        NodeError: `wanted` is neither "kvm" nor "tcg" nor "auto".
    """
    if wanted not in ("auto", "kvm", "tcg"):
        raise NodeError(f"{VARIABLE}: {wanted!r}, expected auto, kvm or tcg")
    if wanted == "tcg":
        return Choice(TCG, f"{VARIABLE} is tcg")
    if wanted == "kvm":
        return Choice(kvm(cores), f"{VARIABLE} is kvm")
    if not cpu_flags & {"vmx", "svm"}:
        return Choice(TCG, "the processor has neither vmx nor svm")
    if not device_opens():
        return Choice(TCG, "/dev/kvm cannot be opened")
    if not guest_boots():
        return Choice(TCG, "no guest boots under KVM here")
    return Choice(kvm(cores), "a guest boots under KVM")


@cache
def accelerator(kernel: Path, initrd: Path) -> Accelerator:
    """Return this machine's accelerator, and say which; a kernel to try it with."""
    cores = os.cpu_count() or 1
    choice = choose(
        os.environ.get(VARIABLE) or "auto",
        cores,
        parse_flags(Path("/proc/cpuinfo").read_text()),
        _device_opens,
        lambda: remembered(
            directory() / "kvm.json",
            f"{platform.release()}; {run(QEMU, '--version').splitlines()[0]}",
            lambda: _guest_boots(kvm(cores), kernel, initrd),
        ),
    )
    say(f"guests run under {choice.accelerator.name}: {choice.reason}")
    return choice.accelerator


def parse_flags(cpuinfo: str) -> frozenset[str]:
    """Return the flags of the first processor in the text of /proc/cpuinfo."""
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.M)
    return frozenset(flags[1].split() if flags else ())


def remembered(file: Path, key: str, ask: Callable[[], bool]) -> bool:
    """Return the answer that a file has for a key, else ask and write it down."""
    try:
        answers = json.loads(file.read_text())
    except (OSError, ValueError):
        answers = {}
    if key not in answers:
        # Only the newest: a kernel or a qemu of before does not come back.
        answers = {key: ask()}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(answers))
    return bool(answers[key])


def _device_opens() -> bool:
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _guest_boots(tried: Accelerator, kernel: Path, initrd: Path) -> bool:
    """Boot a kernel and an initramfs that prints a word and powers off."""
    with tempfile.TemporaryDirectory() as scratch:
        console = Path(scratch) / "console"
        argv = [QEMU, *tried.options, "-no-reboot", "-nodefaults", "-display", "none"]
        argv += ["-kernel", str(kernel), "-initrd", str(initrd)]
        argv += ["-append", f"console=ttyS0 quiet panic=-1 {PROBE}"]
        argv += ["-serial", f"file:{console}"]
        try:
            subprocess.run(argv, timeout=PROBE_LIMIT_S, capture_output=True, check=True)
        except (subprocess.SubprocessError, OSError):
            return False
        return f"{PROBE}: up" in console.read_text(errors="replace")

"""The capacity of this machine, as kubelet finds it.

CPUs, memory, huge pages, processes and swap.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from nriplugin.cgroup.locate.identify import parse_process_cgroups
from nriplugin.cgroup.locate.kubelet_process import find_kubelet, read_file
from nriplugin.convert.cpu_list import parse_cpus
from nriplugin.errors import ConfigError
from nriplugin.kube.capacity import PIDS, hugepages_name

_MEMINFO = "/proc/meminfo"
_ONLINE = "/sys/devices/system/cpu/online"
_PID_LIMITS = ("/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max")
# One directory for each size, such as hugepages-2048kB.
_HUGEPAGES = "/sys/kernel/mm/hugepages"


class MachineCapacity(NamedTuple):
    """Amounts as quantities, and the swap in bytes.

    The swap is None if kubelet does not set the swap of containers.
    """

    amounts: dict[str, str]
    swap_bytes: int | None


def machine_capacity(host_root: str = "/") -> MachineCapacity:
    """Read the files of /proc and /sys below the host's root.

    Raises:
        ConfigError: a file is missing or has no such number.
    """
    host = host_root.rstrip("/")
    memory = _meminfo(_read(f"{host}{_MEMINFO}"))
    online = _read(f"{host}{_ONLINE}").strip()
    amounts = {"cpu": str(len(parse_cpus(online))), "memory": f"{memory['MemTotal']}Ki"}
    pids = [int(_read(f"{host}{path}")) for path in _PID_LIMITS]
    amounts[PIDS] = str(min(pids))
    amounts |= _hugepages(f"{host}{_HUGEPAGES}")
    swap_bytes = memory.get("SwapTotal", 0) * 1024
    return MachineCapacity(amounts, swap_bytes if _limits_swap(host) else None)


def _hugepages(directory: str) -> dict[str, str]:
    """Return the memory that is set aside in huge pages, by the size of a page.

    A size of which there are no pages is among them, as in what kubelet reports.
    """
    try:
        sizes = sorted(os.listdir(directory))
    except OSError:  # the kernel has no huge pages
        return {}
    found = {}
    for size in sizes:
        match = re.fullmatch(r"hugepages-([0-9]{1,12})kB", size)
        if match is not None:
            page_bytes = int(match[1]) * 1024
            count = int(_read(f"{directory}/{size}/nr_hugepages"))
            found[hugepages_name(page_bytes)] = str(count * page_bytes)
    return found


def _limits_swap(host: str) -> bool:
    """Say whether kubelet takes the kernel for one that limits the swap of cgroups.

    It looks for memory.swap.max in its own cgroup. The root has no such file, so a
    kubelet that runs there sets none. If kubelet is not found, it is said to do so.
    """
    found = find_kubelet(f"{host}/proc")
    if found.problem:
        return True
    directory = found.source.rpartition("/")[0]
    try:
        cgroups = parse_process_cgroups(read_file(f"{directory}/cgroup"))
    except OSError:
        return True
    return cgroups.unified != "/"


def _meminfo(text: str) -> dict[str, int]:
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words[1:] == ["kB"] and words[0].isdecimal():
            found[name] = int(words[0])
    if "MemTotal" not in found:
        raise ConfigError(f"{_MEMINFO}: no MemTotal, expected one in kB")
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError as exc:
        raise ConfigError(
            f"{path}: {exc.strerror}, expected a file of the kernel; or give --node"
        ) from exc

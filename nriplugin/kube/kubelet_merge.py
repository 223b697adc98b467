"""Merges the sources of the kubelet's settings, as the kubelet itself does.

The configuration file comes first, then the drop-ins in the order of their names, then
the flags. A mapping in a drop-in is laid over the one below it key by key, and `null`
removes what is below. A mapping in flags replaces the whole one of the files, except
for the feature gates. A wrong value is reported and does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nriplugin.convert.cpu_list import parse_cpus
from nriplugin.errors import ConfigError
from nriplugin.kube import kubelet_values as values
from nriplugin.kube.kubelet_checks import contradictions
from nriplugin.kube.kubelet_flags import ROOT_DIR
from nriplugin.kube.kubelet_settings import EVICTION_HARD, KubeletCapacitySettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nriplugin.kube.kubelet_config import KubeletSettings, KubeletValue

DEFAULT = "default"
ROOT = "/var/lib/kubelet"
GATES = "featureGates"
EVICTION = "evictionHard"
SWAP = "memorySwap"
BEHAVIOR = "swapBehavior"

# The field of a configuration file -> the attribute of the settings, and the reader.
SCALARS: dict[str, tuple[str, Callable[[object, str], object]]] = {
    "cgroupRoot": ("cgroup_root", values.text),
    "cgroupsPerQOS": ("cgroups_per_qos", values.truth),
    "cgroupDriver": ("driver", values.driver),
    "kubeletCgroups": ("kubelet_cgroups", values.text),
    "systemCgroups": ("system_cgroups", values.text),
    "reservedSystemCPUs": ("reserved_cpus", values.cpus),
    "systemReservedCgroup": ("system_reserved_cgroup", values.text),
    "kubeReservedCgroup": ("kube_reserved_cgroup", values.text),
    "enforceNodeAllocatable": ("enforce_node_allocatable", values.enforcements),
    "memoryThrottlingFactor": ("memory_throttling_factor", values.factor),
    "memoryReservationPolicy": ("memory_reservation_policy", values.policy),
    "cpuCFSQuota": ("cpu_cfs_quota", values.truth),
    "cpuCFSQuotaPeriod": ("cpu_cfs_quota_period_us", values.period_us),
    "podPidsLimit": ("pod_pids_limit", values.pids),
}
MAPPINGS: dict[str, tuple[str, Callable[[object, str, str], object]]] = {
    "systemReserved": ("system_reserved", values.reserved),
    "kubeReserved": ("kube_reserved", values.reserved),
    "qosReserved": ("qos_reserved", values.percentage),
    EVICTION: ("eviction_hard", values.threshold),
    GATES: ("feature_gates", values.gate),
}
# What is read beside the settings about capacity.
OTHERS: dict[str, Callable[[object, str], object]] = {
    "mergeDefaultEvictionSettings": values.truth,
    "containerRuntimeEndpoint": values.text,
    ROOT_DIR: values.text,
}


@dataclass(frozen=True)
class MergedKubeletSettings:
    """The settings in force, where each comes from, and what is wrong with them."""

    capacity: KubeletCapacitySettings
    # The CRI socket at which the kubelet expects its runtime; "" if not configured.
    runtime_endpoint: str
    root_dir: str  # where the kubelet keeps its files
    # By the names of the configuration file, such as `cgroupDriver`, and
    # `systemReserved.cpu` for the keys of a mapping. What is at its default is absent.
    places: Mapping[str, str]
    problems: tuple[str, ...]  # one line each, with file and line, or the flag

    def place(self, field: str) -> str:
        """Return where a value comes from: a file and a line, a flag, or `default`."""
        return self.places.get(field, DEFAULT)


def merge_settings(
    file: KubeletSettings | None = None,
    drop_ins: Sequence[KubeletSettings] = (),
    flags: Sequence[KubeletSettings] = (),
) -> MergedKubeletSettings:
    """Merge the sources; of drop-ins and of flags, the last one wins."""
    merge = _Merge()
    if file is not None:
        merge.add_file(file)
    merge.fill_eviction()
    for drop_in in drop_ins:
        merge.add_file(drop_in)
    for given in flags:
        merge.add_flags(given)
    return merge.result()


class _Merge:
    """The values so far: of every field, checked; mappings are dictionaries."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.places: dict[str, str] = {}
        self.problems: list[str] = []

    def add_file(self, source: KubeletSettings) -> None:
        self.problems += source.problems
        for name, given in source.values.items():
            if given.value is None:
                # As after a merge patch: nothing is configured any more.
                self._forget(name)
            elif name in MAPPINGS or name == SWAP:
                self._lay_over(name, given)
            else:
                self._set(name, given)

    def add_flags(self, source: KubeletSettings) -> None:
        self.problems += source.problems
        for name, given in source.values.items():
            if name in MAPPINGS:
                if name != GATES:
                    self._forget(name)
                self._lay_over(name, given)
            elif name in SCALARS or name in OTHERS:
                self._set(name, given)

    def fill_eviction(self) -> None:
        """Fill the thresholds of a configuration file, before the drop-ins."""
        own = self.found.get(EVICTION)
        if own is None or self.found.get("mergeDefaultEvictionSettings"):
            self.found[EVICTION] = {**EVICTION_HARD, **(own or {})}

    def _forget(self, name: str) -> None:
        self.found.pop(name, None)
        for place in [*self.places]:
            if place.partition(".")[0] == name:
                del self.places[place]

    def _set(self, name: str, given: KubeletValue) -> None:
        read = SCALARS[name][1] if name in SCALARS else OTHERS[name]
        try:
            value = read(_plain(given.value), name)
        except ConfigError as exc:
            self.problems.append(f"{given.place}: {exc}")
            return
        self.found[name] = value
        self.places[name] = given.place

    def _lay_over(self, name: str, given: KubeletValue) -> None:
        if not isinstance(given.value, dict):
            wrong = f"{name}: {given.value!r:.60}, expected names and values"
            self.problems.append(f"{given.place}: {wrong}")
            return
        mapping = self.found.setdefault(name, {})
        self.places[name] = given.place
        for key, one in given.value.items():
            where = f"{name}.{key}"
            if one.value is None:
                mapping.pop(key, None)
                self.places.pop(where, None)
                continue
            try:
                mapping[key] = self._read(name, key, one.value)
            except ConfigError as exc:
                self.problems.append(f"{one.place}: {exc}")
            else:
                self.places[where] = one.place

    def _read(self, name: str, key: str, value: object) -> object:
        if name != SWAP:
            return MAPPINGS[name][1](value, name, key)
        if key != BEHAVIOR:
            raise ConfigError(f"{name}: {key!r:.60}, expected {BEHAVIOR}")
        return values.swap_behavior(value, f"{name}.{key}")

    def result(self) -> MergedKubeletSettings:
        attributes = {
            attribute: self.found[name]
            for name, (attribute, _) in (*SCALARS.items(), *MAPPINGS.items())
            if name in self.found
        }
        # A drop-in may have removed the thresholds; the defaults do not come back then.
        attributes["eviction_hard"] = self.found.get(EVICTION, {})
        gates = self.found.get(GATES, {})
        attributes["memory_qos"] = gates.get(values.MEMORY_QOS, True)
        attributes["cgroup_root"] = self.found.get("cgroupRoot") or "/"
        if behavior := self.found.get(SWAP, {}).get(BEHAVIOR):
            attributes["swap_behavior"] = behavior
        self.problems += contradictions(self.found, self.places)
        if not gates.get(values.QOS_RESERVED, False):
            attributes.pop("qos_reserved", None)
        self._reserve_cpus(attributes)
        return MergedKubeletSettings(
            KubeletCapacitySettings(**attributes),
            self.found.get("containerRuntimeEndpoint", ""),
            self.found.get(ROOT_DIR) or ROOT,
            self.places,
            tuple(self.problems),
        )

    def _reserve_cpus(self, attributes: dict[str, Any]) -> None:
        """Let the CPUs that are reserved by number replace amounts of `cpu`."""
        cpus = parse_cpus(attributes.get("reserved_cpus", ""))
        if not cpus:
            return
        system = attributes.get("system_reserved", {})
        kube = attributes.get("kube_reserved", {})
        attributes["system_reserved"] = {**system, "cpu": str(len(cpus))}
        attributes["kube_reserved"] = {k: v for k, v in kube.items() if k != "cpu"}
        self.places["systemReserved.cpu"] = self.places["reservedSystemCPUs"]
        self.places.pop("kubeReserved.cpu", None)


def _plain(value: object) -> object:
    """Return a value without the places of its parts."""
    if isinstance(value, dict):
        return {key: one.value for key, one in value.items()}
    return value

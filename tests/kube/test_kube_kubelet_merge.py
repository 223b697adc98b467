"""kubelet's settings merged: defaults, every field, precedence, wrong values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nriplugin.kube.kubelet_config import parse_arguments, parse_config_file
from nriplugin.kube.kubelet_merge import MergedKubeletSettings, merge_settings
from nriplugin.kube.kubelet_settings import EVICTION_HARD, KubeletCapacitySettings

DEFAULTS = KubeletCapacitySettings()


def merged(
    file: str = "", *drop_ins: str, flags: tuple[str, ...] = ()
) -> MergedKubeletSettings:
    """Merge texts, which are called config.yaml, 0.conf, 1.conf and cmdline."""
    return merge_settings(
        parse_config_file(file, "config.yaml") if file else None,
        [parse_config_file(one, f"{n}.conf") for n, one in enumerate(drop_ins)],
        [parse_arguments(["kubelet", *flags], "cmdline")],
    )


def test_the_defaults() -> None:
    """Without a source the settings are the defaults of kubelet 1.37."""
    found = merged()
    assert found.capacity == DEFAULTS
    assert found.capacity.eviction_hard == {
        "memory.available": "100Mi",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
        "imagefs.inodesFree": "5%",
    }
    assert DEFAULTS.cgroups_per_qos is DEFAULTS.cpu_cfs_quota is DEFAULTS.memory_qos
    assert DEFAULTS.memory_qos is True
    assert DEFAULTS.enforce_node_allocatable == ("pods",)
    assert DEFAULTS.cpu_cfs_quota_period_us == 100_000
    assert DEFAULTS.pod_pids_limit == -1
    assert DEFAULTS.swap_behavior == "NoSwap"
    assert DEFAULTS.memory_reservation_policy == "None"
    assert DEFAULTS.memory_throttling_factor is None
    assert (found.problems, found.place("cgroupDriver")) == ((), "default")


def test_the_examples_of_the_seed() -> None:
    """The reservation of the 48-CPU node, and the fields about cgroups."""
    found = merged(
        "systemReserved:\n"
        '  cpu: "2"      # two CPUs less in Allocatable\n'
        '  memory: "4Gi" # and 4 GiB\n'
    )
    expected = {"cpu": "2", "memory": "4Gi"}
    assert found.capacity == replace(DEFAULTS, system_reserved=expected)
    found = merged(
        'kubeletCgroups: ""\nsystemCgroups: ""\n'
        'cgroupRoot: "" # if empty, default to "/" in the code\n'
        "cgroupsPerQOS: true\ncgroupDriver: cgroupfs\n"
    )
    assert found.capacity == replace(DEFAULTS, driver="cgroupfs")
    assert found.capacity.cgroup_root == "/"
    assert found.problems == ()
    assert found.place("cgroupDriver") == "config.yaml:5"
    empty = [
        *("--system-reserved=", "--kube-reserved=", "--qos-reserved="),
        *("--reserved-cpus=", "--kube-reserved-cgroup=", "--system-reserved-cgroup="),
    ]
    assert merged(flags=(*empty,)).capacity == DEFAULTS


# The text of a file, the flags that say the same, the attribute, and its value.
EVERY = [
    ("cgroupRoot: /a", "--cgroup-root=/a", "cgroup_root", "/a"),
    (
        "cgroupsPerQOS: false\nenforceNodeAllocatable: []",
        "--cgroups-per-qos=false --enforce-node-allocatable=",
        *("cgroups_per_qos", False),
    ),
    ("cgroupDriver: systemd", "--cgroup-driver=systemd", "driver", "systemd"),
    ("kubeletCgroups: /k", "--kubelet-cgroups=/k", "kubelet_cgroups", "/k"),
    (
        "systemCgroups: /s\ncgroupRoot: /",
        "--system-cgroups=/s --cgroup-root=/",
        *("system_cgroups", "/s"),
    ),
    (
        "systemReserved: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1G, pid: '9'}",
        "--system-reserved=cpu=500m,memory=1Gi,ephemeral-storage=1G,pid=9",
        "system_reserved",
        {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1G", "pid": "9"},
    ),
    (
        *("kubeReserved: {cpu: '1'}", "--kube-reserved=cpu=1"),
        *("kube_reserved", {"cpu": "1"}),
    ),
    (
        "qosReserved: {memory: 50%}\nfeatureGates: {QOSReserved: true}",
        "--qos-reserved=memory=50% --feature-gates=QOSReserved=true",
        *("qos_reserved", {"memory": 50}),
    ),
    ("reservedSystemCPUs: 0-1,4", "--reserved-cpus=0-1,4", "reserved_cpus", "0-1,4"),
    (
        "systemReservedCgroup: /sys",
        *("--system-reserved-cgroup=/sys", "system_reserved_cgroup", "/sys"),
    ),
    (
        "kubeReservedCgroup: /kube",
        *("--kube-reserved-cgroup=/kube", "kube_reserved_cgroup", "/kube"),
    ),
    (
        "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube",
        "--enforce-node-allocatable=pods,kube-reserved --kube-reserved-cgroup=/kube",
        *("enforce_node_allocatable", ("pods", "kube-reserved")),
    ),
    (
        "evictionHard: {memory.available: 5%, pid.available: '100'}",
        "--eviction-hard=memory.available<5%,pid.available<100",
        *("eviction_hard", {"memory.available": "5%", "pid.available": "100"}),
    ),
    ("memoryThrottlingFactor: 0.8", "", "memory_throttling_factor", 0.8),
    (
        "memoryReservationPolicy: TieredReservation",
        *("", "memory_reservation_policy", "TieredReservation"),
    ),
    ("cpuCFSQuota: false", "--cpu-cfs-quota=false", "cpu_cfs_quota", False),
    (
        "cpuCFSQuotaPeriod: 1.5ms\nfeatureGates: {CustomCPUCFSQuotaPeriod: true}",
        "--cpu-cfs-quota-period=1.5ms --feature-gates=CustomCPUCFSQuotaPeriod=true",
        *("cpu_cfs_quota_period_us", 1500),
    ),
    ("podPidsLimit: 1024", "--pod-max-pids=1024", "pod_pids_limit", 1024),
    ("podPidsLimit: -7", "--pod-max-pids=-7", "pod_pids_limit", -1),
    (
        *("memorySwap: {swapBehavior: LimitedSwap}", ""),
        *("swap_behavior", "LimitedSwap"),
    ),
    (
        *("featureGates: {MemoryQoS: false}", "--feature-gates=MemoryQoS=false"),
        *("memory_qos", False),
    ),
    (
        *("featureGates: {A: true, B: false}", "--feature-gates=A=true,B=false"),
        *("feature_gates", {"A": True, "B": False}),
    ),
]


@pytest.mark.parametrize(("text", "flags", "attribute", "value"), EVERY)
def test_every_field_and_flag(
    text: str, flags: str, attribute: str, value: object
) -> None:
    """A field is read from the file, and from its flag, with no problem."""
    assert getattr(DEFAULTS, attribute) != value or value in (-1, {})
    for found in (merged(text), merged(flags=(*flags.split(),)))[: 1 + bool(flags)]:
        assert found.problems == ()
        assert getattr(found.capacity, attribute) == value


def test_flags_win_over_drop_ins_and_those_over_the_file() -> None:
    """Of two drop-ins the later one wins; the place is that of the winner."""
    file, first, second = (f"cgroupRoot: /{n}\n" for n in ("file", "one", "two"))
    found = merged(file, first, second, flags=("--cgroup-root=/flag",))
    assert found.capacity.cgroup_root == "/flag"
    assert found.place("cgroupRoot") == "cmdline: --cgroup-root"
    found = merged(file, first, second)
    assert (found.capacity.cgroup_root, found.place("cgroupRoot")) == (
        "/two",
        "1.conf:1",
    )
    assert merged(file).capacity.cgroup_root == "/file"


def test_the_last_of_several_sources_of_flags_wins() -> None:
    """A mapping of later flags replaces the one of earlier flags."""
    sources = [
        parse_arguments(["--kube-reserved=cpu=1,pid=1", "--cgroup-root=/a"], "env"),
        parse_arguments(["--kube-reserved=cpu=2"], "cmdline"),
    ]
    found = merge_settings(None, (), sources)
    assert found.capacity.kube_reserved == {"cpu": "2"}
    assert found.capacity.cgroup_root == "/a"
    assert found.place("kubeReserved.cpu") == "cmdline: --kube-reserved"
    assert found.place("kubeReserved.pid") == "default"


def test_mappings_of_drop_ins_are_laid_over_key_by_key() -> None:
    """A key of a drop-in replaces one key, `null` removes it, a list is replaced."""
    found = merged(
        "systemReserved: {cpu: '1', memory: 1Gi, pid: '5'}\n"
        "enforceNodeAllocatable: [pods]\npodPidsLimit: 9\n",
        "systemReserved:\n  memory: 2Gi\n  pid: null\nenforceNodeAllocatable: [none]\n"
        "podPidsLimit: null\n",
    )
    assert found.capacity.system_reserved == {"cpu": "1", "memory": "2Gi"}
    assert found.capacity.enforce_node_allocatable == ("none",)
    assert found.capacity.pod_pids_limit == -1
    assert found.place("systemReserved.cpu") == "config.yaml:1"
    assert found.place("systemReserved.memory") == "0.conf:2"
    assert found.place("systemReserved.pid") == "default"
    assert found.place("podPidsLimit") == "default"


def test_mappings_of_flags_replace_those_of_files_except_gates() -> None:
    """Feature gates of files stay unless a flag has the same one."""
    found = merged(
        "systemReserved: {cpu: '1', memory: 1Gi}\nfeatureGates: {A: true, B: true}\n",
        flags=("--system-reserved=cpu=2", "--feature-gates=B=false,C=true"),
    )
    assert found.capacity.system_reserved == {"cpu": "2"}
    assert found.capacity.feature_gates == {"A": True, "B": False, "C": True}


@pytest.mark.parametrize(
    ("file", "drop_in", "flag", "expected"),
    [
        # The file's own thresholds replace the defaults as a whole.
        ("evictionHard: {memory.available: 1Gi}", "", "", {"memory.available": "1Gi"}),
        ("evictionHard: {}", "", "", {}),
        ("evictionHard:", "", "", EVICTION_HARD),
        (
            "evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true",
            *("", "", {**EVICTION_HARD, "memory.available": "1Gi"}),
        ),
        # A drop-in is laid over what the file has after its defaults were filled in.
        (
            *("a: 1", "evictionHard: {memory.available: 1Gi}", ""),
            {**EVICTION_HARD, "memory.available": "1Gi"},
        ),
        (
            "evictionHard: {memory.available: 1Gi}",
            *("evictionHard: {pid.available: 10%}", ""),
            {"memory.available": "1Gi", "pid.available": "10%"},
        ),
        ("a: 1", "evictionHard: null", "", {}),
        (
            *("a: 1", "", "--eviction-hard=memory.available<5%"),
            {"memory.available": "5%"},
        ),
    ],
)
def test_the_thresholds_of_eviction(
    file: str, drop_in: str, flag: str, expected: dict[str, str]
) -> None:
    """The defaults are those of a file without thresholds, and of nothing else."""
    drop_ins = [drop_in] if drop_in else []
    found = merged(file, *drop_ins, flags=(flag,) if flag else ())
    assert found.capacity.eviction_hard == expected
    assert found.problems == ()


def test_reserved_cpus_replace_the_amounts() -> None:
    """The number of CPUs is the system's reservation, and kube's has none."""
    found = merged(
        "systemReserved: {cpu: 500m, memory: 1Gi}\n"
        "kubeReserved: {cpu: '3', pid: '7'}\n",
        flags=("--reserved-cpus=0-1,8",),
    )
    assert found.capacity.system_reserved == {"cpu": "3", "memory": "1Gi"}
    assert found.capacity.kube_reserved == {"pid": "7"}
    assert found.place("systemReserved.cpu") == "cmdline: --reserved-cpus"


WRONG = [
    ("cgroupRoot: 7", "cgroupRoot: 7, expected a text"),
    ("cgroupRoot: {a: 1}", "cgroupRoot: {'a': 1}, expected a text"),
    ("cgroupsPerQOS: 'true'", "cgroupsPerQOS: 'true', expected true or false"),
    ("cgroupDriver: cgroup", "'cgroup', expected cgroupfs or systemd"),
    ("systemReserved: 2", "systemReserved: 2, expected names and values"),
    ("systemReserved: {cpu: 2}", ".cpu: 2, expected a quantity in quotes"),
    ("systemReserved: {cpu: 2x}", "systemReserved.cpu: '2x', expected a quantity"),
    ("kubeReserved: {cpu: '-1'}", "kubeReserved.cpu: '-1', expected a quantity"),
    ("kubeReserved: {cpus: '1'}", "'cpus', expected one of cpu, memory"),
    ("qosReserved: {memory: '50'}", "'50', expected a percentage such as 50%"),
    ("qosReserved: {memory: 101%}", "'101%', expected a percentage such as 50%"),
    ("qosReserved: {cpu: 50%}", "qosReserved: 'cpu', expected one of memory"),
    ("reservedSystemCPUs: 3-1", "'3-1', expected a list such as 0-3,8"),
    ("reservedSystemCPUs: 0-7:1/2", "'0-7:1/2', expected a list such as 0-3,8"),
    ("kubeReserved: {cpu: {a: 1}}", "{'a': 1}, expected a quantity in quotes"),
    ("evictionHard: {memory.available: [1]}", "[1], expected a quantity in quotes"),
    ("featureGates: {MemoryQoS: {a: 1}}", "{'a': 1}, expected true or false"),
    ("memorySwap: {swapBehavior: {a: 1}}", "{'a': 1}, expected NoSwap or Limit"),
    ("reservedSystemCPUs: 3,,4", "'3,,4', expected a list such as 0-3,8"),
    ("reservedSystemCPUs: '3,'", "'3,', expected a list such as 0-3,8"),
    ("enforceNodeAllocatable: pods", "'pods', expected a list of none, pods"),
    ("enforceNodeAllocatable: [pod]", "'pod', expected a list of none, pods"),
    ("enforceNodeAllocatable: [pods, pods]", "expected each of them once"),
    ("evictionHard: {memory.free: 1Gi}", "'memory.free', expected one of memory"),
    ("evictionHard: {memory.available: 0}", ": 0, expected a quantity in quotes"),
    ("evictionHard: {memory.available: '0'}", "expected a quantity above 0"),
    ("evictionHard: {memory.available: 101%}", "a percentage from 0% to 100%"),
    ("evictionHard: {memory.available: x%}", "a percentage from 0% to 100%"),
    ("memoryThrottlingFactor: 1.1", "1.1, expected a number above 0 and up to 1"),
    ("memoryThrottlingFactor: '0.9'", "'0.9', expected a number above 0 and up to 1"),
    ("memoryThrottlingFactor: .nan", "nan, expected a number above 0 and up to 1"),
    ("memoryReservationPolicy: All", "'All', expected None or TieredReservation"),
    ("cpuCFSQuota: 1", "cpuCFSQuota: 1, expected true or false"),
    ("cpuCFSQuotaPeriod: 100", "100, expected a duration from 1ms to 1s"),
    ("cpuCFSQuotaPeriod: 100000", "100000, expected a duration from 1ms to 1s"),
    ("cpuCFSQuotaPeriod: 2s", "'2s', expected a duration from 1ms to 1s"),
    ("cpuCFSQuotaPeriod: 999us", "'999us', expected a duration from 1ms to 1s"),
    ("podPidsLimit: '10'", "podPidsLimit: '10', expected a number"),
    ("podPidsLimit: true", "podPidsLimit: True, expected a number"),
    ("memorySwap: {swapBehavior: All}", "'All', expected NoSwap or LimitedSwap"),
    ("memorySwap: {behavior: NoSwap}", "'behavior', expected swapBehavior"),
    ("memorySwap: NoSwap", "'NoSwap', expected names and values"),
    ("featureGates: {MemoryQoS: maybe}", "'maybe', expected true or false"),
    ("featureGates: {MemoryQos: true}", "'MemoryQos', expected MemoryQoS"),
    ("featureGates: {QoSReserve: true}", "'QoSReserve', expected QOSReserved"),
    ("featureGates: [MemoryQoS]", "['MemoryQoS'], expected names and values"),
    ("mergeDefaultEvictionSettings: x", "'x', expected true or false"),
    ("containerRuntimeEndpoint: 1", "1, expected a text"),
]


@pytest.mark.parametrize(("text", "problem"), WRONG)
def test_a_wrong_value_is_named_and_the_rest_counts(text: str, problem: str) -> None:
    """The line has file, line, field, value and what was expected; nothing is lost."""
    found = merged(f"kubeletCgroups: /k\n{text}\nkubeReservedCgroup: /r\n")
    (line,) = found.problems
    assert line.startswith("config.yaml:2: ")
    assert problem in line
    assert found.capacity.kubelet_cgroups == "/k"
    assert found.capacity.kube_reserved_cgroup == "/r"


def test_one_wrong_key_does_not_take_the_others_away() -> None:
    """A wrong value leaves what is below it in force."""
    found = merged(
        "systemReserved: {cpu: '1', memory: 1Gi}\n",
        "systemReserved:\n  memory: 2Gi\n  cpu: two\n",
    )
    assert found.capacity.system_reserved == {"cpu": "1", "memory": "2Gi"}
    (line,) = found.problems
    assert line.startswith("0.conf:3: systemReserved.cpu: 'two', expected")


CONTRADICTIONS = [
    (
        "enforceNodeAllocatable: [kube-reserved]",
        "enforceNodeAllocatable: 'kube-reserved', expected only together with "
        "kubeReservedCgroup",
    ),
    (
        "enforceNodeAllocatable: [system-reserved, system-reserved-compressible]\n"
        "systemReservedCgroup: /s",
        "enforceNodeAllocatable: 'system-reserved' and 'system-reserved-compressible', "
        "expected one of them",
    ),
    (
        "enforceNodeAllocatable: [none, pods]",
        "enforceNodeAllocatable: 'none' with others, expected it alone",
    ),
    (
        "cgroupsPerQOS: false",
        "cgroupsPerQOS: False, expected True unless enforceNodeAllocatable is empty or "
        "none",
    ),
    (
        "systemCgroups: /s",
        "systemCgroups: '/s', expected only together with cgroupRoot",
    ),
    (
        "reservedSystemCPUs: '0'\nkubeReservedCgroup: /k",
        "reservedSystemCPUs: '0', expected no kubeReservedCgroup beside it",
    ),
    (
        "qosReserved: {memory: 50%}",
        "qosReserved: no effect, expected the feature gate QOSReserved on",
    ),
    (
        "cpuCFSQuotaPeriod: 5ms",
        "cpuCFSQuotaPeriod: 5000us, expected the feature gate CustomCPUCFSQuotaPeriod "
        "on",
    ),
    (
        "memoryThrottlingFactor: 0.8\nfeatureGates: {MemoryQoS: false}",
        "memoryThrottlingFactor: 0.8, expected none with the feature gate MemoryQoS "
        "off",
    ),
    (
        "memoryReservationPolicy: TieredReservation\nfeatureGates: {MemoryQoS: false}",
        "memoryReservationPolicy: 'TieredReservation', expected the feature gate "
        "MemoryQoS on",
    ),
]


@pytest.mark.parametrize(("text", "problem"), CONTRADICTIONS)
def test_settings_that_contradict_each_other_are_named(text: str, problem: str) -> None:
    """What kubelet refuses together is named at the place of the field."""
    assert merged(f"{text}\n").problems == (f"config.yaml:1: {problem}",)


@pytest.mark.parametrize(
    "text",
    [
        "memoryThrottlingFactor: 0.9\nfeatureGates: {MemoryQoS: false}\n",
        "cpuCFSQuotaPeriod: 100ms\n",
        "cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\n",
        "enforceNodeAllocatable: [pods, system-reserved-compressible]\n"
        "systemReservedCgroup: /s\n",
        "evictionHard: {memory.available: 0%, nodefs.available: 100%}\n",
    ],
)
def test_what_kubelet_accepts_is_no_problem(text: str) -> None:
    """The former default factor, the default period, and thresholds that are off."""
    assert merged(text).problems == ()


def test_without_its_gate_qos_reserved_is_empty() -> None:
    """The percentages have no effect in kubelet either."""
    assert merged("qosReserved: {memory: 50%}\n").capacity.qos_reserved == {}


def test_the_runtimes_socket() -> None:
    """The socket at which kubelet expects its runtime is read, too."""
    found = merged(
        "containerRuntimeEndpoint: unix:///a\n",
        flags=("--container-runtime-endpoint=unix:///b",),
    )
    assert found.runtime_endpoint == "unix:///b"
    assert merged("a: 1\n").runtime_endpoint == ""

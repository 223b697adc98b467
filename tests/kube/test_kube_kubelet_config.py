"""What one source of kubelet's settings says: values, their places, misspellings."""

from __future__ import annotations

import pytest

from nriplugin.errors import ConfigError
from nriplugin.kube.kubelet_config import (
    KubeletValue,
    parse_arguments,
    parse_config_file,
    parse_flags_file,
)


def test_a_file_has_values_with_their_lines() -> None:
    """Every value has the line of its key, and so has every key of a mapping."""
    found = parse_config_file(
        "# kubelet\ncgroupDriver: systemd\n\nsystemReserved:\n  cpu: '2'\n\n"
        "  memory: 4Gi\n",
        "config.yaml",
    )
    assert found.values["cgroupDriver"] == ("systemd", "config.yaml:2")
    assert found.values["systemReserved"] == KubeletValue(
        {"cpu": ("2", "config.yaml:5"), "memory": ("4Gi", "config.yaml:7")},
        "config.yaml:4",
    )
    assert (found.driver, found.cgroup_root, found.problems) == ("systemd", None, ())


def test_a_key_of_a_merge_has_the_line_where_it_is_written() -> None:
    """YAML's `<<` brings in the keys of another mapping."""
    text = "x-base: &b\n  cpu: '1'\nkubeReserved:\n  <<: *b\n  memory: 1Gi\n"
    given = parse_config_file(text, "c").values["kubeReserved"].value
    assert given == {"cpu": ("1", "c:2"), "memory": ("1Gi", "c:5")}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cgroupsPerQos", "cgroupsPerQOS"),
        ("systemReserverd", "systemReserved"),
        ("evictionhard", "evictionHard"),
        ("podPidLimit", "podPidsLimit"),
        ("featureGate", "featureGates"),
    ],
)
def test_a_misspelt_field_is_named(name: str, meant: str) -> None:
    """A field that is much like one that is read is named with file and line."""
    found = parse_config_file(f"apiVersion: v1beta1\n{name}: 1\n", "config.yaml")
    assert found.values == {}
    assert found.problems == (f"config.yaml:2: {name!r} is unknown, expected {meant}",)


@pytest.mark.parametrize(
    "name",
    [
        "evictionSoft",
        "evictionMinimumReclaim",
        "cpuManagerPolicy",
        "reservedMemory",
        "memoryManagerPolicy",
        "podsPerCore",
        "maxPods",
        "podCIDR",
        "failSwapOn",
        "systemNewField",
    ],
)
def test_other_fields_of_kubelet_are_not_looked_at(name: str) -> None:
    """A field that is not read is no problem, whatever its value."""
    found = parse_config_file(f"{name}: {{a: [1]}}\n", "config.yaml")
    assert found == ({}, ())


def test_another_kind_is_named() -> None:
    """A manifest of something else is not silently taken for kubelet's file."""
    kind = "kind: KubeletConfiguration\n"
    assert parse_config_file(kind, "c").problems == ()
    (line,) = parse_config_file("a: 1\nkind: Pod\n", "c").problems
    assert line == "c:2: kind: 'Pod', expected KubeletConfiguration"


FLAGS = [
    ("--cgroup-root=/a", "cgroupRoot", "/a"),
    ("--cgroups-per-qos=false", "cgroupsPerQOS", False),
    ("--cgroups-per-qos", "cgroupsPerQOS", True),
    ("--cgroup-driver systemd", "cgroupDriver", "systemd"),
    ("--cgroup_driver=systemd", "cgroupDriver", "systemd"),
    ("--kubelet-cgroups=/k", "kubeletCgroups", "/k"),
    ("--system-cgroups=/s", "systemCgroups", "/s"),
    ("--system-reserved=cpu=2,memory=4Gi", "systemReserved", ("cpu", "memory")),
    ("--kube-reserved=cpu=1,pid=100", "kubeReserved", ("cpu", "pid")),
    ("--qos-reserved=memory=50%", "qosReserved", ("memory",)),
    ("--reserved-cpus=0-1", "reservedSystemCPUs", "0-1"),
    ("--system-reserved-cgroup=/sys", "systemReservedCgroup", "/sys"),
    ("--kube-reserved-cgroup=/kube", "kubeReservedCgroup", "/kube"),
    ("--enforce-node-allocatable=pods,none", "enforceNodeAllocatable", None),
    ("--eviction-hard=memory.available<1Gi", "evictionHard", ("memory.available",)),
    ("--cpu-cfs-quota=F", "cpuCFSQuota", False),
    ("--cpu-cfs-quota-period=50ms", "cpuCFSQuotaPeriod", "50ms"),
    ("--pod-max-pids=1024", "podPidsLimit", 1024),
    ("--feature-gates=A=true,B=0", "featureGates", ("A", "B")),
    ("--root-dir=/srv/kubelet", "--root-dir", "/srv/kubelet"),
    ("--container-runtime-endpoint=unix:///x", "containerRuntimeEndpoint", "unix:///x"),
]


@pytest.mark.parametrize(("flag", "field", "expected"), FLAGS)
def test_every_flag_sets_its_field(flag: str, field: str, expected: object) -> None:
    """A flag has the value that the field would have, and the flag as its place."""
    words = ["/usr/bin/kubelet", "--v=2", *flag.split(), "--foo", "bar"]
    found = parse_arguments(words, "/proc/7/cmdline")
    assert found.problems == ()
    ((name, (value, place)),) = found.values.items()
    assert name == field
    flag_name = flag.replace("_", "-").partition("=")[0].split()[0]
    assert place == f"/proc/7/cmdline: {flag_name}"
    if isinstance(value, dict):
        assert (*value,) == expected
    elif isinstance(value, list):
        assert value == ["pods", "none"]
    else:
        assert value == expected
        assert type(value) is type(expected)


def test_pairs_are_read_as_kubelet_reads_them() -> None:
    """Spaces around a pair are no part of it, and a repeated flag adds its pairs."""
    words = ["--kube-reserved=cpu = 1,,memory=2Gi", "--kube-reserved", "cpu=3"]
    value = parse_arguments(words, "c").values["kubeReserved"].value
    assert isinstance(value, dict)
    assert {key: one.value for key, one in value.items()} == {
        "cpu": "3",
        "memory": "2Gi",
    }
    words = ["--enforce-node-allocatable=pods", "--enforce-node-allocatable=none"]
    found = parse_arguments(words, "c").values["enforceNodeAllocatable"]
    assert found.value == ["pods", "none"]


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--cgroups-per-qos=maybe", "'maybe', expected true or false"),
        ("--pod-max-pids=many", "'many', expected a number"),
        ("--kube-reserved=cpu", "'cpu', expected NAME=VALUE"),
        ("--eviction-hard=memory.available=1Gi", "expected NAME<VALUE"),
        ("--feature-gates=A=maybe", "A: 'maybe', expected true or false"),
        ("--cgroup-driver", "no value is given, expected one"),
    ],
)
def test_a_flag_that_cannot_be_read_is_named(flag: str, problem: str) -> None:
    """The line names the source and the flag; the other flags count."""
    found = parse_arguments(["--cgroup-root=/a", flag], "/proc/7/cmdline")
    name = flag.partition("=")[0]
    (line,) = found.problems
    assert line.startswith(f"/proc/7/cmdline: {name}: ")
    assert line.endswith(problem)
    assert [*found.values] == ["cgroupRoot"]


def test_a_misspelt_flag_is_named() -> None:
    """Other flags of kubelet are not looked at."""
    words = ["--kube-reserve=cpu=1", "--kubeconfig=/x", "--eviction-soft=a<1"]
    found = parse_arguments([*words, "--config-foo=1", "--cert-dir", "/a"], "c")
    assert found.problems == ("c: --kube-reserve is unknown, expected --kube-reserved",)
    assert found.values == {}


def test_flags_of_an_environment_file_have_lines() -> None:
    """The place of a flag in a file is file, line and flag."""
    text = '# flags\nA="--cgroup-root=/a\n'
    with pytest.raises(ConfigError, match="No closing quotation in line 2"):
        parse_flags_file(text, "flags.env")
    text = '# flags\nA="--config=/c --kube-reserved=cpu=1"\nB=--config-dir=/d\n'
    found = parse_flags_file(text, "flags.env")
    assert (found.config, found.config_dir) == ("/c", "/d")
    assert found.values["kubeReserved"].place == "flags.env:2: --kube-reserved"

"""kubelet's settings on a node: where they are found, and which of them win."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.hosts import FakeHost

from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
from nriplugin.node.kubelet import read_kubelet

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


def test_a_machine_without_kubelet_has_the_defaults(host: FakeHost) -> None:
    """Files that kubelet need not have are no problem."""
    found = read_kubelet(str(host.root))
    assert (found.sources, found.problems) == ((), ())
    assert found.settings.capacity == KubeletCapacitySettings()


def test_every_source_is_read_in_the_order_of_kubelet(host: FakeHost) -> None:
    """From the winner down: process, environment file, drop-ins, the file."""
    host.write("/etc/k.yaml", "podPidsLimit: 1\nkubeletCgroups: /file\n")
    drop_ins = "/etc/kubelet.d"
    host.write(f"{drop_ins}/10.conf", "podPidsLimit: 2\nsystemCgroups: /ten\n")
    host.write(f"{drop_ins}/20/a.conf", "podPidsLimit: 3\ncgroupRoot: /twenty\n")
    host.write(f"{drop_ins}/90.yaml", "podPidsLimit: 9\n")
    env = "--pod-max-pids=4 --kube-reserved-cgroup=/env"
    host.write("/var/lib/kubelet/kubeadm-flags.env", f'ARGS="{env}"\n')
    host.process(
        7,
        f"/usr/bin/kubelet --config=/etc/k.yaml --config-dir={drop_ins} "
        "--pod-max-pids=5",
    )
    found = read_kubelet(f"{host.root}/")
    below = [place.removeprefix(str(host.root)) for place in found.sources]
    assert below == [
        "/proc/7/cmdline",
        "/var/lib/kubelet/kubeadm-flags.env",
        f"{drop_ins}/20/a.conf",
        f"{drop_ins}/10.conf",
        "/etc/k.yaml",
    ]
    capacity = found.settings.capacity
    assert capacity.pod_pids_limit == 5
    assert capacity.kube_reserved_cgroup == "/env"
    assert capacity.cgroup_root == "/twenty"
    assert capacity.system_cgroups == "/ten"
    assert capacity.kubelet_cgroups == "/file"
    assert found.problems == ()


def test_the_file_in_etc_is_read_if_there_is_no_other(host: FakeHost) -> None:
    """The usual file wins over it, if both are there."""
    host.write("/etc/kubernetes/kubelet/config", "podPidsLimit: 7\n")
    assert read_kubelet(str(host.root)).settings.capacity.pod_pids_limit == 7
    host.kubelet("podPidsLimit: 8\n")
    assert read_kubelet(str(host.root)).settings.capacity.pod_pids_limit == 8


def test_what_is_wrong_is_named_and_the_rest_counts(host: FakeHost) -> None:
    """Sources that kubelet is told of and cannot be read are named, too."""
    host.kubelet("podPidsLimit: 8\ncpuCFSQuota: maybe\n")
    host.write("/etc/kubelet.d/1.conf", "a: [\n")
    host.write("/var/lib/kubelet/kubeadm-flags.env", "A=--config-dir=/etc/kubelet.d\n")
    found = read_kubelet(str(host.root))
    assert found.settings.capacity.pod_pids_limit == 8
    broken, wrong = found.problems
    assert "/etc/kubelet.d/1.conf: line 2, column 1: not YAML: " in broken
    assert wrong == (
        f"{host.root}/var/lib/kubelet/config.yaml:2: cpuCFSQuota: 'maybe', "
        "expected true or false"
    )
    host.process(7, "/usr/bin/kubelet --config=/etc/absent --config-dir=/etc/none")
    absent, none = sorted(read_kubelet(str(host.root)).problems)
    assert absent == f"{host.root}/etc/absent: No such file or directory"
    assert none == f"{host.root}/etc/none: No such file or directory"

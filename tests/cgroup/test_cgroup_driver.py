from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nriplugin.cgroup import node as nodes
from nriplugin.cgroup.driver import DetectedDriver, detect_driver
from nriplugin.cgroup.kubelet import parse_arguments, parse_flags_file
from nriplugin.cgroup.node import detect_node
from nriplugin.cgroup.paths import Driver

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.cgroup.driver import Rung


class Host:
    """A node's files, below a directory of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = root / "sys/fs/cgroup"
        self.tree.mkdir(parents=True)
        (root / "proc").mkdir()

    def write(self, path: str, content: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def config(self, content: str) -> None:
        self.write("var/lib/kubelet/config.yaml", content)

    def flags(self, content: str) -> None:
        self.write("var/lib/kubelet/kubeadm-flags.env", content)

    def process(self, pid: int, *arguments: str) -> None:
        self.write(f"proc/{pid}/cmdline", "\0".join(arguments) + "\0")

    def directory(self, path: str) -> None:
        (self.tree / path).mkdir(parents=True)

    def detect(self, **environ: str) -> DetectedDriver:
        return detect_driver(environ, str(self.root), [str(self.tree)])


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def last(detected: DetectedDriver) -> Rung:
    return detected.rungs[-1]


def test_the_default_is_cgroupfs_and_every_rung_was_asked(host: Host) -> None:
    """Each says what it saw; none is left out."""
    detected = host.detect()
    assert detected.driver is Driver.CGROUPFS
    assert [rung.name for rung in detected.rungs] == [
        "environment",
        "kubelet files",
        "kubelet files",
        "kubelet process",
        "file system",
        "default",
    ]
    assert all(rung.evidence for rung in detected.rungs)
    assert [rung.driver for rung in detected.rungs[:-1]] == [None] * 5


def test_the_rungs_are_asked_in_order(host: Host) -> None:
    """A rung further down is only heard when those above say nothing."""
    host.directory("kubepods.slice")
    detected = host.detect()
    assert (last(detected).name, detected.driver) == ("file system", "systemd")
    host.process(77, "/usr/bin/kubelet", "--cgroup-driver=cgroupfs")
    detected = host.detect()
    assert (last(detected).name, detected.driver) == ("kubelet process", "cgroupfs")
    assert "/proc/77/cmdline: cgroupfs" in last(detected).evidence
    host.flags('KUBELET_KUBEADM_ARGS="--cgroup-driver=systemd"\n')
    detected = host.detect()
    assert (last(detected).name, detected.driver) == ("kubelet files", "systemd")
    assert "kubeadm-flags.env: systemd" in last(detected).evidence
    host.config("cgroupDriver: cgroupfs\n")
    detected = host.detect()
    assert (last(detected).name, detected.driver) == ("kubelet files", "cgroupfs")
    assert "config.yaml: cgroupfs" in last(detected).evidence
    detected = host.detect(CGROUP_DRIVER="systemd")
    assert (last(detected).name, detected.driver) == ("environment", "systemd")
    assert len(detected.rungs) == 1


def test_a_wrong_value_is_reported_and_the_next_rung_is_asked(host: Host) -> None:
    """On every rung that has values."""
    host.config("cgroupDriver: cgroup\n")
    host.flags('X="--cgroup-driver SystemD"')
    host.process(1, "kubelet", "--cgroup-driver", "none")
    detected = host.detect(CGROUP_DRIVER="Systemd")
    evidence = [rung.evidence for rung in detected.rungs]
    assert evidence[0] == "CGROUP_DRIVER: 'Systemd', expected cgroupfs or systemd"
    assert evidence[1].endswith("'cgroup', expected cgroupfs or systemd")
    assert evidence[2].endswith("'SystemD', expected cgroupfs or systemd")
    assert evidence[3].endswith("'none', expected cgroupfs or systemd")
    assert last(detected).name == "default"


@pytest.mark.parametrize(
    "content",
    [
        "cgroupDriver: [",
        "- cgroupDriver",
        "just text",
        "",
        "a: 1\n---\nb: 2\n",
        "\0\1",
        "cgroupDriver: 2001-99-99",
        "cgroupDriver:\n",
    ],
)
def test_a_broken_configuration_ends_nothing(host: Host, content: str) -> None:
    """The next rung is asked; what was wrong is shown."""
    host.config(content)
    host.flags('X="--cgroup-driver=systemd"')
    detected = host.detect()
    assert detected.driver is Driver.SYSTEMD
    assert "config.yaml" in detected.rungs[1].evidence
    assert "\n" not in detected.rungs[1].evidence


def test_config_that_is_a_directory_is_reported(host: Host) -> None:
    """As what the system says of it."""
    (host.root / "var/lib/kubelet/config.yaml").mkdir(parents=True)
    assert "Is a directory" in host.detect().rungs[1].evidence


@pytest.mark.parametrize(
    "text",
    [
        'KUBELET_KUBEADM_ARGS="--cgroup-driver=systemd --pod-infra-container-image=x"',
        "KUBELET_KUBEADM_ARGS=--cgroup-driver=systemd",
        "ARGS='--a=b --cgroup-driver systemd'",
        '# --cgroup-driver=cgroupfs\nA="--cgroup-driver=cgroupfs"\nB="--cgroup-driver '
        'systemd"',
    ],
)
def test_both_spellings_of_a_flag_are_read(text: str) -> None:
    """`--cgroup-driver=x` as well as `--cgroup-driver x`; the last one counts."""
    assert parse_flags_file(text, "file").driver == "systemd"


def test_unmatched_quotes_are_reported(host: Host) -> None:
    """In one line that names the file."""
    host.flags('X="--cgroup-driver=systemd\n')
    rung = host.detect().rungs[2]
    assert rung.driver is None
    assert "kubeadm-flags.env: No closing quotation" in rung.evidence


def test_a_flag_without_value_is_no_answer() -> None:
    """Nor is another flag that begins alike."""
    assert parse_arguments(["kubelet", "--cgroup-driver"]).driver is None
    assert parse_arguments(["--cgroup-driver-x=systemd"]).driver is None


def test_only_the_kubelet_itself_is_asked(host: Host) -> None:
    """Not who mentions it, and not a process that is gone or not ours to see."""
    host.process(1, "/bin/grep", "kubelet", "--cgroup-driver=systemd")
    host.process(2, "/opt/kubelet-wrapper", "--cgroup-driver=systemd")
    (host.root / "proc/3").mkdir()
    host.process(4, "")
    rung = host.detect().rungs[3]
    assert rung.driver is None
    assert "no kubelet among the 3 processes" in rung.evidence
    assert "hostPID" in rung.evidence
    host.process(5, "/hyperkube", "kubelet", "--cgroup-driver=systemd")
    assert host.detect().driver is Driver.SYSTEMD


def test_the_file_system_of_the_host_is_asked(host: Host) -> None:
    """Where its tree is, not where ours would be; both at once is no answer."""
    host.directory("kubepods")
    detected = host.detect()
    assert last(detected).evidence == f"{host.tree}/kubepods is there"
    host.directory("kubepods.slice")
    rung = host.detect().rungs[-2]
    assert rung.evidence.endswith("are both there")
    assert rung.driver is None


@pytest.mark.parametrize(
    ("directory", "driver"),
    [
        ("kubelet/kubepods", Driver.CGROUPFS),
        ("kubelet.slice/kubelet-kubepods.slice", Driver.SYSTEMD),
    ],
)
def test_kubepods_is_below_the_kubelets_root(
    host: Host, directory: str, driver: Driver
) -> None:
    """As kind has it."""
    host.config("cgroupRoot: /kubelet\n")
    host.directory(directory)
    detected = host.detect()
    assert (detected.driver, detected.kube_root) == (driver, ("kubelet",))
    assert "config.yaml: '/kubelet'" in detected.kube_root_evidence


def test_the_kubelets_flags_win_over_its_file(host: Host) -> None:
    """Its root, too; one that leads elsewhere is not used."""
    host.config("cgroupRoot: /one\n")
    assert host.detect().kube_root == ("one",)
    host.process(9, "kubelet", "--cgroup-root", "/two/three")
    assert host.detect().kube_root == ("two", "three")
    host.process(9, "kubelet", "--cgroup-root=/../etc")
    detected = host.detect()
    assert detected.kube_root == ()
    assert "expected a name without" in detected.kube_root_evidence


def test_a_v1_host_is_probed_below_its_controllers(host: Host) -> None:
    """There is no kubepods at the root itself."""
    host.directory("memory/kubepods.slice")
    environ = {"NRIPLUGIN_CGROUP_VERSION": "1", "NRIPLUGIN_HOST_ROOT": str(host.root)}
    node = detect_node(environ)
    assert node.driver.driver is Driver.SYSTEMD
    assert node.cgroup_root == str(host.tree)
    assert node.layout.pod_path("Burstable", "cpu", "1-2") == (
        f"{host.tree}/cpu/kubepods.slice/kubepods-burstable.slice/"
        "kubepods-burstable-pod1_2.slice"
    )


def test_a_host_root_without_cgroups_falls_back_to_ours(tmp_path: Path) -> None:
    """They may be mounted at their usual place, and only the rest elsewhere."""
    assert detect_node({}, str(tmp_path)).cgroup_root == "/sys/fs/cgroup"


def test_cgroup2_anywhere_makes_a_v1_host_hybrid(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only at systemd's place for it; ours is not the host's."""
    mountinfo = host.root / "mountinfo"
    monkeypatch.setattr(nodes, "MOUNTINFO", str(mountinfo))
    line = "30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n"
    mountinfo.write_text(line.format("/elsewhere"))
    assert detect_node({}, str(host.root)).version.hybrid == ""
    mountinfo.write_text(line.format(f"{host.root}/mnt/two"))
    version = detect_node({}, str(host.root)).version
    assert (version.number, version.hybrid) == (1, f"{host.root}/mnt/two is cgroup2")
    mountinfo.unlink()
    assert detect_node({}, str(host.root)).mounts.hierarchies == {}


def test_a_host_without_proc_is_seen_through_ours(tmp_path: Path) -> None:
    """As in a pod with hostPID that mounts only what it needs."""
    rung = detect_driver({}, str(tmp_path), []).rungs[3]
    assert rung.name == "kubelet process"
    assert "/proc" in rung.evidence
    assert str(tmp_path) not in rung.evidence

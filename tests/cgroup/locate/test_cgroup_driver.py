from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nriplugin.cgroup.locate import detect as nodes
from nriplugin.cgroup.locate.detect import detect_node
from nriplugin.cgroup.locate.driver import DetectedDriver, detect_driver
from nriplugin.cgroup.locate.paths import Driver
from nriplugin.kube import kubelet_config
from nriplugin.kube.kubelet_config import parse_arguments, parse_flags_file

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.cgroup.locate.driver import Rung


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

    def process(
        self,
        pid: int,
        *arguments: str,
        exe: str | None = None,
        uids: str = "0\t0\t0\t0",
        cgroup: str = "0::/system.slice/kubelet.service\n",
    ) -> None:
        """Add a process; without more, one of root's outside of any pod."""
        self.write(f"proc/{pid}/cmdline", "\0".join(arguments) + "\0")
        self.write(f"proc/{pid}/status", f"Name:\tkubelet\nUid:\t{uids}\nGid:\t0\n")
        self.write(f"proc/{pid}/cgroup", cgroup)
        link = self.root / f"proc/{pid}/exe"
        link.unlink(missing_ok=True)
        link.symlink_to(exe or f"/usr/bin/{arguments[0].rpartition('/')[2]}")

    def directory(self, path: str) -> None:
        (self.tree / path).mkdir(parents=True)

    def detect(self, **environ: str) -> DetectedDriver:
        trees = [str(self.tree)]
        return detect_driver(environ, str(self.root), trees, kubelet_config)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def last(detected: DetectedDriver) -> Rung:
    return detected.rungs[-1]


def test_the_default_is_cgroupfs_and_every_rung_was_asked(host: Host) -> None:
    """Without an answer the driver is cgroupfs, and every rung says what it saw."""
    detected = host.detect()
    assert detected.driver is Driver.CGROUPFS
    assert [rung.name for rung in detected.rungs] == [
        "environment",
        "kubelet process",
        "kubelet files",
        "kubelet files",
        "file system",
        "default",
    ]
    assert all(rung.evidence for rung in detected.rungs)
    assert [rung.driver for rung in detected.rungs[:-1]] == [None] * 5


def test_the_rungs_are_asked_in_order(host: Host) -> None:
    """A rung counts only if those above it have no answer."""
    host.directory("kubepods.slice")
    detected = host.detect()
    assert (last(detected).name, detected.driver) == ("file system", "systemd")
    host.config("cgroupDriver: cgroupfs\n")
    detected = host.detect()
    assert (last(detected).name, detected.driver) == ("kubelet files", "cgroupfs")
    assert "config.yaml: cgroupfs" in last(detected).evidence
    host.flags('KUBELET_KUBEADM_ARGS="--cgroup-driver=systemd"\n')
    detected = host.detect()
    assert (last(detected).name, detected.driver) == ("kubelet files", "systemd")
    assert "kubeadm-flags.env: systemd" in last(detected).evidence
    host.process(77, "/usr/bin/kubelet", "--cgroup-driver=cgroupfs")
    detected = host.detect()
    assert (last(detected).name, detected.driver) == ("kubelet process", "cgroupfs")
    assert "/proc/77/cmdline: cgroupfs" in last(detected).evidence
    detected = host.detect(CGROUP_DRIVER="systemd")
    assert (last(detected).name, detected.driver) == ("environment", "systemd")
    assert len(detected.rungs) == 1


def test_a_wrong_value_is_reported_and_the_next_rung_is_asked(host: Host) -> None:
    """A value that names no driver is evidence, and the next rung is asked."""
    host.config("cgroupDriver: cgroup\n")
    host.flags('X="--cgroup-driver SystemD"')
    host.process(1, "kubelet", "--cgroup-driver", "none")
    detected = host.detect(CGROUP_DRIVER="Systemd")
    evidence = [rung.evidence for rung in detected.rungs]
    assert evidence[0] == "CGROUP_DRIVER: 'Systemd', expected cgroupfs or systemd"
    assert evidence[1].endswith("'none', expected cgroupfs or systemd")
    assert evidence[2].endswith("'SystemD', expected cgroupfs or systemd")
    assert evidence[3].endswith("'cgroup', expected cgroupfs or systemd")
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
    """A file that cannot be parsed is evidence, and the next rung is asked."""
    host.config(content)
    host.directory("kubepods.slice")
    detected = host.detect()
    assert detected.driver is Driver.SYSTEMD
    assert "config.yaml" in detected.rungs[3].evidence
    assert "\n" not in detected.rungs[3].evidence


def test_config_that_is_a_directory_is_reported(host: Host) -> None:
    """The evidence has the error of the operating system."""
    (host.root / "var/lib/kubelet/config.yaml").mkdir(parents=True)
    assert "Is a directory" in host.detect().rungs[3].evidence


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
    """The evidence is one line that names the file."""
    host.flags('X="--cgroup-driver=systemd\n')
    rung = host.detect().rungs[2]
    assert rung.driver is None
    assert "kubeadm-flags.env: No closing quotation" in rung.evidence


def test_a_flag_without_value_is_no_answer() -> None:
    """A flag at the end, or one that only begins alike, is no answer."""
    assert parse_arguments(["kubelet", "--cgroup-driver"], "cmdline").driver is None
    assert parse_arguments(["--cgroup-driver-x=systemd"], "cmdline").driver is None


def test_only_the_kubelet_itself_is_asked(host: Host) -> None:
    """Processes that mention the kubelet, or cannot be read, are passed over."""
    host.process(1, "/bin/grep", "kubelet", "--cgroup-driver=systemd")
    host.process(2, "/opt/kubelet-wrapper", "--cgroup-driver=systemd")
    (host.root / "proc/3").mkdir()
    host.process(4, "", exe="/bin/sh")
    rung = host.detect().rungs[1]
    assert rung.driver is None
    assert "no kubelet among the 3 processes" in rung.evidence
    assert "hostPID" in rung.evidence
    host.process(5, "/hyperkube", "kubelet", "--cgroup-driver=systemd")
    assert host.detect().driver is Driver.SYSTEMD


POD = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice"
PRETENDERS: dict[str, dict[str, str]] = {
    "a user": {"uids": "1000\t1000\t1000\t1000"},
    "a user who became root": {"uids": "1000\t0\t0\t0"},
    "root who became a user": {"uids": "0\t1000\t0\t0"},
    "another program": {"exe": "/bin/sleep"},
    "a pod with systemd": {"cgroup": f"0::{POD}/cri-containerd-abc.scope\n"},
    "a pod with cgroupfs": {"cgroup": "0::/kubepods/burstable/pod1/abc\n"},
    "a pod on v1": {"cgroup": "4:memory:/kubepods/pod1/abc\n1:name=systemd:/\n0::/\n"},
    "a pod below a root": {"cgroup": "0::/my_nodes/kubepods/pod1/abc/kubelet\n"},
    "a pod next to ours": {"cgroup": "0::/../../pod1/abc\n"},
    "nowhere": {"cgroup": ""},
}


@pytest.mark.parametrize("one", PRETENDERS.values(), ids=PRETENDERS)
def test_a_process_that_plays_the_kubelet_is_not_believed(
    host: Host, one: dict[str, str]
) -> None:
    """A pod may call a program kubelet and choose its flags; they are not used."""
    told = ("--cgroup-driver=systemd", "--cgroup-root=/theirs", "--config=/etc/theirs")
    host.write("etc/theirs", "cgroupDriver: systemd\n")
    host.process(7, "/usr/bin/kubelet", *told, **one)
    detected = host.detect()
    assert (detected.driver, detected.kube_root) == (Driver.CGROUPFS, ())
    assert "7 is not taken for one: " in detected.rungs[1].evidence
    assert last(detected).name == "default"
    host.process(4711, "/usr/bin/kubelet", "--cgroup-root=/real")
    assert host.detect().kube_root == ("real",)


def test_a_kubelet_that_was_replaced_while_it_runs_is_one(host: Host) -> None:
    """After an upgrade of its package the old kubelet runs on, and is recognised."""
    exe = "/usr/bin/kubelet (deleted)"
    host.process(7, "/usr/bin/kubelet", "--cgroup-driver=systemd", exe=exe)
    assert host.detect().driver is Driver.SYSTEMD


def test_what_cannot_be_looked_at_is_not_believed(host: Host) -> None:
    """A process whose executable cannot be read is not taken for the kubelet."""
    host.process(7, "kubelet", "--cgroup-driver=systemd")
    (host.root / "proc/7/exe").unlink()
    detected = host.detect()
    assert detected.driver is Driver.CGROUPFS
    assert "proc/7/exe: No such file or directory" in detected.rungs[1].evidence


def test_the_kubelets_own_configuration_is_followed(host: Host) -> None:
    """The file of `--config` is read instead of the one at the usual path."""
    host.config("cgroupDriver: cgroupfs\ncgroupRoot: /usual\n")
    host.write("etc/kubernetes/k.yaml", "cgroupDriver: systemd\ncgroupRoot: /own\n")
    host.process(7, "kubelet", "--config", "/etc/kubernetes/k.yaml")
    detected = host.detect()
    assert (detected.driver, detected.kube_root) == (Driver.SYSTEMD, ("own",))
    assert "/etc/kubernetes/k.yaml: systemd" in last(detected).evidence
    host.process(7, "kubelet", "--config=/etc/absent")
    evidence = [rung.evidence for rung in host.detect().rungs]
    assert any("/etc/absent: No such file" in one for one in evidence)


@pytest.mark.parametrize("by_process", [True, False])
def test_drop_ins_win_in_the_order_of_their_names(host: Host, by_process: bool) -> None:
    """Later drop-ins win over earlier ones and over the file, field by field."""
    if by_process:
        host.process(7, "kubelet", "--config-dir=/etc/kubelet.d/")
    else:
        host.flags('X="--config-dir=/etc/kubelet.d"')
    host.config("cgroupDriver: cgroupfs\ncgroupRoot: /file\n")
    directory = "etc/kubelet.d"
    host.write(f"{directory}/10-a.conf", "cgroupDriver: systemd\ncgroupRoot: /ten\n")
    host.write(f"{directory}/20-b.conf", "cgroupRoot: /twenty\n")
    host.write(f"{directory}/30-c.conf", "kind: KubeletConfiguration\n")
    host.write(f"{directory}/90-d.yaml", "cgroupDriver: none\ncgroupRoot: /no\n")
    detected = host.detect()
    assert (detected.driver, detected.kube_root) == (Driver.SYSTEMD, ("twenty",))
    assert "10-a.conf: systemd" in last(detected).evidence
    assert "20-b.conf: '/twenty'" in detected.kube_root_evidence


def test_a_directory_of_drop_ins_that_is_not_there_is_told_of(host: Host) -> None:
    """The evidence names the directory, and the configuration file is read."""
    host.process(7, "kubelet", "--config-dir=/etc/kubelet.d")
    host.config("cgroupDriver: systemd\n")
    detected = host.detect()
    assert detected.driver is Driver.SYSTEMD
    assert "/etc/kubelet.d: No such file or directory" in detected.rungs[3].evidence


def test_the_flags_win_over_the_files_for_the_driver_too(host: Host) -> None:
    """A flag wins over the files, as it does for the kubelet."""
    host.config("cgroupDriver: cgroupfs\n")
    host.process(7, "kubelet", "--cgroup-driver=systemd")
    assert host.detect().driver is Driver.SYSTEMD


def test_the_file_system_of_the_host_is_asked(host: Host) -> None:
    """The host's tree counts; kubepods in both forms is no answer."""
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
    """With a cgroupRoot, as kind has it, kubepods is looked for below it."""
    host.config("cgroupRoot: /kubelet\n")
    host.directory(directory)
    detected = host.detect()
    assert (detected.driver, detected.kube_root) == (driver, ("kubelet",))
    assert "config.yaml: '/kubelet'" in detected.kube_root_evidence


def test_the_kubelets_flags_win_over_its_file(host: Host) -> None:
    """A cgroupRoot in a flag wins; one that leads out of the hierarchy is not used."""
    host.config("cgroupRoot: /one_1\n")
    assert host.detect().kube_root == ("one_1",)
    host.process(9, "kubelet", "--cgroup-root", "/two/three")
    assert host.detect().kube_root == ("two", "three")
    host.process(9, "kubelet", "--cgroup-root=/../etc")
    detected = host.detect()
    assert detected.kube_root == ()
    assert "expected a name without" in detected.kube_root_evidence


def test_a_v1_host_is_probed_below_its_controllers(host: Host) -> None:
    """On v1 kubepods is in the controllers' directories, not at the root."""
    host.directory("memory/kubepods.slice")
    environ = {"NRIPLUGIN_CGROUP_VERSION": "1", "NRIPLUGIN_HOST_ROOT": str(host.root)}
    node = detect_node(environ)
    assert node.driver.driver is Driver.SYSTEMD
    assert node.cgroup_root == str(host.tree)
    pod = node.paths.pod("Burstable", "1-2")
    assert node.paths.path("cpu", pod) == (
        f"{host.tree}/cpu/kubepods.slice/kubepods-burstable.slice/"
        "kubepods-burstable-pod1_2.slice"
    )


def test_a_host_root_without_cgroups_falls_back_to_ours(tmp_path: Path) -> None:
    """If the host root has no cgroups, /sys/fs/cgroup of this process is used."""
    assert detect_node({}, str(tmp_path)).cgroup_root == "/sys/fs/cgroup"


def test_cgroup2_anywhere_makes_a_v1_host_hybrid(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cgroup2 mount anywhere on the host makes it hybrid; one outside does not."""
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
    """If the host root has no /proc, that of this process is read."""
    rung = detect_driver({}, str(tmp_path), [], kubelet_config).rungs[1]
    assert rung.name == "kubelet process"
    assert "/proc" in rung.evidence
    assert str(tmp_path) not in rung.evidence


def test_without_a_parser_the_kubelets_settings_are_not_looked_at(host: Host) -> None:
    """Without a parser no rung names the kubelet, whatever its files say."""
    trees = [str(host.tree)]
    found = detect_driver({}, str(host.root), trees)
    assert [rung.name for rung in found.rungs] == [
        "environment",
        "file system",
        "default",
    ]
    asked = detect_driver({}, str(host.root), trees, kubelet_config)
    assert {"kubelet process", "kubelet files"} <= {rung.name for rung in asked.rungs}

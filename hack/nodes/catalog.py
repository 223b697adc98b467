"""The nodes: which there are, and what each is made of."""

from __future__ import annotations

from dataclasses import dataclass

# The packages of every root. CRI-O needs skopeo and conmon; podman is for the tests of
# the hook; systemd is the init only of nodes whose driver is systemd; the CNI plugins
# are for the nodes with a kubelet.
PACKAGES = (
    "busybox-static",
    "ca-certificates",
    "conmon",
    "containerd",
    "containernetworking-plugins",
    "crun",
    "dbus",
    "iproute2",
    "kmod",
    "podman",
    "python3",
    "python3-venv",
    "runc",
    "skopeo",
    "systemd",
    "systemd-sysv",
)

OF_KUBERNETES = ("kubelet", "kubectl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One kind of node.

    `root` and `kernel` are Debian suites; `runtime` is containerd or crio, `config`
    the runtime's configuration in guest/etc, `nri` whether the runtime offers NRI.
    `programs` are those that Debian lacks (programs.py); where Debian has a program of
    the same name, it is not used. `kubelet` says whether the node joins a cluster.
    """

    name: str
    about: str
    root: str
    kernel: str
    runtime: str
    config: str
    cgroup: int = 2
    driver: str = "cgroupfs"
    nri: bool = True
    programs: tuple[str, ...] = ("crictl",)
    kubelet: bool = False


NODES = {
    node.name: node
    for node in (
        Node(
            name="containerd-2",
            about="newest containerd of Debian, NRI on, runc and crun quadratic",
            root="forky",
            kernel="forky",
            runtime="containerd",
            config="containerd-2.toml",
            programs=("crictl", "memory-qos"),
        ),
        Node(
            name="containerd-2.4",
            about="containerd 2.4 with NRI 0.12 and the newest runc",
            root="forky",
            kernel="forky",
            runtime="containerd",
            config="containerd-2.toml",
            programs=(
                *("crictl", "containerd", "runc", "memory-qos", "stubplugin"),
                "containerd-integration",
            ),
        ),
        Node(
            name="containerd-1.7",
            about="containerd 1.7 with NRI enabled, runc and crun linear",
            root="trixie",
            kernel="trixie",
            runtime="containerd",
            config="containerd-1.7.toml",
        ),
        Node(
            name="crio",
            about="CRI-O with conmon, runc and crun",
            root="forky",
            kernel="trixie",
            runtime="crio",
            config="crio.conf",
            programs=("crictl", "crio", "runc"),
        ),
        Node(
            name="v1",
            about="containerd 1.7 with NRI on a cgroup v1 kernel and layout",
            root="trixie",
            kernel="bookworm",
            runtime="containerd",
            config="containerd-1.7.toml",
            cgroup=1,
        ),
        Node(
            name="systemd",
            about="containerd 2 under systemd, with the systemd cgroup driver",
            root="forky",
            kernel="forky",
            runtime="containerd",
            config="containerd-2-systemd.toml",
            driver="systemd",
        ),
        Node(
            name="containerd-1.6",
            about="containerd 1.6, which has no NRI",
            root="bookworm",
            kernel="bookworm",
            runtime="containerd",
            config="containerd-1.6.toml",
            nri=False,
            programs=("crictl", "critest"),
        ),
        Node(
            name="kubernetes",
            about="a real kubelet with containerd 2.4 and the newest runc",
            root="forky",
            kernel="forky",
            runtime="containerd",
            config="containerd-2.toml",
            programs=("crictl", "containerd", "runc", *OF_KUBERNETES),
            kubelet=True,
        ),
        Node(
            name="kubernetes-systemd",
            about="a real kubelet with containerd 2.4 and the systemd cgroup driver",
            root="forky",
            kernel="forky",
            runtime="containerd",
            config="containerd-2-systemd.toml",
            driver="systemd",
            programs=("crictl", "containerd", "runc", *OF_KUBERNETES),
            kubelet=True,
        ),
        Node(
            name="kubernetes-crio",
            about="a real kubelet with CRI-O and the newest runc",
            root="forky",
            kernel="trixie",
            runtime="crio",
            config="crio.conf",
            programs=("crictl", "crio", "runc", *OF_KUBERNETES),
            kubelet=True,
        ),
    )
}

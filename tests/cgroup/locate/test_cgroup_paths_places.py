"""From a path, or a process, back to the pod; and the paths of a node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.trees import CONTAINER_ID, UID

from nriplugin.cgroup.locate.identify import (
    CgroupIdentity,
    ProcessCgroups,
    identify,
    parse_process_cgroups,
)
from nriplugin.cgroup.locate.node_paths import NodePaths, kube_root_components
from nriplugin.cgroup.locate.paths import Driver, RuntimeName
from nriplugin.errors import ConfigError

ESCAPED = UID.replace("-", "_")
SYSTEMD_POD = (
    f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{ESCAPED}.slice"
)


@pytest.mark.parametrize(
    ("version", "driver", "expected"),
    [
        (1, Driver.CGROUPFS, "/sys/fs/cgroup/cpu/kubepods/burstable/pod1-2"),
        (2, Driver.CGROUPFS, "/sys/fs/cgroup/kubepods/burstable/pod1-2"),
        (
            1,
            Driver.SYSTEMD,
            "/sys/fs/cgroup/cpu/kubepods.slice/kubepods-burstable.slice/"
            "kubepods-burstable-pod1_2.slice",
        ),
        (
            2,
            Driver.SYSTEMD,
            "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/"
            "kubepods-burstable-pod1_2.slice",
        ),
    ],
)
def test_a_pod_is_found_on_both_versions_with_both_drivers(
    version: int, driver: Driver, expected: str
) -> None:
    """v1 has a tree per controller, v2 one for all."""
    paths = NodePaths(version, driver)
    assert paths.path("cpu", paths.pod("Burstable", "1-2")) == expected
    qos = paths.path("cpu", paths.qos("Burstable"))
    assert qos == expected.rpartition("/")[0]
    assert paths.path("cpu", paths.qos("Guaranteed")) == paths.root_path("cpu")
    assert paths.root_path("cpu") == expected.rpartition("/")[0].rpartition("/")[0]
    assert paths.version == version


def test_the_paths_keeps_to_its_mount_and_root() -> None:
    """Paths begin with the mount and the kubelet's cgroupRoot."""
    paths = NodePaths(1, Driver.CGROUPFS, "/host/sys/fs/cgroup", ("kubelet",))
    assert paths.root_path("memory") == "/host/sys/fs/cgroup/memory/kubelet/kubepods"
    assert paths.path("memory", "/") == "/host/sys/fs/cgroup/memory"
    slices = NodePaths(2, Driver.SYSTEMD, kube_root=("kubelet",))
    assert slices.qos("BestEffort") == (
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice"
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/", ()),
        ("", ()),
        ("/kubelet", ("kubelet",)),
        ("a//b/", ("a", "b")),
        ("/my_nodes", ("my_nodes",)),
    ],
)
def test_the_kubelets_root_is_read(text: str, parts: tuple[str, ...]) -> None:
    """A cgroupRoot may have slashes at its ends."""
    assert kube_root_components(text) == parts


@pytest.mark.parametrize("text", ["/..", "/a/../b", "/a\n", "/a_\0"])
def test_a_root_that_leads_elsewhere_is_refused(text: str) -> None:
    """The error names the field cgroupRoot."""
    with pytest.raises(ConfigError, match=r"^cgroupRoot: '"):
        kube_root_components(text)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/kubepods", CgroupIdentity(Driver.CGROUPFS)),
        ("/kubepods.slice", CgroupIdentity(Driver.SYSTEMD)),
        (
            "/kubepods/besteffort",
            CgroupIdentity(Driver.CGROUPFS, qos_class="BestEffort"),
        ),
        (
            "/kubepods.slice/kubepods-besteffort.slice",
            CgroupIdentity(Driver.SYSTEMD, qos_class="BestEffort"),
        ),
        (
            f"/kubepods/pod{UID}",
            CgroupIdentity(Driver.CGROUPFS, qos_class="Guaranteed", pod_uid=UID),
        ),
        (
            SYSTEMD_POD,
            CgroupIdentity(Driver.SYSTEMD, qos_class="Burstable", pod_uid=UID),
        ),
        (
            f"/kubepods.slice/kubepods-pod{ESCAPED}.slice/cri-containerd-{CONTAINER_ID}.scope",
            CgroupIdentity(
                Driver.SYSTEMD,
                (),
                "Guaranteed",
                UID,
                CONTAINER_ID,
                RuntimeName.CONTAINERD,
            ),
        ),
        (
            f"{SYSTEMD_POD}/crio-abc.scope/container",
            CgroupIdentity(
                Driver.SYSTEMD,
                (),
                "Burstable",
                UID,
                "abc",
                RuntimeName.CRIO,
                inner=("container",),
            ),
        ),
        (
            f"{SYSTEMD_POD}/crio-conmon-abc.scope",
            CgroupIdentity(
                Driver.SYSTEMD,
                (),
                "Burstable",
                UID,
                "abc",
                RuntimeName.CRIO,
                conmon=True,
            ),
        ),
        (
            f"{SYSTEMD_POD}/docker-{CONTAINER_ID}.scope",
            CgroupIdentity(
                Driver.SYSTEMD, (), "Burstable", UID, CONTAINER_ID, RuntimeName.DOCKER
            ),
        ),
        (
            "/my_nodes/kubepods/burstable/pod1",
            CgroupIdentity(Driver.CGROUPFS, ("my_nodes",), "Burstable", "1"),
        ),
        (
            # The slice of the root my-nodes, too.
            "/my_nodes.slice/my_nodes-kubepods.slice/my_nodes-kubepods-pod1.slice",
            CgroupIdentity(Driver.SYSTEMD, ("my-nodes",), "Guaranteed", "1"),
        ),
        (
            "/kubepods/burstable/pod1/crio-abc",
            CgroupIdentity(
                Driver.CGROUPFS, (), "Burstable", "1", "abc", RuntimeName.CRIO
            ),
        ),
        (
            "/kubepods/burstable/pod1/crio-conmon-abc",
            CgroupIdentity(
                Driver.CGROUPFS,
                (),
                "Burstable",
                "1",
                "abc",
                RuntimeName.CRIO,
                conmon=True,
            ),
        ),
        (
            "/docker/77/kubelet/kubepods/pod1/abc",
            CgroupIdentity(
                Driver.CGROUPFS,
                ("docker", "77", "kubelet"),
                "Guaranteed",
                "1",
                "abc",
                RuntimeName.CONTAINERD,
            ),
        ),
        (
            # The kubelet uses systemd, containerd does not.
            f"/system.slice/containerd.service/kubepods-burstable-pod{ESCAPED}.slice:"
            "cri-containerd:abc",
            CgroupIdentity(
                Driver.SYSTEMD, (), "Burstable", UID, "abc", RuntimeName.CONTAINERD
            ),
        ),
        (
            # A container that runs a systemd of its own.
            f"{SYSTEMD_POD}/cri-containerd-abc.scope/system.slice/x.service",
            CgroupIdentity(
                Driver.SYSTEMD,
                (),
                "Burstable",
                UID,
                "abc",
                RuntimeName.CONTAINERD,
                inner=("system.slice", "x.service"),
            ),
        ),
        (
            "/kubepods.slice/other.slice",
            CgroupIdentity(Driver.SYSTEMD, inner=("other.slice",)),
        ),
        ("/kubepods/pod", CgroupIdentity(Driver.CGROUPFS, inner=("pod",))),
    ],
)
def test_a_path_says_what_it_is(path: str, place: CgroupIdentity) -> None:
    """Every form that kubelet, containerd, CRI-O, runc and crun make."""
    assert identify(path) == place


@pytest.mark.parametrize(
    "path",
    ["/", "", "/system.slice/kubelet.service", "/kubepodsx", "/my-kubepodsx.slice"],
)
def test_what_is_no_kubelets_is_nothing(path: str) -> None:
    """A path that the kubelet did not make gives None."""
    assert identify(path) is None


def test_the_level_is_named() -> None:
    """The level is kubepods, qos, pod or container."""
    paths = ["/kubepods", "/kubepods/burstable", "/kubepods/pod1", "/kubepods/pod1/a"]
    places = [identify(path) for path in paths]
    levels = [place.level for place in places if place is not None]
    assert levels == ["kubepods", "qos", "pod", "container"]


NAME = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,12}[a-z0-9])?", fullmatch=True)
ID = st.from_regex(r"[0-9a-f]{1,64}", fullmatch=True)


@given(
    driver=st.sampled_from(Driver),
    runtime=st.sampled_from(RuntimeName),
    root=st.lists(NAME.filter(lambda name: name != "kubepods"), max_size=2),
    qos_class=st.sampled_from(["Guaranteed", "Burstable", "BestEffort"]),
    uid=st.one_of(st.uuids().map(str), ID),
    container_id=ID,
)
def test_what_was_built_is_recognised(
    driver: Driver,
    runtime: RuntimeName,
    root: list[str],
    qos_class: str,
    uid: str,
    container_id: str,
) -> None:
    """Building a path and reading it are each other's inverse."""
    paths = NodePaths(2, driver, kube_root=tuple(root))
    pod = CgroupIdentity(driver, tuple(root), qos_class, uid)
    assert identify(paths.pod(qos_class, uid)) == pod
    path = paths.container(qos_class, uid, container_id, runtime)
    if driver is Driver.CGROUPFS and runtime is RuntimeName.DOCKER:
        runtime = RuntimeName.CONTAINERD  # neither has a prefix there
    expected = CgroupIdentity(
        driver, tuple(root), qos_class, uid, container_id, runtime
    )
    assert identify(path) == expected


@pytest.mark.parametrize("driver", Driver)
def test_a_root_with_an_underscore_leads_to_its_pods(driver: Driver) -> None:
    """A `_` in the cgroupRoot is read as `-`, which makes the same slice again."""
    paths = NodePaths(2, driver, kube_root=("my_nodes", "a-b"))
    path = paths.pod("Burstable", UID)
    assert path.startswith(
        "/my_nodes/a-b/kubepods/"
        if driver is Driver.CGROUPFS
        else "/my_nodes.slice/my_nodes-a_b.slice/my_nodes-a_b-kubepods.slice/"
    )
    place = identify(path)
    assert place is not None
    assert place.pod_uid == UID
    assert NodePaths(2, driver, kube_root=place.root).pod("Burstable", UID) == path


@given(st.text("/kubepods.-_:slicrtan", max_size=60))
def test_no_path_confuses_it(path: str) -> None:
    """Any text gives an identity or None, and no exception."""
    identify(path)


V1_TEXT = f"""\
11:hugetlb:{SYSTEMD_POD}/cri-containerd-abc.scope
10:cpuset:{SYSTEMD_POD}/cri-containerd-abc.scope
9:pids:{SYSTEMD_POD}/cri-containerd-abc.scope
8:memory:{SYSTEMD_POD}/cri-containerd-abc.scope
7:perf_event:{SYSTEMD_POD}/cri-containerd-abc.scope
6:freezer:{SYSTEMD_POD}/cri-containerd-abc.scope
5:net_cls,net_prio:{SYSTEMD_POD}/cri-containerd-abc.scope
4:devices:{SYSTEMD_POD}/cri-containerd-abc.scope
3:cpu,cpuacct:{SYSTEMD_POD}/cri-containerd-abc.scope
2:blkio:{SYSTEMD_POD}/cri-containerd-abc.scope
1:name=systemd:{SYSTEMD_POD}/cri-containerd-abc.scope
0::/
"""


def test_a_process_of_a_v1_node() -> None:
    """The v1 hierarchies count before the unified one, which may be `/` for all."""
    cgroups = parse_process_cgroups(V1_TEXT)
    assert cgroups.unified == "/"
    assert cgroups.controllers["cpuacct"] == cgroups.controllers["cpu"]
    assert len(cgroups.controllers) == 13
    place = cgroups.identity()
    assert place is not None
    assert (place.pod_uid, place.container_id) == (UID, "abc")


# What /proc/PID/cgroup shows of a container of a BestEffort pod, with cgroupfs.
V1_CONTROLLERS = (
    *("net_cls", "cpu,cpuacct", "memory", "blkio", "devices", "hugetlb", "pids"),
    *("freezer", "cpuset", "perf_event", "name=systemd"),
)


def test_a_process_of_a_v1_node_with_cgroupfs() -> None:
    """Eleven hierarchies have the path of the container, and the unified one is `/`."""
    path = f"/kubepods/besteffort/pod{UID}/{'ab' * 32}"
    numbers = range(len(V1_CONTROLLERS), 0, -1)
    lines = [
        f"{number}:{controllers}:{path}"
        for number, controllers in zip(numbers, V1_CONTROLLERS, strict=True)
    ]
    assert len(lines) == 11
    cgroups = parse_process_cgroups("\n".join([*lines, "0::/\n"]))
    assert {*cgroups.controllers.values()} == {path}
    assert cgroups.controllers["cpu"] == cgroups.controllers["memory"] == path
    place = cgroups.identity()
    assert place is not None
    assert (place.qos_class, place.pod_uid) == ("BestEffort", UID)
    assert place.container_id == "ab" * 32


def test_a_process_of_a_v2_node() -> None:
    """The one line is read, even if the cgroup is deleted or has colons in its path."""
    text = "0::/kubepods/burstable/pod1/abc (deleted)\n"
    place = parse_process_cgroups(text).identity()
    assert place == identify("/kubepods/burstable/pod1/abc")
    odd = "0::/x.service/kubepods-pod1.slice:cri-containerd:abc"
    place = parse_process_cgroups(odd).identity()
    assert place is not None
    assert place.container_id == "abc"


def test_a_process_that_is_no_pods() -> None:
    """A process outside of pods, or a text of another kind, gives None."""
    for text in ("0::/init.scope\n", "", "x", "a:b:c\n", "0:\n"):
        assert parse_process_cgroups(text).identity() is None
    assert parse_process_cgroups("nonsense") == ProcessCgroups({}, None)

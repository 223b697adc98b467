from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vectors import Vector, each

from nriplugin.cgroup.locate.paths import (
    Driver,
    RuntimeName,
    cgroup_of,
    cgroup_path,
    container_path,
    pod_components,
    qos_components,
    scope_name,
)
from nriplugin.cgroup_names import expand_slice
from nriplugin.errors import ConfigError

UID = "7b0f0a2e-5d6c-4c1f-9c39-1f5a2a0f4b11"
RUNTIMES = {"containerd": RuntimeName.CONTAINERD, "CRI-O": RuntimeName.CRIO}


@each("k8s/path/")
@pytest.mark.parametrize("driver", Driver)
def test_components_become_a_path(vector: Vector, driver: Driver) -> None:
    """cgroupfs makes a directory of each component, systemd a slice."""
    path = cgroup_path(vector.input["components"], driver)
    assert path == vector.expect[driver.value]


@each("k8s/scope/")
def test_a_container_is_a_scope_in_its_pods_slice(vector: Vector) -> None:
    """The scope is named after the runtime, and the OCI spec leads to it."""
    runtime, identity = (
        RUNTIMES[vector.id.rpartition("/")[2]],
        vector.input["containerID"],
    )
    driver = Driver(vector.input["driver"])
    pod = pod_components("Burstable", UID)
    expect = vector.expect
    assert scope_name(runtime, identity) == expect["scope"]
    path = container_path(pod, identity, driver, runtime)
    assert cgroup_of(expect["cgroupsPath"]) == path
    assert path == f"{cgroup_path(pod, driver)}/{expect['scope']}"


@each("systemd/ExpandSlice/")
def test_slices_nest_by_their_names(vector: Vector) -> None:
    """A slice's path follows from its name, as systemd and runtimes read it."""
    name = vector.input["slice"]
    if vector.error:
        with pytest.raises(ConfigError, match=r"^slice: '"):
            expand_slice(name)
    else:
        assert expand_slice(name) == vector.expect["path"]


@pytest.mark.parametrize(
    "name", ["", "a", "a.scope", "a--b.slice", "a/b.slice", "--.slice"]
)
def test_what_is_not_a_slice_is_refused(name: str) -> None:
    """The error has the name."""
    with pytest.raises(ConfigError, match=r"expected A\.slice") as caught:
        expand_slice(name)
    assert repr(name) in str(caught.value)


def test_the_qos_class_is_a_directory_except_guaranteed() -> None:
    """The components begin with the kubelet's cgroupRoot, if it has one."""
    assert qos_components("Guaranteed") == ("kubepods",)
    assert qos_components("Burstable") == ("kubepods", "burstable")
    assert qos_components("BestEffort", ["kubelet"]) == (
        "kubelet",
        "kubepods",
        "besteffort",
    )
    assert pod_components("Guaranteed", "1") == ("kubepods", "pod1")
    with pytest.raises(ConfigError, match="'burstable', expected Guaranteed, Burst"):
        qos_components("burstable")


def test_cgroupfs_containers() -> None:
    """containerd's and Docker's are named by their ID, CRI-O's keep the prefix."""
    pod = pod_components("BestEffort", UID)
    parent = f"/kubepods/besteffort/pod{UID}"
    for runtime, name in (
        (RuntimeName.CONTAINERD, "abc"),
        (RuntimeName.CRIO, "crio-abc"),
        (RuntimeName.DOCKER, "abc"),
    ):
        path = container_path(pod, "abc", Driver.CGROUPFS, runtime)
        assert path == f"{parent}/{name}"


@pytest.mark.parametrize("part", ["", ".", "..", "a/b", "a_b", "a\0", "a\n"])
@pytest.mark.parametrize("driver", Driver)
def test_no_component_leads_elsewhere(part: str, driver: Driver) -> None:
    """Names that lead out of their directory are refused, and so are names with `_`."""
    with pytest.raises(ConfigError, match="expected a name without"):
        cgroup_path(["kubepods", part], driver)
    with pytest.raises(ConfigError, match="expected a name without"):
        container_path(["kubepods"], part, driver, RuntimeName.CRIO)


COMPONENT = st.from_regex(r"[a-z0-9<>]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)


@given(st.lists(COMPONENT, min_size=1, max_size=5))
def test_a_slice_gives_its_components_back(components: list[str]) -> None:
    """Each component is one directory, and no two cgroups have the same path."""
    *_, last = directories = cgroup_path(components, Driver.SYSTEMD)[1:].split("/")
    assert len(directories) == len(components)
    parts = last.removesuffix(".slice").split("-")
    assert [part.replace("_", "-") for part in parts] == components

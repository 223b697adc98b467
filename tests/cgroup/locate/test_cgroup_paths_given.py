"""From the strings that kubelet and runtimes hand around to directories."""

from __future__ import annotations

import os.path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.locate.paths import (
    Driver,
    RuntimeName,
    cgroup_of,
    cgroup_of_parent,
    cgroup_path,
    container_path,
    pod_components,
    slice_name,
)

UID = "7b0f0a2e-5d6c-4c1f-9c39-1f5a2a0f4b11"


@pytest.mark.parametrize("driver", Driver)
@pytest.mark.parametrize("runtime", RuntimeName)
@pytest.mark.parametrize("qos_class", ["Guaranteed", "Burstable", "BestEffort"])
@pytest.mark.parametrize("root", [(), ("kubelet",)])
def test_what_is_handed_around_leads_back(
    driver: Driver, runtime: RuntimeName, qos_class: str, root: tuple[str, ...]
) -> None:
    """cgroupsPath and cgroup_parent lead to the directories of container and pod."""
    pod = pod_components(qos_class, UID, root)
    container = container_path(pod, "abc", driver, runtime)
    spec = container  # what the runtime writes to `linux.cgroupsPath`
    if driver is Driver.SYSTEMD:
        spec = f"{slice_name(pod)}:{runtime}:abc"
    assert cgroup_of(spec) == container
    parent = cgroup_path(pod, driver)
    assert cgroup_of_parent(parent) == parent
    if driver is Driver.SYSTEMD:
        assert cgroup_of_parent(slice_name(pod)) == parent


@pytest.mark.parametrize(
    ("given", "cgroup"),
    [
        ("/kubepods/pod1/c", "/kubepods/pod1/c"),
        ("/kubepods//pod1/./c/", "/kubepods/pod1/c"),
        ("a-b.slice:crio:c", "/a.slice/a-b.slice/crio-c.scope"),
        ("-.slice:crio:c", "/crio-c.scope"),
        ("", None),
        ("/", None),
        ("//", None),
        ("/..", None),
        ("/kubepods/pod1/../../system.slice", None),
        ("/kubepods/pod1/..", None),
        ("/kubepods/pod\0", None),
        ("kubepods/pod1/c", None),
        ("c", None),
        ("..", None),
        (":", None),
        ("::", None),
        ("a.slice", None),
        ("a.slice:", None),
        ("a.slice:crio", None),
        ("a.slice:crio:", None),
        ("a.slice:crio:c:d", None),
        ("a.slice:crio:../c", None),
        ("a.slice:cr/io:c", None),
        ("a.slice:crio:c\0", None),
        ("a:crio:c", None),
        ("../a.slice:crio:c", None),
        ("a--b.slice:crio:c", None),
    ],
)
def test_a_containers_directory(given: str, cgroup: str | None) -> None:
    """A cgroupsPath is normalised; one that names no container gives None."""
    assert cgroup_of(given) == cgroup


@pytest.mark.parametrize(
    ("given", "cgroup"),
    [
        ("/kubepods/pod1", "/kubepods/pod1"),
        ("/kubepods/pod1/", "/kubepods/pod1"),
        ("/a.slice/a-b.slice", "/a.slice/a-b.slice"),
        ("a-b.slice", "/a.slice/a-b.slice"),
        ("", None),
        ("/", None),
        ("-.slice", None),
        ("a", None),
        ("a/b.slice", None),
        ("/kubepods/..", None),
        ("/../kubepods", None),
        ("a\0.slice", None),
    ],
)
def test_a_pods_directory(given: str, cgroup: str | None) -> None:
    """A cgroup_parent is normalised; the root is no pod's and gives None."""
    assert cgroup_of_parent(given) == cgroup


PIECES = [
    "/",
    "..",
    ".",
    ":",
    "-",
    "a",
    "kubepods",
    ".slice",
    ".scope",
    "\0",
    "\n",
    "é",
]
odd = st.text(max_size=30) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@settings(max_examples=200, deadline=None)
@given(odd)
def test_odd_strings_never_lead_elsewhere(text: str) -> None:
    """No text leads out of the hierarchy or raises an exception."""
    for found in (cgroup_of(text), cgroup_of_parent(text)):
        if found is None:
            continue
        assert found == os.path.normpath(found) != "/"
        assert found.startswith("/")
        assert not found.startswith("//")
        assert ".." not in found.split("/")
        assert "\0" not in found
        # In one spelling: what came out goes in again.
        assert cgroup_of(found) == cgroup_of_parent(found) == found
        identify(found)

from __future__ import annotations

import pytest
from doors.hook.bundles import CGROUP, ID, POD
from support.trees import UID

from nriplugin.doors.hook.bundle import HookError
from nriplugin.doors.hook.own_cgroup import own_cgroup

SLICE = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
SYSTEMD_PATH = f"kubepods-pod{UID.replace('-', '_')}.slice:crio:{ID}"
USER = "/user.slice/user-1000.slice/user@1000.service/user.slice"


@pytest.mark.parametrize(
    ("cgroups_path", "process", "expected"),
    [
        # CRI-O: cgroupfs; runc with systemd, and crun, which has one more below.
        (CGROUP, CGROUP, CGROUP),
        (SYSTEMD_PATH, f"{SLICE}/crio-{ID}.scope", f"{SLICE}/crio-{ID}.scope"),
        (
            SYSTEMD_PATH,
            f"{SLICE}/crio-{ID}.scope/container",
            f"{SLICE}/crio-{ID}.scope",
        ),
        # podman: root's, and a user's, which is not where the spec says.
        (
            f"machine.slice:libpod:{ID}",
            f"/machine.slice/libpod-{ID}.scope/container",
            f"/machine.slice/libpod-{ID}.scope",
        ),
        (
            f"user.slice:libpod:{ID}",
            f"{USER}/libpod-{ID}.scope/container",
            f"{USER}/libpod-{ID}.scope",
        ),
        # Bare bundles: no path, a relative one, no slice.
        ("", f"/{ID}", f"/{ID}"),
        ("", f"/system.slice/runc-{ID}.scope", f"/system.slice/runc-{ID}.scope"),
        ("a/b", "/user.slice/a/b", "/user.slice/a/b"),
        (":runc:x", "/system.slice/runc-x.scope", "/system.slice/runc-x.scope"),
        # A systemd path given to a runtime without systemd.
        ("x.slice:crio:1", "/x.slice:crio:1", "/x.slice:crio:1"),
    ],
)
def test_where_the_process_is_counts(
    cgroups_path: str, process: str, expected: str
) -> None:
    """The named cgroup is the container's, not crun's inner one."""
    assert own_cgroup(ID, cgroups_path, f"0::{process}\n")[0] == expected


@pytest.mark.parametrize(
    ("cgroups_path", "process"),
    [
        ("", "/"),
        ("", "/user.slice/user-1000.slice/session-1.scope"),
        (CGROUP, "/system.slice/crio.service"),
        (CGROUP, "/../x"),
        ("/", "/system.slice/x.service"),
        (CGROUP, f"/../..{CGROUP}"),
        # Of the right name, but above where the process is.
        ("/x/system.slice", "/system.slice/docker.service"),
        ("", f"/{ID}/worker.service"),
        ("", "/container"),
    ],
)
def test_what_others_share_is_refused(cgroups_path: str, process: str) -> None:
    """A cgroup without the container's name is shared."""
    with pytest.raises(HookError, match="expected one of the container's own"):
        own_cgroup(ID, cgroups_path, f"0::{process}\n")


def test_a_short_id_is_no_part_of_a_name() -> None:
    """`runc run 1` in a session does not make session-1.scope the container's."""
    with pytest.raises(HookError):
        own_cgroup("1", "", "0::/user.slice/session-1.scope\n")


@pytest.mark.parametrize(
    "cgroup", ["/kubepods", "/kubepods/burstable", POD, f"{POD}/crio-conmon-{ID}"]
)
def test_what_is_kubelets_but_no_container_is_refused(cgroup: str) -> None:
    """A pod's cgroup is not a container's, even if the spec says so."""
    with pytest.raises(HookError, match="expected a container's"):
        own_cgroup(ID, cgroup, f"0::{cgroup}\n")


def test_without_a_process_the_spec_counts() -> None:
    """A path below kubepods is believed without the process."""
    cgroup, place = own_cgroup(ID, SYSTEMD_PATH, None)
    assert cgroup == f"{SLICE}/crio-{ID}.scope"
    assert place is not None
    assert (place.qos_class, place.pod_uid) == ("Guaranteed", UID)


@pytest.mark.parametrize(
    "cgroups_path", ["", "a", "/", "/../etc", f"/x/{ID}", "/system.slice"]
)
def test_without_either_there_is_none(cgroups_path: str) -> None:
    """Without a process and a path below kubepods nothing is guessed."""
    with pytest.raises(HookError):
        own_cgroup(ID, cgroups_path, None)

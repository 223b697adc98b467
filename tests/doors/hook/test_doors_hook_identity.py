from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from doors.hook.bundles import CRIO, CRIO_ANNOTATIONS, SANDBOX_ID, Bundle
from support.trees import UID

from nriplugin.doors.hook.identity import (
    ContainerIdentity,
    identify_container,
    pod_labels,
)

if TYPE_CHECKING:
    from pathlib import Path

CONTAINERD = {
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.container-name": "web",
    "io.kubernetes.cri.sandbox-name": "shop",
    "io.kubernetes.cri.sandbox-namespace": "prod",
    "io.kubernetes.cri.sandbox-uid": UID,
}


def test_crio() -> None:
    """CRI-O joins the pod's names into one, and has the container's name in JSON."""
    assert identify_container(CRIO_ANNOTATIONS) == ContainerIdentity(
        "web", "shop", "prod", UID, crio_sandbox_id=SANDBOX_ID
    )


def test_containerd() -> None:
    """containerd has an annotation for each name."""
    assert identify_container(CONTAINERD) == ContainerIdentity(
        "web", "shop", "prod", UID
    )


def test_neither() -> None:
    """A container of podman or of a bare bundle has no names."""
    assert identify_container({"run.oci.handler": "krun"}) == ContainerIdentity()


@pytest.mark.parametrize(
    "annotations",
    [
        {f"{CRIO}ContainerType": "sandbox"},
        {"io.kubernetes.cri.container-type": "sandbox"},
    ],
)
def test_a_sandbox_is_known(annotations: dict[str, str]) -> None:
    """A sandbox is known by the annotation of either runtime."""
    assert identify_container(annotations).sandbox


def test_a_pod_cannot_pass_for_another() -> None:
    """With CRI-O, annotations of the pod stand beside those of the runtime."""
    forged = {
        **CONTAINERD,
        "io.kubernetes.cri.container-type": "sandbox",
        "io.kubernetes.cri.sandbox-namespace": "kube-system",
        "io.kubernetes.pod.namespace": "kube-system",
    }
    identity = identify_container({**forged, **CRIO_ANNOTATIONS})
    assert (identity.namespace, identity.sandbox) == ("prod", False)


@pytest.mark.parametrize(
    "changed",
    [
        {f"{CRIO}SandboxName": "k8s_a_b_c_d_0"},
        {f"{CRIO}SandboxName": "x"},
    ],
)
def test_names_that_are_not_kubernetes_are_not_guessed(changed: dict[str, str]) -> None:
    """A joined name with too many `_` could be split in several ways."""
    identity = identify_container({**CRIO_ANNOTATIONS, **changed})
    assert (identity.pod, identity.namespace, identity.uid) == ("", "", "")


@pytest.mark.parametrize("metadata", ["", "[", "[]", '{"name": 1}', "[" * 100_000])
def test_metadata_that_makes_no_sense_gives_no_name(metadata: str) -> None:
    """A container without a name matches no rule by name."""
    changed = {**CRIO_ANNOTATIONS, f"{CRIO}Metadata": metadata}
    assert identify_container(changed).container == ""


def test_labels_are_the_sandboxs(tmp_path: Path) -> None:
    """CRI-O keeps the labels in the sandbox's bundle, beside the container's."""
    bundle = Bundle(tmp_path)
    bundle.add_sandbox(Labels=json.dumps({"app": "shop", "odd": 1}))
    identity = identify_container(CRIO_ANNOTATIONS)
    assert pod_labels(str(bundle.directory), identity) == {"app": "shop"}


@pytest.mark.parametrize("sandbox_id", ["", "a" * 64, f"x/../{SANDBOX_ID}"])
def test_without_a_sandbox_there_are_no_labels(tmp_path: Path, sandbox_id: str) -> None:
    """A sandbox ID that is not one never becomes part of a path."""
    bundle = Bundle(tmp_path)
    bundle.add_sandbox(Labels='{"app": "shop"}')
    (tmp_path / "storage" / "x").mkdir()
    identity = ContainerIdentity(crio_sandbox_id=sandbox_id)
    assert pod_labels(str(bundle.directory), identity) == {}

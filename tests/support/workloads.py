"""Manifests for a cluster of the test bed: its one image, on one node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IMAGE = "localhost/box:1"

Resources = dict[str, dict[str, str]]


def resources(
    requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None
) -> Resources:
    """Return resources of a container or of a pod."""
    given = {"requests": dict(requests or {}), "limits": dict(limits or {})}
    return {key: value for key, value in given.items() if value}


def cpu_memory(cpu: str, memory: str) -> dict[str, str]:
    """Return a quantity of each."""
    return {"cpu": cpu, "memory": memory}


def container(name: str, given: Resources | None = None, **more: Any) -> dict[str, Any]:
    """Return a container; without a command it sleeps."""
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "resources": given or {},
        **more,
    }


def sidecar(name: str, given: Resources | None = None) -> dict[str, Any]:
    """Return a container that starts before the others and runs beside them."""
    return container(name, given, restartPolicy="Always")


def spec(
    node: str,
    *containers: Mapping[str, Any],
    init: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> dict[str, Any]:
    """Return a pod's specification; the scheduler places it on one node.

    It is on the host's network, because CNI takes seconds under emulation.
    """
    return {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "initContainers": list(init),
        "containers": list(containers),
        **more,
    }


def pod(
    name: str,
    pod_spec: Mapping[str, Any],
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": name},
            "annotations": dict(annotations or {}),
        },
        "spec": dict(pod_spec),
    }


def _template(name: str, pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": dict(pod_spec)},
    }


def deployment(name: str, pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Deployment with one replica."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": _template(name, pod_spec),
    }


def stateful_set(name: str, pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a StatefulSet with one replica."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {"serviceName": name, **_template(name, pod_spec)},
    }


def job(name: str, pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Job whose pod is started once."""
    whole = {"restartPolicy": "Never", **pod_spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"labels": {"app": name}}, "spec": whole},
        },
    }


def runtime_class(
    name: str, handler: str, overhead: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return a RuntimeClass, with the overhead of its pods."""
    more = {"overhead": {"podFixed": dict(overhead)}} if overhead else {}
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": handler,
        **more,
    }

"""Pods from kubelet's checkpoint of what it has allocated to them. Pure.

kubelet 1.33 and later keeps `allocated_pods_state`: JSON with a JSON text in the field
`data`, which has the requests and limits of containers by the pod's UID. It has neither
names of pods nor their overhead, and does not say which containers are init containers;
before 1.36 those that end are not in it. Pods are called by their UIDs here.
"""

from __future__ import annotations

import json
from typing import Any

from nriplugin.errors import ConfigError

CHECKPOINT = "allocated_pods_state"  # below kubelet's root


def checkpoint_pods(text: str | bytes, source: str) -> list[dict[str, Any]]:
    """Return objects of kind Pod, one for each pod with containers.

    Raises:
        ConfigError: the text has another shape than kubelet's.
    """
    try:
        entries = json.loads(json.loads(text)["data"])["entries"] or {}
        return [
            _pod(str(uid), entry)
            for uid, entry in entries.items()
            if entry["ContainerResources"]
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
        raise ConfigError(
            f"{source}: {exc!r:.120}, expected kubelet's checkpoint of 1.33 or later"
        ) from exc


def _pod(uid: str, entry: dict[str, Any]) -> dict[str, Any]:
    containers = [
        {"name": name, "resources": resources or {}}
        for name, resources in entry["ContainerResources"].items()
    ]
    spec: dict[str, Any] = {"containers": containers}
    if entry.get("PodLevelResources"):
        spec["resources"] = entry["PodLevelResources"]
    return {"kind": "Pod", "metadata": {"name": uid, "uid": uid}, "spec": spec}

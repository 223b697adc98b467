"""kubelet's checkpoint: the file `allocated_pods_state`, written as kubelet does."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def checkpoint_text(requests: Mapping[str, Mapping[str, str | None]]) -> bytes:
    """Return a checkpoint: pod UID -> container -> memory request, or None."""
    return enclosed(
        {
            "entries": {
                uid: {
                    "ContainerResources": {
                        name: resources(memory) for name, memory in containers.items()
                    },
                    "PodLevelResources": None,
                    "EmptyDirVolumeLimits": None,
                }
                for uid, containers in requests.items()
            }
        }
    )


def resources(memory: str | None) -> dict[str, Any]:
    """Return the resources of a container in a checkpoint."""
    requests = {"cpu": "250m"} if memory is None else {"cpu": "250m", "memory": memory}
    return {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": requests}


def enclosed(data: object) -> bytes:
    """Return the file around its data."""
    return json.dumps({"data": json.dumps(data), "checksum": 1234567890}).encode()


def replace(path: Path, content: bytes) -> None:
    """Write a file as kubelet does: another one, which is then renamed."""
    beside = path.with_name(f".{path.name}1234")
    beside.write_bytes(content)
    os.replace(beside, path)

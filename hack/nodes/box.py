"""An image without a registry: one layer with a static busybox, as an OCI archive.

It serves as workload and as the pause container.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAME = "localhost/box:1"
# What a container does if its configuration names no command.
SLEEP = ["/bin/sleep", "1000000"]
APPLETS = (
    *("sh", "sleep", "cat", "echo", "env", "dd", "true", "false", "mkdir", "ls"),
    # What critest runs.
    *("top", "touch", "stat"),
    # What Kubernetes' own tests of a node run.
    *("cut", "df", "find", "free", "grep", "head", "mount", "seq", "tail", "xargs"),
)


def write_box(busybox: Path, archive: Path) -> None:
    """Write the archive."""
    layer = _layer(busybox.read_bytes())
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        media_type = f"application/vnd.oci.image.{kind}"
        return {
            "mediaType": media_type,
            "digest": f"sha256:{digest}",
            "size": len(content),
        }

    layer_entry = blob(layer, "layer.v1.tar")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": SLEEP, "Env": ["PATH=/bin"]},
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"],
        },
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "config.v1+json"),
        "layers": [layer_entry],
    }
    entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    # containerd wants the whole name, skopeo is content with it.
    entry["annotations"] = {
        "org.opencontainers.image.ref.name": NAME,
        "io.containerd.image.name": NAME,
    }
    index = {"schemaVersion": 2, "manifests": [entry]}
    files = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps(index).encode(),
        **blobs,
    }
    with tarfile.open(archive, "w") as tar:
        for name, content in files.items():
            _add(tar, name, content)


def _layer(busybox: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(directory)
        _add(tar, "bin/busybox", busybox, mode=0o755)
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))

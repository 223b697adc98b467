"""Layers and the OCI archive: the same trees always make the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MEDIA_TYPE = "application/vnd.oci.image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What a runtime is told about the image."""

    name: str
    architecture: str
    epoch: int
    config: Mapping[str, Any]
    layers: tuple[tuple[str, Path], ...]


@dataclass(slots=True)
class _Blobs:
    """The files of the archive that are named by their digest."""

    files: dict[str, bytes] = field(default_factory=dict)

    def add(self, content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = content
        return {
            "mediaType": f"{MEDIA_TYPE}.{kind}",
            "digest": f"sha256:{digest}",
            "size": len(content),
        }


def write_archive(image: Image, archive: Path) -> str:
    """Write the archive; return the digest of the manifest."""
    blobs = _Blobs()
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(image.epoch))
    layers, diff_ids, history = [], [], []
    for why, tree in image.layers:
        plain = layer(tree, image.epoch)
        diff_ids.append(f"sha256:{hashlib.sha256(plain).hexdigest()}")
        layers.append(blobs.add(gzip.compress(plain, 6, mtime=0), "layer.v1.tar+gzip"))
        history.append({"created": created, "created_by": why})
    config = {
        "created": created,
        "architecture": image.architecture,
        "os": "linux",
        "config": dict(image.config),
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": history,
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
        "config": blobs.add(_json(config), "config.v1+json"),
        "layers": layers,
    }
    entry = blobs.add(_json(manifest), "manifest.v1+json")
    digest = str(entry["digest"])
    # containerd takes the first name, skopeo and podman the second.
    entry["annotations"] = {
        "io.containerd.image.name": image.name,
        "org.opencontainers.image.ref.name": image.name,
    }
    entry["platform"] = {"architecture": image.architecture, "os": "linux"}
    index = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA_TYPE}.index.v1+json",
        "manifests": [entry],
    }
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(index),
        **dict(sorted(blobs.files.items())),
    }
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            entry_of = tarfile.TarInfo(name)
            entry_of.size, entry_of.mtime = len(content), image.epoch
            tar.addfile(entry_of, io.BytesIO(content))
    return digest


def layer(tree: Path, epoch: int) -> bytes:
    """Return a tree as a tar file: sorted, owned by root, all of one time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(tree.rglob("*")):
            entry = _entry(path, str(path.relative_to(tree)), epoch)
            if entry.isreg():
                with path.open("rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)
    return buffer.getvalue()


def _entry(path: Path, name: str, epoch: int) -> tarfile.TarInfo:
    found = path.lstat()
    entry = tarfile.TarInfo(name)
    entry.mtime = epoch
    if stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(path)
        entry.mode = 0o777
    elif stat.S_ISDIR(found.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    else:
        # The builder's umask and programs that run as somebody else stay out.
        entry.mode = 0o755 if found.st_mode & 0o100 else 0o644
        entry.size = found.st_size
    return entry


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

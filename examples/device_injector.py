"""Gives containers the device nodes that annotations of their pod name.

python device_injector.py [SOCKET]

devices.nri.io/container.NAME: |
  - {path: /dev/fuse, type: c, major: 10, minor: 229, file_mode: 0666}
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import yaml

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri import Plugin, run

KEY = "devices.nri.io"
REQUIRED = ("path", "type", "major", "minor")
OPTIONAL = ("file_mode", "uid", "gid")

log = logging.getLogger("device-injector")


class DeviceInjector(Plugin):
    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        key = f"{KEY}/container.{request.container.name}"
        text = request.pod.annotations.get(key, request.pod.annotations.get(KEY))
        if text is None:
            return None
        response = nri.CreateContainerResponse()
        try:
            response.adjust.linux.devices.extend(map(device, yaml.safe_load(text)))
        except (yaml.YAMLError, KeyError, TypeError, ValueError) as exc:
            # A mistake in an annotation must not keep the container from starting.
            log.warning("%s: %s: %r", request.pod.name, key, exc)
            return None
        return response


def device(entry: dict[str, Any]) -> nri.LinuxDevice:
    """Return the device of one entry of the list."""
    result = nri.LinuxDevice(**{key: entry[key] for key in REQUIRED})
    for key in OPTIONAL:
        if key in entry:
            getattr(result, key).value = entry[key]
    return result


if __name__ == "__main__":
    socket_path = sys.argv[1] if len(sys.argv) > 1 else None
    run(DeviceInjector(), name="device-injector", idx="30", socket_path=socket_path)

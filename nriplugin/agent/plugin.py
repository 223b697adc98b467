"""The NRI plugin: v1-style resources in, cgroup v2 files out.

Only `unified` keys leave. A `memory.limit` in an adjustment would silently set the
swap limit too, and a `unified` key that a container already has is somebody's
explicit wish, so it wins.
"""

from __future__ import annotations

import logging
from types import MappingProxyType
from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.convert import Curve, convert
from nriplugin.convert.conversion import EXPLICIT_RULE
from nriplugin.convert.sources import core_from_nri
from nriplugin.engine.decision import RESOURCES
from nriplugin.errors import ConfigError
from nriplugin.nri import Plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.cgroup.version import Version
    from nriplugin.config import Config

_log = logging.getLogger(__name__)

# Files that every cgroup v2 node has. One that is missing fails the container, so the
# others are left to the runtime, which derives them from the same numbers.
SENT = frozenset({"cpu.weight", "cpu.max", "memory.max"})


class ResourcesPlugin(Plugin):
    """Converts cpu shares, quota and period, and the memory limit."""

    views = MappingProxyType(
        {
            "create_container": view.CreateContainerRequest,
            "synchronize": view.SynchronizeRequest,
        }
    )

    def __init__(self, cgroup: Version | None = None) -> None:
        """Answer nothing on cgroup v1, where a v2 value fails every container."""
        self._inactive_because = ""
        self._switched_off = False
        self._curve = Curve.QUADRATIC
        if cgroup is not None and cgroup.number != 2:
            self._inactive_because = f"cgroup v{cgroup.number} ({cgroup.evidence})"

    def apply(self, config: Config) -> None:
        """Take a configuration, also while serving.

        Raises:
            ConfigError: it asks for what is not served.
        """
        active = config.engine.base.active
        asked = [name for name in active if name != RESOURCES]
        asked += ["rules"] if config.engine.rules else []
        asked += ["adopt"] if config.adopt.enabled else []
        asked += ["repair"] if config.repair.enabled else []
        if asked:
            raise ConfigError(
                f"{', '.join(asked)}: on, expected only resources: "
                "the others are explained, but not served yet"
            )
        self.failure_policy = config.failure_policy
        self._curve = config.engine.curve or Curve.QUADRATIC
        self._switched_off = RESOURCES not in active

    def configure(self, request: nri.ConfigureRequest) -> None:
        """Take the configuration that a launching runtime hands over."""
        if request.config:
            from nriplugin.config import parse_config

            self.apply(parse_config(request.config, "configuration from the runtime"))
        _log.info(
            "registered with %s %s", request.runtime_name, request.runtime_version
        )
        if self._inactive_because:
            _log.warning("inactive: %s", self._inactive_because)

    def synchronize(  # type: ignore[override] # the view declared above
        self, pods: Sequence[view.PodSandbox], containers: Sequence[view.Container]
    ) -> None:
        """Existing containers keep what the runtime gave them."""
        _log.info("synchronized: %d pods, %d containers", len(pods), len(containers))

    def disconnected(self, reason: str) -> None:
        """Say so; the runner dials again."""
        _log.info("disconnected: %s", reason)

    def create_container(  # type: ignore[override] # the view declared above
        self, request: view.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        """Answer with the v2 files of the new container."""
        if self._inactive_because or self._switched_off:
            return None
        resources = request.container.linux.resources
        given = core_from_nri(resources)
        unified = None
        for file, value, rule in convert(given, self._curve).derived:
            if file in SENT and rule is not EXPLICIT_RULE:
                if unified is None:
                    response = nri.CreateContainerResponse()
                    unified = response.adjust.linux.resources.unified
                unified[file] = value
        return None if unified is None else response

    def update_container(
        self, request: nri.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Answer with kubelet's whole request, which ours replaces, and the files."""
        if self._inactive_because or self._switched_off:
            return None
        asked = request.linux_resources
        given = core_from_nri(asked)
        if given.quota_us is None:
            # A period alone would lift the quota that the container has.
            given = given._replace(period_us=None)
        files = {
            file: value
            for file, value, rule in convert(given, self._curve).derived
            if file in SENT and rule is not EXPLICIT_RULE
        }
        if not files:
            return None
        response = nri.UpdateContainerResponse()
        update = response.update.add(container_id=request.container.id)
        update.linux.resources.CopyFrom(asked)
        update.linux.resources.unified.update(files)
        return response

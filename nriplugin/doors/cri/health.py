"""gRPC's standard health service: well is a proxy whose runtime answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import OVERALL_HEALTH, HealthServicer

from nriplugin.doors.cri.methods import IMAGE_SERVICE, RUNTIME_SERVICE
from nriplugin.errors import RPCError

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc

SERVICES = (OVERALL_HEALTH, RUNTIME_SERVICE, IMAGE_SERVICE)


class Health(HealthServicer):
    """Answers for the proxy and both of CRI's services, which are well together."""

    def __init__(self, probe: Callable[[], object]) -> None:
        """Ask with `probe`, which raises RPCError or TimeoutError."""
        super().__init__()
        self._probe = probe
        self.tell(False)

    def tell(self, well: bool) -> None:
        """Take note of how the runtime is."""
        status = health_pb2.HealthCheckResponse
        for service in SERVICES:
            self.set(service, status.SERVING if well else status.NOT_SERVING)

    def Check(  # noqa: N802 - the method of the service
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        """Look now: nobody may have called anything since the runtime went away."""
        try:
            self._probe()
        except (RPCError, TimeoutError):
            self.tell(False)
        else:
            self.tell(True)
        return super().Check(request, context)

"""gRPC's health and reflection services on the control socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from daemon.control_clients import SERVICE, ControlClient, controlled, daemon_of
from doors.nri.nodes import plugin_on
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from support.harness import PATIENCE_S

from nriplugin.nri.methods import PLUGIN_SERVICE

if TYPE_CHECKING:
    from pathlib import Path

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
REFLECTIONS = ("grpc.reflection.v1", "grpc.reflection.v1alpha")


def health(client: ControlClient, service: str = "") -> int:
    request = health_pb2.HealthCheckRequest(service=service)
    answer = client.call(
        "/grpc.health.v1.Health/Check", request, health_pb2.HealthCheckResponse
    )
    return int(answer.status)


def watch_health(client: ControlClient, service: str = "") -> Any:
    watch: Any = client.channel.unary_stream(
        "/grpc.health.v1.Health/Watch",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    request = health_pb2.HealthCheckRequest(service=service)
    return watch(request, timeout=PATIENCE_S)


def reflect(
    client: ControlClient, package: str, **asked: Any
) -> reflection_pb2.ServerReflectionResponse:
    stream: Any = client.channel.stream_stream(
        f"/{package}.ServerReflection/ServerReflectionInfo",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    request = reflection_pb2.ServerReflectionRequest(**asked)
    (answer,) = stream(iter([request]), timeout=PATIENCE_S)
    assert isinstance(answer, reflection_pb2.ServerReflectionResponse)
    return answer


def test_health_follows_the_connection(tmp_path: Path) -> None:
    """It is that of /readyz, at the moment of the question, for every service."""
    plugin = plugin_on()
    connection = plugin.lifecycle.connection
    with controlled(daemon_of(plugin.lifecycle), tmp_path) as client:
        watched, unknown = watch_health(client), watch_health(client, "no.such")
        assert next(watched).status == NOT_SERVING
        assert next(unknown).status == UNKNOWN
        for service in ("", SERVICE, PLUGIN_SERVICE):
            assert health(client, service) == NOT_SERVING
        connection.synchronized(0)
        for service in ("", SERVICE, PLUGIN_SERVICE):
            assert health(client, service) == SERVING
        assert next(watched).status == SERVING
        connection.ended("gone")
        assert health(client) == NOT_SERVING
        with pytest.raises(grpc.RpcError) as raised:
            health(client, "no.such")
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND
        watched.cancel()
        unknown.cancel()


@pytest.mark.parametrize("package", REFLECTIONS)
def test_reflection_describes_every_service(package: str, tmp_path: Path) -> None:
    """Tools ask for either version; both describe all services, also themselves."""
    plugin = plugin_on()
    with controlled(daemon_of(plugin.lifecycle), tmp_path) as client:
        listed = reflect(client, package, list_services="")
        names = [one.name for one in listed.list_services_response.service]
        assert set(names) == {
            *(SERVICE, PLUGIN_SERVICE, "grpc.health.v1.Health"),
            *(f"{one}.ServerReflection" for one in REFLECTIONS),
        }
        for name in names:
            answer = reflect(client, package, file_containing_symbol=name)
            assert answer.file_descriptor_response.file_descriptor_proto, name
        answer = reflect(client, package, file_containing_symbol="no.such")
        assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def test_a_cri_proxy_has_no_plugin_service(tmp_path: Path) -> None:
    """NRI's own service makes no sense without NRI."""
    plugin = plugin_on()
    with controlled(daemon_of(plugin.lifecycle, "cri"), tmp_path) as client:
        assert client.status().door == "cri"
        listed = reflect(client, REFLECTIONS[0], list_services="")
        names = [one.name for one in listed.list_services_response.service]
        assert SERVICE in names
        assert PLUGIN_SERVICE not in names

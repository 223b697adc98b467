"""The shape of the chart's values, from which values.schema.json is made.

`config` has the type of the configuration file, so that helm refuses a mistake in it,
too. What the chart passes on to Kubernetes as it is, Kubernetes checks.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from nriplugin.config.file import file_type

Strings: TypeAlias = dict[str, str]
Object: TypeAlias = dict[str, Any]
Name: TypeAlias = Annotated[str, Meta(pattern="^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$")]
Port: TypeAlias = Annotated[int, Meta(ge=1, le=65535)]


class Values(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A mapping in the values: an unknown key is an error."""


class Image(Values):
    """Which image the pods run."""

    repository: Annotated[str, Meta(min_length=1)]
    tag: str
    pull_policy: Literal["Always", "IfNotPresent", "Never"]


class PluginIdentity(Values):
    """How the plugin registers with the runtime."""

    index: Annotated[str, Meta(pattern="^[0-9][0-9]$")]
    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_.+-]+$")]


class Runtime(Values):
    """What is done to the runtime."""

    patch_config: bool


class Nri(Values):
    """The socket, the plugin on it, and the runtime behind it."""

    socket: Annotated[str, Meta(pattern="^/.+/.+$")]
    plugin: PluginIdentity
    runtime: Runtime


class NodeAccess(Values):
    """What of the node is mounted beside the socket and the state directory."""

    cgroup_writes: bool
    systemd: bool
    kubelet_checkpoint: bool


class Http(Values):
    """Where metrics and health are served."""

    port: Port


class Log(Values):
    """How much is logged, and in which form."""

    format: Literal["text", "json"]
    verbose: bool


class ServiceAccount(Values):
    """Under which account the pods run."""

    create: bool
    name: str
    annotations: Strings


class Rbac(Values):
    """What the pods may ask the API server."""

    create: bool
    pod_groups: bool


class Openshift(Values):
    """What only OpenShift needs."""

    security_context_constraints: bool


class RollingUpdate(Values):
    """How many nodes are updated at a time; a surge would put two plugins on a node."""

    max_unavailable: int | str
    max_surge: Literal[0] | UnsetType = UNSET


class UpdateStrategy(Values):
    """How the pods of a DaemonSet are updated."""

    type: Literal["RollingUpdate", "OnDelete"]
    rolling_update: RollingUpdate | UnsetType | None = UNSET


class NetworkPolicy(Values):
    """Who may reach the pods."""

    enabled: bool
    from_: list[Object] = msgspec.field(name="from")


class PodMonitor(Values):
    """What the Prometheus operator is told to scrape."""

    enabled: bool
    labels: Strings
    interval: str
    scrape_timeout: str


class PrometheusRule(Values):
    """The alerts for the Prometheus operator."""

    enabled: bool
    labels: Strings


class Prometheus(Values):
    """What needs the Prometheus operator."""

    pod_monitor: PodMonitor
    prometheus_rule: PrometheusRule


class Dashboard(Values):
    """A ConfigMap with the dashboard."""

    enabled: bool
    labels: Strings
    annotations: Strings


class Grafana(Values):
    """What Grafana's sidecar looks for."""

    dashboard: Dashboard


class PoolKeys(Values):
    """Nodes with a configuration of their own."""

    name: Name
    node_selector: Annotated[Strings, Meta(min_length=1)]
    resources: Object | UnsetType = UNSET


class ChartKeys(Values):
    """The values of the chart beside `config` and `pools`."""

    image: Image
    image_pull_secrets: list[Object]
    name_override: str
    fullname_override: str
    namespace_override: str
    common_labels: Strings
    pod_labels: Strings
    pod_annotations: Strings
    remaining_nodes: bool
    nri: Nri
    node_access: NodeAccess
    http: Http
    log: Log
    extra_args: list[str]
    extra_env: list[Object]
    extra_volumes: list[Object]
    extra_volume_mounts: list[Object]
    service_account: ServiceAccount
    rbac: Rbac
    security_context: Object
    pod_security_context: Object
    se_linux_options: Object
    openshift: Openshift
    resources: Object
    priority_class_name: str
    node_selector: Strings
    tolerations: list[Object]
    affinity: Object
    update_strategy: UpdateStrategy
    liveness_probe: Object
    readiness_probe: Object
    network_policy: NetworkPolicy
    prometheus: Prometheus
    grafana: Grafana
    # Helm adds it to the values of a chart that is part of another.
    global_: Object | UnsetType = msgspec.field(name="global", default=UNSET)


def values_schema() -> dict[str, Any]:
    """Return the schema of values.yaml."""
    config = file_type()
    pool = msgspec.defstruct(
        "Pool",
        [("config", config | UnsetType, UNSET)],
        bases=(PoolKeys,),
        namespace={"__doc__": PoolKeys.__doc__},
        kw_only=True,
    )
    values = msgspec.defstruct(
        "ChartValues",
        [("config", config), ("pools", GenericAlias(list, (pool,)))],
        bases=(ChartKeys,),
        namespace={"__doc__": "The values of the chart."},
        kw_only=True,
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Made by hack/chart from hack/charts/values.py.",
        **msgspec.json.schema(values),
    }

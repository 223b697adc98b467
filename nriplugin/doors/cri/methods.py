"""The CRI methods whose number of messages in each direction the proxy knows.

The tables exist for speed only: forwarding a call with one request and one response
needs fewer threads than forwarding a stream. A method in neither table is forwarded as
a stream in both directions, which can carry any kind of call. So a method that a later
version of CRI adds works without a change here.
"""

from __future__ import annotations

RUNTIME_SERVICE = "runtime.v1.RuntimeService"
IMAGE_SERVICE = "runtime.v1.ImageService"

_UNARY = {
    "RuntimeService": (
        *("Version", "Status", "RuntimeConfig", "UpdateRuntimeConfig"),
        *("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"),
        *("PodSandboxStatus", "ListPodSandbox", "UpdatePodSandboxResources"),
        *("CreateContainer", "StartContainer", "StopContainer", "RemoveContainer"),
        *("ContainerStatus", "ListContainers", "UpdateContainerResources"),
        *("ReopenContainerLog", "CheckpointContainer"),
        *("ExecSync", "Exec", "Attach", "PortForward"),
        *("ContainerStats", "ListContainerStats"),
        *("PodSandboxStats", "ListPodSandboxStats"),
        *("ListMetricDescriptors", "ListPodSandboxMetrics"),
    ),
    "ImageService": (
        *("ListImages", "ImageStatus", "PullImage", "RemoveImage", "ImageFsInfo"),
    ),
}

# The methods with one request and one response. The older CRI version, v1alpha2, has
# the same methods; the proxy forwards them and never rewrites them.
UNARY = frozenset(
    f"/{package}.{service}/{method}"
    for package in ("runtime.v1", "runtime.v1alpha2")
    for service, methods in _UNARY.items()
    for method in methods
)

# The methods with one request and many responses. kubelet opens GetContainerEvents once
# and keeps it open.
SERVER_STREAMS = frozenset({f"/{RUNTIME_SERVICE}/GetContainerEvents"})

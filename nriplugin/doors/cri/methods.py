"""CRI's methods by their shape: how many messages go each way.

Only to be quick: a call of one message each way needs fewer threads than a stream. A
method that is not named here is passed on as a stream both ways, which can carry
anything, so one that CRI gets later works from the first day.
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

# The older version of CRI has the same methods, and is only passed through.
UNARY = frozenset(
    f"/{package}.{service}/{method}"
    for package in ("runtime.v1", "runtime.v1alpha2")
    for service, methods in _UNARY.items()
    for method in methods
)

# One message there, many back. kubelet keeps this one open for ever.
SERVER_STREAMS = frozenset({f"/{RUNTIME_SERVICE}/GetContainerEvents"})

"""The messages of CRI that the tests send and read, made from a table.

The tests must not rely on nriplugin's own messages, which have only what nriplugin
reads. Names and numbers are those of CRI's `runtime.v1`, so that a configuration as
crictl reads it, a mapping with these names, becomes a message.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import ParseDict

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "nriplugin.tests.cri"

# Message -> its fields, each a name, a number and a type. `[]` marks a list; `map` is
# one of texts to texts. Enumerations are numbers here.
MESSAGES = {
    "RunPodSandboxRequest": "config 1 PodSandboxConfig, runtime_handler 2 string",
    "RunPodSandboxResponse": "pod_sandbox_id 1 string",
    "PodSandboxConfig": (
        "metadata 1 Metadata, log_directory 3 string, labels 6 map, annotations 7 map, "
        "linux 8 LinuxPodSandboxConfig"
    ),
    "Metadata": "name 1 string, uid 2 string, namespace 3 string",
    "LinuxPodSandboxConfig": (
        "cgroup_parent 1 string, security_context 2 LinuxSandboxSecurityContext"
    ),
    "LinuxSandboxSecurityContext": "namespace_options 1 NamespaceOption",
    "NamespaceOption": "network 1 int64, pid 2 int64",
    "StopPodSandboxRequest": "pod_sandbox_id 1 string",
    "StopPodSandboxResponse": "",
    "RemovePodSandboxRequest": "pod_sandbox_id 1 string",
    "RemovePodSandboxResponse": "",
    "CreateContainerRequest": (
        "pod_sandbox_id 1 string, config 2 ContainerConfig, "
        "sandbox_config 3 PodSandboxConfig"
    ),
    "CreateContainerResponse": "container_id 1 string",
    "ContainerConfig": (
        "metadata 1 ContainerMetadata, image 2 ImageSpec, command 3 []string, "
        "linux 15 LinuxContainerConfig"
    ),
    "ContainerMetadata": "name 1 string",
    "ImageSpec": "image 1 string, user_specified_image 18 string",
    "LinuxContainerConfig": (
        "resources 1 LinuxContainerResources, "
        "security_context 2 LinuxContainerSecurityContext"
    ),
    "LinuxContainerSecurityContext": "namespace_options 3 NamespaceOption",
    "LinuxContainerResources": (
        "cpu_period 1 int64, cpu_quota 2 int64, cpu_shares 3 int64, "
        "memory_limit_in_bytes 4 int64, oom_score_adj 5 int64, cpuset_cpus 6 string, "
        "cpuset_mems 7 string, unified 9 map"
    ),
    "UpdateContainerResourcesRequest": (
        "container_id 1 string, linux 2 LinuxContainerResources"
    ),
    "UpdateContainerResourcesResponse": "",
    "StartContainerRequest": "container_id 1 string",
    "StartContainerResponse": "",
    "StopContainerRequest": "container_id 1 string, timeout 2 int64",
    "StopContainerResponse": "",
    "RemoveContainerRequest": "container_id 1 string",
    "RemoveContainerResponse": "",
    "ContainerStatusRequest": "container_id 1 string, verbose 2 bool",
    "ContainerStatusResponse": "info 2 map",
    "ListContainersRequest": "",
    "ListContainersResponse": "containers 1 []Container",
    "Container": "id 1 string, state 6 int64",
    "ListPodSandboxRequest": "",
    "ListPodSandboxResponse": "items 1 []PodSandbox",
    "PodSandbox": "id 1 string, state 3 int64",
}


def encode(name: str, content: Mapping[str, Any]) -> bytes:
    """Return a message as it is on the wire."""
    message: Any = ParseDict(dict(content), _CLASSES[f"{PACKAGE}.{name}"]())
    data: bytes = message.SerializeToString()
    return data


def decode(name: str, data: bytes) -> Any:
    """Return the message that these bytes are; other fields than the table's stay."""
    return _CLASSES[f"{PACKAGE}.{name}"].FromString(data)


def _describe(name: str, fields: str) -> descriptor_pb2.DescriptorProto:
    kinds = descriptor_pb2.FieldDescriptorProto
    described = descriptor_pb2.DescriptorProto(name=name)
    for each in filter(None, fields.split(", ")):
        field_name, number, kind = each.split()
        field = described.field.add(name=field_name, number=int(number))
        many = kind == "map" or kind.startswith("[]")
        field.label = kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
        kind = kind.removeprefix("[]")
        if kind == "map":
            entry = re.sub("(?:^|_)(.)", lambda found: found[1].upper(), field_name)
            nested = _describe(f"{entry}Entry", "key 1 string, value 2 string")
            nested.options.map_entry = True
            described.nested_type.append(nested)
            kind = f"{name}.{nested.name}"
        scalar = {
            "string": kinds.TYPE_STRING,
            "int64": kinds.TYPE_INT64,
            "bool": kinds.TYPE_BOOL,
        }.get(kind)
        field.type = scalar or kinds.TYPE_MESSAGE
        if scalar is None:
            field.type_name = f".{PACKAGE}.{kind}"
    return described


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(
    descriptor_pb2.FileDescriptorProto(
        name="cri.proto",
        package=PACKAGE,
        syntax="proto3",
        message_type=[_describe(name, fields) for name, fields in MESSAGES.items()],
    )
)
_CLASSES: dict[str, Any] = message_factory.GetMessageClassesForFiles(
    ["cri.proto"], _POOL
)

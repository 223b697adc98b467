"""The hook door: an OCI runtime runs us once per container, before its process starts.

The container's cgroup is there already, so nothing leaves through this door: what the
engine decides is written at once. Cold start counts, so nothing here may import
protobuf, gRPC or, without a configuration, YAML.
"""

from __future__ import annotations

"""The rules of Kubernetes that decide what a container's resources are. Pure.

Quantities, QoS classes, the numbers that the kubelet sends, its configuration,
annotations and pod groups. Text and parsed documents in, values out: no module here
reads a file or knows a message of a door.
"""

from __future__ import annotations

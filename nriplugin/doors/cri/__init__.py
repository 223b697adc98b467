"""The CRI door: a proxy between kubelet and the container runtime, and a CRI client.

The proxy listens on a socket that kubelet and crictl use instead of the runtime's. It
forwards every call as bytes. Only the few calls that create, change or end pods and
containers are parsed, and only two of those are rewritten: CreateContainer and
UpdateContainerResources.
"""

from __future__ import annotations

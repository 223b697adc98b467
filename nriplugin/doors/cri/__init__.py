"""The container runtime's own interface, CRI: what we ask of it, and a proxy for it.

A proxy serves kubelet and crictl in the runtime's place. Everything goes through it as
bytes; only the few calls that make or change a container's resources are read.
"""

from __future__ import annotations

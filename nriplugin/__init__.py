"""cgroup v2 resources for every container on a Kubernetes node, through NRI."""

from __future__ import annotations

__version__ = "0.1.0"

"""From the v1-style numbers that Kubernetes sends to cgroup v2 files. Pure."""

from __future__ import annotations

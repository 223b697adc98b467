"""Writing cgroup files: orders, merges, quirks of the kernel."""

from __future__ import annotations

"""What the kernel's files hold, by resource type, on cgroup v1 and v2."""

from __future__ import annotations

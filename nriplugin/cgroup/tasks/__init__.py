"""How many tasks of a cgroup run, sleep or wait."""

from __future__ import annotations

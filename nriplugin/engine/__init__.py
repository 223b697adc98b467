"""Decisions: which cgroup v2 file should hold which value, and why. Pure."""

from __future__ import annotations

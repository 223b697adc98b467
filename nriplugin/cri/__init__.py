"""The container runtime's own interface, CRI: what we ask of it."""

from __future__ import annotations

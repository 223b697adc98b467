"""Cgroups that belong to systemd, changed over D-Bus."""

from __future__ import annotations

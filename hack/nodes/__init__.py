"""Throw-away nodes under qemu: a real kernel, a real runtime, and nriplugin on it."""

from __future__ import annotations

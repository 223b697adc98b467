"""The long-running process: the plugin that stands behind the doors."""

from __future__ import annotations

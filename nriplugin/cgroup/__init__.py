"""The node's cgroups: where they are, and later their files."""

from __future__ import annotations

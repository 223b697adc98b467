"""The journal of every value that was overwritten, and how it is put back."""

from __future__ import annotations

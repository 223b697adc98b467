"""The ways in: each door reads a message, asks for a decision, and answers."""

from __future__ import annotations

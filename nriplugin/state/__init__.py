"""What a long-lived door remembers between two messages, the same for every door."""

from __future__ import annotations

"""The NRI transport as pure state machines: bytes in, frames out, and back.

Nothing in here touches a socket, a clock or a thread, and nothing in here knows
what NRI is. docs/protocol.md has the frame layouts.
"""

from __future__ import annotations

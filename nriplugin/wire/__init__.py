"""The transport of NRI as pure state machines: bytes in, messages out, and back.

Two layers: `mux` carries several logical connections on one socket, `ttrpc` carries
calls and answers on one logical connection; `single_frame` does both in one step for
the most common message. No module in this package touches a socket, a clock, a log or
a thread, and none knows what NRI is. docs/protocol.md shows the layout of the frames.
"""

from __future__ import annotations

"""The control API: a listener that checks who connects, and gRPC servers behind it.

grpcio is imported by `server` and by what it uses, and never by `listener` or `peers`.
"""

from __future__ import annotations

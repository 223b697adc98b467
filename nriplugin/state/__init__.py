"""The state that the NRI and CRI doors keep between two messages, in one form for both.

Nothing here starts a thread or does I/O on the request path: slow work is handed to a
`Scheduler` (see scheduler.py), which the daemon implements. The OCI hook, which is one
process per container, uses nothing of this package.
"""

from __future__ import annotations

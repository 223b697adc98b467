"""Where PodGroup objects come from: a file, or the API server, on a thread of its own.

Nothing here is imported unless the configuration has `podGroups`. The API server is
asked with the standard library: the official client library for Python takes 37 MB of
memory and 0.6 s of CPU time to import, `ssl` with `http.client` 10 MB and 0.08 s
(kubernetes 37.0.2, Python 3.11), and a list and a watch of one kind need none of the
rest of it.
"""

from __future__ import annotations

"""The hook door: an OCI runtime starts `nriplugin hook` once per container.

The runtime has made the container's cgroup and written its files by then, and waits
for the hook before it starts the container's process. So this door has no answer to
send: what the engine decides is written to the cgroup at once.

Every container pays for the start of this process. Nothing here may import protobuf,
gRPC or logging; YAML and msgspec only if there is a configuration file; the journal and
SQLite only if there is something to write. A module that few containers need is
imported inside the function that needs it.
"""

from __future__ import annotations

"""A kit for authors of NRI plugins: an embedded runtime to test plugins with.

Start with `EmbeddedRuntime` in `runtime.py`; docs/sdk.md has an example. The product
does not depend on this package: only `nriplugin demo` and tests import it.

- `runtime.py`: the embedded runtime, with one method per step of a container's life
- `behaviour.py`: which runtime and NRI release it imitates
- `registered_plugins.py`: admits plugins and calls them in the order of their index
- `plugin_connection.py`: the connection to one plugin
- `merging.py`, `fields.py`, `field_ownership.py`: how answers of plugins are merged
- `gopeer.py`: how the Go library frames messages, and which frames it cannot read
"""

from __future__ import annotations

"""A kit for authors of NRI plugins: an embedded runtime to test plugins with.

In tests with pytest, start with the fixture `nri_runtime` (nriplugin/pytest_plugin.py);
docs/sdk.md has examples. The product does not depend on this package: only
`nriplugin demo` and tests import it.

- `plugin_runtime.py`: an embedded runtime that also runs plugins; behind the fixture
- `strict.py`: finds mistakes of plugins
- `builders.py`: makes pods, containers and resources
- `runtime.py`: the embedded runtime, with one method per step of a container's life
- `behaviour.py`: which runtime and NRI release it imitates
- `registered_plugins.py`: admits plugins and calls them in the order of their index
- `plugin_connection.py`: the connection to one plugin
- `merging.py`, `fields.py`, `field_ownership.py`: how answers of plugins are merged
- `gopeer.py`: how the Go library frames messages, and which frames it cannot read
"""

from __future__ import annotations

from nriplugin.nri.testing.behaviour import Behaviour
from nriplugin.nri.testing.builders import make_container, make_pod, make_resources
from nriplugin.nri.testing.errors import RequestRejected
from nriplugin.nri.testing.plugin_runtime import (
    DEFAULT_BEHAVIOUR,
    PluginRuntime,
    RunningPlugin,
)
from nriplugin.nri.testing.runtime import Created, EmbeddedRuntime, Updated
from nriplugin.nri.testing.strict import StrictFailure

__all__ = [
    "DEFAULT_BEHAVIOUR",
    "Behaviour",
    "Created",
    "EmbeddedRuntime",
    "PluginRuntime",
    "RequestRejected",
    "RunningPlugin",
    "StrictFailure",
    "Updated",
    "make_container",
    "make_pod",
    "make_resources",
]

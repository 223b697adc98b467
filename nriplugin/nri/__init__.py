"""NRI plugins in Python: subclass `Plugin`, define the handlers you need, `run` it.

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.nri import Plugin, run

    class Hello(Plugin):
        def create_container(self, request):
            adjust = nri.ContainerAdjustment(annotations={"hello": "from python"})
            return nri.CreateContainerResponse(adjust=adjust)

    run(Hello(), name="hello", idx="50")

docs/sdk.md is the guide. The package knows NRI and nothing of cgroups.
`nriplugin.nri.testing` holds an embedded runtime for tests of plugins; the modules
beside it never import it.
"""

from __future__ import annotations

from nriplugin.nri.plugin import Plugin
from nriplugin.nri.runner import Runner, run
from nriplugin.policy import FailurePolicy

__all__ = ["FailurePolicy", "Plugin", "Runner", "run"]

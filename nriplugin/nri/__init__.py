"""NRI plugins in Python: subclass `Plugin`, define the handlers you need, `run` it.

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.nri import Plugin, run

    class Hello(Plugin):
        def create_container(self, request):
            adjust = nri.ContainerAdjustment(annotations={"hello": "from python"})
            return nri.CreateContainerResponse(adjust=adjust)

    run(Hello(), name="hello", idx="50")

`nriplugin.nri.testing.runtime` is the other side, to test plugins with.
"""

from __future__ import annotations

from nriplugin.nri.plugin import Plugin
from nriplugin.nri.runner import Runner, run
from nriplugin.policy import FailurePolicy

__all__ = ["FailurePolicy", "Plugin", "Runner", "run"]

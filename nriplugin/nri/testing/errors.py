"""The error with which the embedded runtime fails a request.

It is a module of its own because both the merging of answers and the calling of
plugins raise it.
"""

from __future__ import annotations

from nriplugin.errors import NRIPluginError


class RequestRejected(NRIPluginError):
    """A real runtime would fail this request because of its plugins.

    A plugin answered with an error, two plugins set the same field, or a validator
    rejected the result. kubelet would see the text.
    """

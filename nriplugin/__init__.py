"""cgroup v2 resources for every container on a Kubernetes node, through NRI."""

from __future__ import annotations

__version__ = "0.1.0"

# The apiVersion of the documents that `-o json` and `-o yaml` print, and the control
# API's Explain. It changes if a name in one of them gets another meaning, and not if
# one is added.
DOCUMENT_VERSION = "nriplugin/v1alpha1"

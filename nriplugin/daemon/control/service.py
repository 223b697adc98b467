"""The methods of the control API with one answer each; this module knows no gRPC."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.daemon.plain import valid_text
from nriplugin.daemon.restoring import restore
from nriplugin.daemon.status import configuration_status, status_of
from nriplugin.daemon.why import why_of
from nriplugin.errors import ConfigError, NRIPluginError
from nriplugin.explain import explain_pods
from nriplugin.explained import explained_document

if TYPE_CHECKING:
    from nriplugin.daemon.process import DaemonProcess

# A manifest of this size holds hundreds of pods. Explaining one of 850 KB was seen to
# take 110 MB, and a daemon in its unit may have no more than 128 MB in all.
MAX_MANIFEST = 64 * 1024
_SOURCE = "manifest"

# Held by the one Explain of the process that is under way.
_EXPLAINING = threading.Lock()


class NotNow(NRIPluginError):
    """The daemon is not in a state in which the call makes sense."""


class Busy(NRIPluginError):
    """The daemon does as much of this at the moment as it may."""


class ControlService:
    """Answers the calls of one control API."""

    def __init__(self, process: DaemonProcess) -> None:
        """Answer for a daemon."""
        self._process = process

    def status(self, request: control.StatusRequest) -> control.StatusResponse:
        """Return the state of the daemon."""
        return status_of(self._process, request.by)

    def why(self, request: control.WhyRequest) -> control.WhyResponse:
        """Return why files of containers hold what they hold."""
        return why_of(self._process, request.what, verdicts=request.verdicts)

    def explain(self, request: control.ExplainRequest) -> control.ExplainResponse:
        """Return the decisions for a manifest, as JSON."""
        if len(request.manifest) > MAX_MANIFEST:
            size = len(request.manifest)
            raise ConfigError(
                f"{_SOURCE}: {size} characters, expected at most {MAX_MANIFEST}"
            )
        if not _EXPLAINING.acquire(blocking=False):
            raise Busy("another manifest is being explained, expected one at a time")
        try:
            return self._explain(request.manifest)
        finally:
            _EXPLAINING.release()

    def _explain(self, manifest: str) -> control.ExplainResponse:
        # Late: only this call needs a YAML parser.
        from nriplugin.documents import load_documents
        from nriplugin.kube.manifests import read_manifests

        documents = load_documents(manifest, _SOURCE)
        try:
            found = read_manifests(documents)
        except ConfigError as exc:
            raise ConfigError(f"{_SOURCE}: {exc}") from exc
        lifecycle = self._process.lifecycle
        plan = lifecycle.plan
        explained = explain_pods(
            *(found.pods, _SOURCE, plan.config, plan.facts, found.groups),
            checkpoint=lifecycle.requests.known,
        )
        skipped = [f"{one.kind} {one.name}" for one in found.skipped]
        document = explained_document(explained, found.groups, skipped)
        return control.ExplainResponse(json=json.dumps(document, indent=2))

    def reload(self, request: control.ReloadRequest) -> control.ReloadResponse:
        """Read the configuration file again."""
        process = self._process
        if not process.config.path:
            raise NotNow("no configuration file: the daemon was started without one")
        watch = process.config_watch
        if watch is None:
            raise NotNow("the daemon is starting, and has not read its configuration")
        applied = watch.check(always=True)
        return control.ReloadResponse(
            applied=applied,
            error=valid_text(process.config.error),
            configuration=configuration_status(process),
        )

    def restore(self, request: control.RestoreRequest) -> control.RestoreResponse:
        """Write back what cgroup files held before."""
        return restore(self._process, dry_run=request.dry_run)

    def withdraw(self, request: control.WithdrawRequest) -> control.WithdrawResponse:
        """Write back, and decide nothing any more."""
        # Late: hardly any process ever withdraws.
        from nriplugin.daemon.withdrawal import withdraw

        return withdraw(self._process, dry_run=request.dry_run)

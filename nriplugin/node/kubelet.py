"""The kubelet's settings on this node: found, read, checked and merged in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.kubelet_files import SourceKind, kubelet_sources
from nriplugin.kube import kubelet_config
from nriplugin.kube.kubelet_config import KubeletSettings
from nriplugin.kube.kubelet_merge import MergedKubeletSettings, merge_settings

if TYPE_CHECKING:
    from nriplugin.cgroup.locate.kubelet_files import KubeletSource


@dataclass(frozen=True)
class NodeKubelet:
    """What the kubelet of a node is told."""

    settings: MergedKubeletSettings
    sources: tuple[str, ...]  # those that were read, the one that wins first
    # A wrong value, an unknown field, or a source that cannot be read: one line each,
    # with file and line, or the flag.
    problems: tuple[str, ...]


def read_kubelet(host_root: str) -> NodeKubelet:
    """Read the kubelet's settings; no error ends it.

    Without a source, as on a machine without kubelet, the settings are the defaults.

    Args:
        host_root: where the node's own files are: `/`, unless this is a container.
    """
    sources = kubelet_sources(host_root.rstrip("/"), kubelet_config)
    # The one that wins comes first there, and last here.
    sources.reverse()
    file = _settings(sources, SourceKind.FILE)
    merged = merge_settings(
        file[0] if file else None,
        _settings(sources, SourceKind.DROP_IN),
        _settings(sources, SourceKind.FLAGS_FILE, SourceKind.PROCESS),
    )
    unread = [one.problem for one in sources if one.problem and not one.absent]
    places = [one.place for one in reversed(sources) if one.settings is not None]
    return NodeKubelet(merged, tuple(places), (*unread, *merged.problems))


def _settings(
    sources: list[KubeletSource], *kinds: SourceKind
) -> list[KubeletSettings]:
    return [
        source.settings
        for source in sources
        if source.kind in kinds and isinstance(source.settings, KubeletSettings)
    ]

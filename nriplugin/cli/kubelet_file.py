"""Reads the kubelet's configuration file that the option --kubelet-config names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.errors import ConfigError, ConfigMistakes
from nriplugin.kube.kubelet_config import parse_config_file
from nriplugin.kube.kubelet_merge import merge_settings

if TYPE_CHECKING:
    from nriplugin.kube.kubelet_settings import KubeletCapacitySettings

OPTION = "--kubelet-config"


def read_kubelet_file(path: str) -> KubeletCapacitySettings:
    """Return the settings of a kubelet that is given this file and no flags.

    Raises:
        ConfigError: the file cannot be read, or it has wrong values.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "not UTF-8"
        raise ConfigError(f"{OPTION}: {path!r}: {reason}, expected a file") from exc
    merged = merge_settings(parse_config_file(text, path))
    if merged.problems:
        raise ConfigMistakes(*merged.problems)
    return merged.capacity

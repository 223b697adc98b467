"""What the kubelet was told about cgroups: its configuration files and its flags.

Text in, settings out.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

DRIVER_FLAG = "--cgroup-driver"
ROOT_FLAG = "--cgroup-root"
CONFIG_FLAG = "--config"
CONFIG_DIR_FLAG = "--config-dir"


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """As written, and not yet checked; None is not mentioned."""

    driver: str | None = None
    cgroup_root: str | None = None
    # Which files have more settings; only flags say so.
    config: str | None = None
    config_dir: str | None = None


def parse_config_file(text: str, source: str) -> KubeletSettings:
    """Read a KubeletConfiguration.

    Raises:
        ConfigError: it is not one.
    """
    # Late: only this rung of the detection needs the YAML reader.
    from nriplugin.documents import load_documents

    documents = [one for one in load_documents(text, source) if one is not None]
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ConfigError(f"{source}: expected one KubeletConfiguration")
    fields = documents[0]
    return KubeletSettings(
        _text(fields.get("cgroupDriver")), _text(fields.get("cgroupRoot"))
    )


def parse_flags_file(text: str, source: str) -> KubeletSettings:
    """Read kubeadm-flags.env: NAME="--flag=value --flag value".

    Raises:
        ConfigError: the quotes do not match.
    """
    words: list[str] = []
    for line in text.splitlines():
        _, equals, value = line.partition("=")
        if line.lstrip().startswith("#") or not equals:
            continue
        try:
            for unquoted in shlex.split(value):
                words += unquoted.split()
        except ValueError as exc:
            raise ConfigError(f"{source}: {exc}, expected NAME=FLAGS") from exc
    return parse_arguments(words)


def parse_arguments(words: Sequence[str]) -> KubeletSettings:
    """Read a command line; of a repeated flag the last one counts."""
    return KubeletSettings(
        _flag(words, DRIVER_FLAG),
        _flag(words, ROOT_FLAG),
        _flag(words, CONFIG_FLAG),
        _flag(words, CONFIG_DIR_FLAG),
    )


def parse_cmdline(content: str) -> list[str]:
    """Split /proc/PID/cmdline."""
    return content.rstrip("\0").split("\0")


def is_kubelet(arguments: Sequence[str]) -> bool:
    """Whether a command line is the kubelet's own, or an all-in-one program's."""
    names = [argument.rpartition("/")[2] for argument in arguments[:2]]
    return names[:1] == ["kubelet"] or names == ["hyperkube", "kubelet"]


def _flag(words: Sequence[str], flag: str) -> str | None:
    value = None
    for index, word in enumerate(words):
        if word.startswith(f"{flag}="):
            value = word.partition("=")[2]
        elif word == flag and index + 1 < len(words):
            value = words[index + 1]
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)

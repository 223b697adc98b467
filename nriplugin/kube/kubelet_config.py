"""The kubelet's settings about cgroups, from its configuration file and its flags.

Pure: text in, settings out. Whoever finds and reads the files passes their text in
(`cgroup.locate.driver` does; this module is the parser that it is given). A value is
returned as it was written and is not checked here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

DRIVER_FLAG = "--cgroup-driver"
ROOT_FLAG = "--cgroup-root"
CONFIG_FLAG = "--config"
CONFIG_DIR_FLAG = "--config-dir"


class KubeletSettings(NamedTuple):
    """The settings that one source has; None is "not mentioned"."""

    driver: str | None = None
    cgroup_root: str | None = None
    # The configuration file and directory; only flags name them.
    config: str | None = None
    config_dir: str | None = None


def parse_config_file(text: str, source: str) -> KubeletSettings:
    """Read a KubeletConfiguration, or a drop-in of one.

    Raises:
        ConfigError: the text is not one YAML document with fields.
    """
    # Late: most nodes are decided before a YAML file has to be read.
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
    import shlex  # late, for the same reason

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

"""The kubelet's settings about cgroups, from its configuration file and its flags.

`nriplugin doctor` also reads what the kubelet's MemoryQoS is told to do, and at which
socket the kubelet expects its runtime.

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
ENDPOINT_FLAG = "--container-runtime-endpoint"
GATES_FLAG = "--feature-gates"
MEMORY_QOS = "MemoryQoS"


class KubeletSettings(NamedTuple):
    """The settings that one source has; None is "not mentioned"."""

    driver: str | None = None
    cgroup_root: str | None = None
    # The configuration file and directory; only flags name them.
    config: str | None = None
    config_dir: str | None = None
    runtime_endpoint: str | None = None
    # The feature gate; the share of the limit at which memory is throttled; the policy
    # of protection. No flag has the latter two.
    memory_qos: bool | None = None
    throttling_factor: str | None = None
    reservation_policy: str | None = None


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
    gates = fields.get("featureGates")
    gate = gates.get(MEMORY_QOS) if isinstance(gates, dict) else None
    return KubeletSettings(
        _text(fields.get("cgroupDriver")),
        _text(fields.get("cgroupRoot")),
        runtime_endpoint=_text(fields.get("containerRuntimeEndpoint")),
        memory_qos=gate if isinstance(gate, bool) else None,
        throttling_factor=_text(fields.get("memoryThrottlingFactor")),
        reservation_policy=_text(fields.get("memoryReservationPolicy")),
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
        runtime_endpoint=_flag(words, ENDPOINT_FLAG),
        memory_qos=_gate(_flag(words, GATES_FLAG)),
    )


def _flag(words: Sequence[str], flag: str) -> str | None:
    value = None
    for index, word in enumerate(words):
        if word.startswith(f"{flag}="):
            value = word.partition("=")[2]
        elif word == flag and index + 1 < len(words):
            value = words[index + 1]
    return value


def _gate(gates: str | None) -> bool | None:
    """Return MemoryQoS in `Name=true,Name=false`, as Go reads a truth value."""
    values = dict(one.strip().partition("=")[::2] for one in (gates or "").split(","))
    value = values.get(MEMORY_QOS, "").lower()
    return {
        "true": True,
        "t": True,
        "1": True,
        "false": False,
        "f": False,
        "0": False,
    }.get(value)


def _text(value: object) -> str | None:
    return None if value is None else str(value)

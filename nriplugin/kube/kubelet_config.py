"""What one source of the kubelet's settings says: a configuration file, or flags.

Pure: text in, values and their places out. `cgroup.locate.kubelet_files` finds and
reads the files; this module is the parser that it is given. Values are returned as
they were written; `kube.kubelet_merge` checks them and lets one source win over the
other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.errors import ConfigError
from nriplugin.kube import kubelet_flags
from nriplugin.kube.kubelet_values import misspelt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nriplugin.documents import KeyLines

KIND = "KubeletConfiguration"
# The fields that are read, by the names that they have in a configuration file.
FIELDS = frozenset(
    {
        "cgroupRoot",
        "cgroupsPerQOS",
        "cgroupDriver",
        "kubeletCgroups",
        "systemCgroups",
        "systemReserved",
        "kubeReserved",
        "qosReserved",
        "reservedSystemCPUs",
        "systemReservedCgroup",
        "kubeReservedCgroup",
        "enforceNodeAllocatable",
        "evictionHard",
        "mergeDefaultEvictionSettings",
        "memoryThrottlingFactor",
        "memoryReservationPolicy",
        "cpuCFSQuota",
        "cpuCFSQuotaPeriod",
        "podPidsLimit",
        "memorySwap",
        "featureGates",
        "containerRuntimeEndpoint",
    }
)


class KubeletValue(NamedTuple):
    """A value as it was written, and where: a file and a line, or a flag.

    The values of a mapping are KubeletValues themselves.
    """

    value: object
    place: str


class KubeletSettings(NamedTuple):
    """The settings that one source has, by the names of the configuration file."""

    values: Mapping[str, KubeletValue]
    problems: tuple[str, ...] = ()  # one line each, with the place

    @property
    def driver(self) -> str | None:
        """Return the name of the cgroup driver."""
        return self._text("cgroupDriver")

    @property
    def cgroup_root(self) -> str | None:
        """Return the cgroup below which the kubelet puts kubepods."""
        return self._text("cgroupRoot")

    @property
    def config(self) -> str | None:
        """Return the path of the configuration file; only flags name it."""
        return self._text(kubelet_flags.CONFIG)

    @property
    def config_dir(self) -> str | None:
        """Return the directory of the drop-ins; only flags name it."""
        return self._text(kubelet_flags.CONFIG_DIR)

    def _text(self, name: str) -> str | None:
        found = self.values.get(name)
        return None if found is None or found.value is None else str(found.value)


def parse_config_file(text: str, source: str) -> KubeletSettings:
    """Read a KubeletConfiguration, or a drop-in of one.

    Raises:
        ConfigError: the text is not one YAML document with fields.
    """
    # Late: most nodes are decided before a YAML file has to be read.
    from nriplugin.documents import load_documents_and_lines

    found = load_documents_and_lines(text, source)
    documents = [one for one in found if one[0] is not None]
    if len(documents) != 1 or not isinstance(documents[0][0], dict):
        raise ConfigError(f"{source}: expected one {KIND}")
    fields, lines = documents[0]
    problems = []
    kind = fields.get("kind", KIND)
    if kind != KIND:
        problems.append(
            f"{_place(source, lines, 'kind')}: kind: {kind!r:.60}, expected {KIND}"
        )
    values = {}
    for name, value in fields.items():
        if name in FIELDS:
            values[name] = _located(value, source, lines, name)
        elif meant := misspelt(str(name), FIELDS):
            place = _place(source, lines, str(name))
            problems.append(f"{place}: {name!r:.60} is unknown, expected {meant}")
    return KubeletSettings(values, tuple(problems))


def parse_flags_file(text: str, source: str) -> KubeletSettings:
    """Read kubeadm-flags.env: NAME="--flag=value --flag value".

    Raises:
        ConfigError: the quotes do not match.
    """
    import shlex  # late, for the same reason

    words: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        _, equals, value = line.partition("=")
        if line.lstrip().startswith("#") or not equals:
            continue
        try:
            for unquoted in shlex.split(value):
                words += [(word, f"{source}:{number}") for word in unquoted.split()]
        except ValueError as exc:
            raise ConfigError(
                f"{source}: {exc} in line {number}, expected NAME=FLAGS"
            ) from exc
    return _from_flags(words)


def parse_arguments(words: Sequence[str], source: str) -> KubeletSettings:
    """Read a command line, which a process has or will have."""
    return _from_flags([(word, source) for word in words])


def _from_flags(words: Sequence[tuple[str, str]]) -> KubeletSettings:
    values: dict[str, KubeletValue] = {}
    problems: list[str] = []
    for name, value, place in kubelet_flags.read_flags(words, problems):
        if isinstance(value, dict):
            value = {key: KubeletValue(one, place) for key, one in value.items()}
        # The pairs of a flag that is repeated are added, and so are those of a list.
        before = values[name].value if name in values else None
        if isinstance(value, dict) and isinstance(before, dict):
            value = {**before, **value}
        elif isinstance(value, list) and isinstance(before, list):
            value = [*before, *value]
        values[name] = KubeletValue(value, place)
    return KubeletSettings(values, tuple(problems))


def _located(value: object, source: str, lines: KeyLines, name: str) -> KubeletValue:
    if isinstance(value, dict):
        value = {
            str(key): KubeletValue(one, _place(source, lines, name, str(key)))
            for key, one in value.items()
        }
    return KubeletValue(value, _place(source, lines, name))


def _place(source: str, lines: KeyLines, *path: str) -> str:
    # A key that a merge (`<<`) brought in has no line of its own.
    line = lines.get(path) or lines.get(path[:1])
    return source if line is None else f"{source}:{line}"

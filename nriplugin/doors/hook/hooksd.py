"""The file in hooks.d that makes CRI-O and podman run the hook.

CRI-O reads every file in hooks.d when it starts, and refuses to start if one of them is
not valid. So a file is checked by the rules of CRI-O's reader before it is written
(pkg/hooks in podman's Go module `common`), and it is written beside its place and
renamed, so that no reader ever sees half of it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from typing import TYPE_CHECKING, Any, TypeGuard

from nriplugin.doors.hook.deadline import RUNTIME_SECONDS
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The directory for administrators; packages install to /usr/share.
HOOKS_DIR = "/etc/containers/oci/hooks.d"
FILE_NAME = "90-nriplugin.json"
STAGE = "createRuntime"

VERSION = "1.0.0"
# The first arguments in every file that `install` writes, by which it is recognised.
FIRST_ARGUMENTS = ["nriplugin", "hook"]

# The stages that CRI-O's reader knows. There is no `precreate` among them.
KNOWN_STAGES = (
    "prestart",
    "createRuntime",
    "createContainer",
    "startContainer",
    "poststart",
    "poststop",
)
# Stages at which this hook cannot work, and why.
_UNFIT_STAGES = {
    "createContainer": "it runs in the container's namespaces",
    "startContainer": "it runs in the container, where nriplugin is not",
    "poststop": "the cgroup is gone by then",
}
FIT_STAGES = tuple(stage for stage in KNOWN_STAGES if stage not in _UNFIT_STAGES)

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,316}")
_MAX_PATTERN = 256
# The syntax that Go's and Python's regular expressions share, with the same meaning. It
# leaves out counts in braces, which Go limits, and a quantifier after another one: only
# Python knows `a*+`.
_SHARED_SYNTAX = re.compile(
    r"""(?:
        \(\?: | [()|^$.]                   # groups, alternatives, anchors
        | \\[dwsDWSbB] | \\[^A-Za-z0-9]    # character classes, escaped punctuation
        | [^\\\[\](){}|^$.*+?]             # a character that stands for itself
        | \[\^? (?: \\[dwsDWS] | \\[^A-Za-z0-9] | [^\\\[\]&~|^-] )
          (?: \\[dwsDWS] | \\[^A-Za-z0-9] | [^\\\[\]&~|-] | -(?!-) )* \]
        | (?<=[^*+?(|^]) [*+?]
    )*""",
    re.VERBOSE,
)


def hook_document(
    executable: str,
    arguments: Sequence[str] = (),
    stage: str = STAGE,
    annotations: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the content of the file.

    Args:
        executable: the path of the program `nriplugin`.
        arguments: the options after `nriplugin hook` on its command line.
        stage: the stage of a container's life at which the hook runs.
        annotations: KEY=REGEX conditions, all of which a container has to meet; without
            any, the hook runs for every container.

    Raises:
        ConfigError: CRI-O would not start with this file, or the hook could not work.
    """
    if stage in _UNFIT_STAGES:
        expected = f"{_listed(FIT_STAGES)}: {_UNFIT_STAGES[stage]}"
        raise ConfigError(f"--stage: {stage!r}, expected {expected}")
    if stage not in KNOWN_STAGES:
        raise ConfigError(f"--stage: {stage!r}, expected {_listed(FIT_STAGES)}")
    when: dict[str, Any] = {"always": True}
    if annotations:
        when = {"annotations": dict(map(_condition, annotations))}
    document = {
        "version": VERSION,
        "hook": {
            "path": executable,
            "args": [*FIRST_ARGUMENTS, *arguments],
            "timeout": RUNTIME_SECONDS,
        },
        "when": when,
        "stages": [stage],
    }
    validate(document)
    return document


def validate(document: Mapping[str, Any]) -> None:
    """Check a file's content as CRI-O does when it starts, and what fails later.

    Raises:
        ConfigError: names the field, the value, and what was expected.
    """
    _expect("version", document.get("version"), VERSION, [VERSION])
    hook, when = document.get("hook"), document.get("when")
    if not isinstance(hook, dict) or not isinstance(when, dict):
        raise ConfigError("hook and when: expected an object each")
    path, arguments = hook.get("path"), hook.get("args")
    if not _is_text(path) or not os.path.isabs(path):
        raise ConfigError(f"hook.path: {path!r}, expected an absolute path in UTF-8")
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        raise ConfigError(f"hook.path: {path!r}, expected a program that is there")
    if not isinstance(arguments, list) or not all(map(_is_text, arguments)):
        raise ConfigError(f"hook.args: {arguments!r}, expected strings in UTF-8")
    timeout = hook.get("timeout")
    if not isinstance(timeout, int) or timeout <= 0:
        raise ConfigError(f"hook.timeout: {timeout!r}, expected seconds, 1 or more")
    stages = document.get("stages")
    if not isinstance(stages, list) or not stages:
        raise ConfigError(f"stages: {stages!r}, expected a list")
    for stage in stages:
        _expect("stages", stage, _listed(KNOWN_STAGES), KNOWN_STAGES)
    if when.get("always") is not True and not when.get("annotations"):
        raise ConfigError(f"when: {when!r}, expected always or annotations")
    for key, pattern in (when.get("annotations") or {}).items():
        _check_pattern("when.annotations", key)
        _check_pattern(f"when.annotations {key}", pattern)


def install(
    document: Mapping[str, Any], directory: str, name: str, *, force: bool = False
) -> str:
    """Write the file and return its path.

    The default directory is created if it is missing; any other has to exist.

    Raises:
        ConfigError: the directory does not exist, or `install` did not write the file
            that is there now.
        OSError: the file cannot be written.
    """
    path = hook_file(directory, name)
    if directory == HOOKS_DIR:
        os.makedirs(directory, mode=0o755, exist_ok=True)
    if not os.path.isdir(directory):
        raise ConfigError(f"--hooks-dir: {directory!r}, expected a directory")
    if os.path.lexists(path) and not was_installed(path) and not force:
        raise ConfigError(
            f"{path}: nriplugin did not write this file; expected no file (or --force)"
        )
    # CRI-O reads only *.json, so it does not see this file before it is complete.
    fd, temporary = tempfile.mkstemp(prefix=".nriplugin-", dir=directory)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(rendered(document))
            file.flush()
            os.fchmod(fd, 0o644)
            os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def uninstall(directory: str, name: str) -> str | None:
    """Remove the file; return its path, or None if there is no such file.

    Raises:
        ConfigError: `install` did not write the file.
        OSError: the file cannot be removed.
    """
    path = hook_file(directory, name)
    if not os.path.lexists(path):
        return None
    if not was_installed(path):
        raise ConfigError(
            f"{path}: nriplugin did not write this file; expected one by `hook install`"
        )
    os.unlink(path)
    return path


def hook_file(directory: str, name: str) -> str:
    """Return the path of the file.

    Raises:
        ConfigError: CRI-O would not read a file of this name, or it has a `/`.
    """
    if "/" in name or "\0" in name or not name.endswith(".json") or name == ".json":
        raise ConfigError(f"--name: {name!r}, expected NAME.json without /")
    return os.path.join(directory, name)


def was_installed(path: str) -> bool:
    """Whether `install` wrote a file: it runs `nriplugin hook`."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        arguments = document["hook"]["args"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return False
    return (
        isinstance(arguments, list)
        and arguments[: len(FIRST_ARGUMENTS)] == FIRST_ARGUMENTS
    )


def rendered(document: Mapping[str, Any]) -> str:
    """Return the text of the file."""
    return json.dumps(document, indent=2) + "\n"


def _condition(given: str) -> tuple[str, str]:
    """Return an entry of `when.annotations`, in which the key is a pattern as well."""
    key, equals, pattern = given.partition("=")
    if not equals or not _KEY.fullmatch(key):
        raise ConfigError(f"--annotation: {given!r}, expected KEY=REGEX")
    _check_pattern(f"--annotation {key}", pattern)
    return f"^{key.replace('.', chr(92) + '.')}$", pattern


def _check_pattern(where: str, pattern: object) -> None:
    """Refuse a pattern that Go might not compile: CRI-O would not start with it."""
    expected = "a regular expression that Go and Python share"
    if not isinstance(pattern, str) or len(pattern) > _MAX_PATTERN:
        raise ConfigError(f"{where}: {pattern!r:.80}, expected {expected}")
    printable = pattern.isascii() and (pattern.isprintable() or not pattern)
    if not (printable and _SHARED_SYNTAX.fullmatch(pattern)):
        raise ConfigError(f"{where}: {pattern!r}, expected {expected}")
    try:
        re.compile(pattern)
    except re.error as exc:
        raise ConfigError(f"{where}: {pattern!r}: {exc}, expected {expected}") from exc


def _is_text(value: object) -> TypeGuard[str]:
    """Whether a value is a string that JSON and a command line can hold."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _expect(field: str, value: object, text: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigError(f"{field}: {value!r}, expected {text}")


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"

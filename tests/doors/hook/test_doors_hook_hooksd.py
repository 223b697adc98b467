from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from nriplugin.doors.hook import hooksd
from nriplugin.doors.hook.hooksd import (
    FILE_NAME,
    KNOWN_STAGES,
    hook_document,
    install,
    uninstall,
    validate,
    was_installed,
)
from nriplugin.errors import ConfigError

PROGRAM = sys.executable


def test_the_document_is_what_the_reader_wants() -> None:
    """Schema 1.0.0 has version, hook with a timeout, when and stages."""
    document = hook_document(PROGRAM, ["--config", "/etc/x.yaml"])
    assert document == {
        "version": "1.0.0",
        "hook": {
            "path": PROGRAM,
            "args": ["nriplugin", "hook", "--config", "/etc/x.yaml"],
            "timeout": 60,
        },
        "when": {"always": True},
        "stages": ["createRuntime"],
    }


def test_annotations_are_conditions() -> None:
    """The key has to match as a whole; the value is a pattern."""
    document = hook_document(PROGRAM, annotations=["a.example/b-c=^on|yes$", "d="])
    assert document["when"] == {
        "annotations": {r"^a\.example/b-c$": "^on|yes$", "^d$": ""}
    }


@pytest.mark.parametrize("stage", ["precreate", "", "createruntime", "CreateRuntime"])
def test_a_stage_that_crio_does_not_know_is_refused(stage: str) -> None:
    """CRI-O does not start with such a file."""
    with pytest.raises(
        ConfigError, match=r"--stage: .*, expected prestart, createRunt"
    ):
        hook_document(PROGRAM, stage=stage)


@pytest.mark.parametrize("stage", ["createContainer", "startContainer", "poststop"])
def test_a_stage_that_is_no_use_is_refused(stage: str) -> None:
    """Inside the container or after its end the hook could not work; the error says
    so.
    """
    with pytest.raises(ConfigError, match=r"or poststart: (it runs|the cgroup)"):
        hook_document(PROGRAM, stage=stage)


@pytest.mark.parametrize("stage", ["createRuntime", "prestart", "poststart"])
def test_the_other_stages_are_taken(stage: str) -> None:
    """At these stages the hook runs on the node, and the cgroup exists."""
    assert hook_document(PROGRAM, stage=stage)["stages"] == [stage]


@pytest.mark.parametrize(
    "annotation",
    [
        "a",
        "=x",
        "a b=x",
        "a=(",
        "a=x**",
        # What Python takes and Go does not.
        "a=(?=x)",
        "a=(?!x)",
        "a=x*+",
        r"a=(x)\1",
        r"a=x\Z",
        r"a=\u0041",
        "a=x{1001}",
        "a=(?P=x)",
        "a=\u00e4",
        "a=" + "x" * 257,
    ],
)
def test_a_pattern_that_go_may_not_take_is_refused(annotation: str) -> None:
    """CRI-O does not start with a pattern that Go cannot compile."""
    with pytest.raises(ConfigError, match="--annotation"):
        hook_document(PROGRAM, annotations=[annotation])


@pytest.mark.parametrize(
    "pattern",
    ["", ".*", "^on$", "a|b", "(a|b)+", r"v\d+\.\d+", "[a-z0-9-]+", "[^a]?", "(?:x)"],
)
def test_ordinary_patterns_are_taken(pattern: str) -> None:
    """Patterns that mean the same in Go and Python are accepted."""
    document = hook_document(PROGRAM, annotations=[f"a={pattern}"])
    assert document["when"] == {"annotations": {"^a$": pattern}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", "0.1.0"),
        ("hook", None),
        ("hook", {"path": "python3", "args": [], "timeout": 1}),
        ("hook", {"path": "/nonexistent/nriplugin", "args": [], "timeout": 1}),
        ("hook", {"path": PROGRAM, "args": "hook", "timeout": 1}),
        ("hook", {"path": PROGRAM, "args": ["\0"], "timeout": 1}),
        ("hook", {"path": PROGRAM, "args": [], "timeout": 0}),
        ("when", {}),
        ("when", {"annotations": {"(": "x"}}),
        ("when", {"annotations": {"x": None}}),
        ("stages", []),
        ("stages", None),
        ("stages", ["createRuntime", "precreate"]),
    ],
)
def test_what_the_reader_refuses_is_refused(field: str, value: Any) -> None:
    """A file that CRI-O or the OCI runtime would refuse is not written."""
    document = {**hook_document(PROGRAM), field: value}
    with pytest.raises(ConfigError, match=r", expected |: expected "):
        validate(document)


def test_every_known_stage_is_valid() -> None:
    """The reader knows the six stages of the runtime specification."""
    for stage in KNOWN_STAGES:
        validate({**hook_document(PROGRAM), "stages": [stage]})


def test_a_file_is_installed_and_removed(tmp_path: Path) -> None:
    """The file is readable for all, and no other file is left behind."""
    document = hook_document(PROGRAM)
    path = Path(install(document, str(tmp_path), FILE_NAME))
    assert [*tmp_path.iterdir()] == [path]
    assert json.loads(path.read_text()) == document
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert uninstall(str(tmp_path), FILE_NAME) == str(path)
    assert [*tmp_path.iterdir()] == []
    assert uninstall(str(tmp_path), FILE_NAME) is None


def test_our_own_file_is_replaced(tmp_path: Path) -> None:
    """Installing again changes the options."""
    install(hook_document(PROGRAM), str(tmp_path), FILE_NAME)
    newer = hook_document(PROGRAM, ["--config", "/etc/x.yaml"])
    path = Path(install(newer, str(tmp_path), FILE_NAME))
    assert json.loads(path.read_text()) == newer


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"hook": {"args": ["other", "hook"]}}', "[" * 100_000]
)
def test_what_is_not_ours_is_kept(tmp_path: Path, content: str) -> None:
    """A file that `install` did not write is replaced only with --force."""
    path = tmp_path / FILE_NAME
    path.write_text(content)
    with pytest.raises(ConfigError, match="did not write this file"):
        install(hook_document(PROGRAM), str(tmp_path), FILE_NAME)
    with pytest.raises(ConfigError, match="did not write this file"):
        uninstall(str(tmp_path), FILE_NAME)
    assert path.read_text() == content
    install(hook_document(PROGRAM), str(tmp_path), FILE_NAME, force=True)
    assert was_installed(str(path))


def test_a_file_that_cannot_be_put_in_place_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CRI-O must never find a half-written file."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        install(hook_document(PROGRAM), str(tmp_path), FILE_NAME)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", ["x", ".json", "../x.json", "a/b.json", "x.json\0"])
def test_a_name_that_no_reader_takes_is_refused(tmp_path: Path, name: str) -> None:
    """CRI-O reads only *.json in the directory itself."""
    with pytest.raises(ConfigError, match="--name"):
        install(hook_document(PROGRAM), str(tmp_path), name)


def test_a_directory_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    """CRI-O would not read a file in a mistyped directory."""
    with pytest.raises(ConfigError, match=r"--hooks-dir: .*, expected a directory"):
        install(hook_document(PROGRAM), str(tmp_path / "typo"), FILE_NAME)
    assert [*tmp_path.iterdir()] == []


def test_the_usual_directory_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many nodes do not have the default directory yet."""
    usual = str(tmp_path / "oci" / "hooks.d")
    monkeypatch.setattr(hooksd, "HOOKS_DIR", usual)
    assert install(hook_document(PROGRAM), usual, FILE_NAME).startswith(usual)

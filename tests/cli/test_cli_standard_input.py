"""Commands that read standard input where it is closed, or not text."""

from __future__ import annotations

import io
import sys

import pytest

from nriplugin.cli.main import main

Captured = pytest.CaptureFixture[str]

COMMANDS = (
    "capacity --node -",
    "config check -",
    "convert -",
    "demo --pods -",
    "explain -",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_standard_input(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """It is named in one line."""
    monkeypatch.setattr(sys, "stdin", None)
    assert main(command.split()) == 2
    told = capsys.readouterr().err
    assert "Bad file descriptor, expected a" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_bytes_that_are_no_text(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """They are named in one line."""
    stdin = io.TextIOWrapper(io.BytesIO(b"\xff\xfe\xfd"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(command.split()) == 2
    assert capsys.readouterr().err.count("\n") == 1

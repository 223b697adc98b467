from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nriplugin.cgroup.version import ENV_VERSION, detect_version
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_unified_hierarchy_is_recognised_by_its_controllers(tmp_path: Path) -> None:
    """Neither v1 nor the hybrid layout has that file at the root."""
    assert detect_version({}, str(tmp_path)).number == 1
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.controllers").touch()
    assert detect_version({}, str(tmp_path)).number == 1
    (tmp_path / "cgroup.controllers").touch()
    version = detect_version({}, str(tmp_path))
    assert version.number == 2
    assert "cgroup.controllers is there" in version.evidence


@pytest.mark.parametrize("number", [1, 2])
def test_the_environment_wins(tmp_path: Path, number: int) -> None:
    """For tests, and for whoever knows better."""
    environ = {ENV_VERSION: str(number)}
    assert detect_version(environ, str(tmp_path)).number == number


def test_a_wrong_environment_is_refused() -> None:
    """The error names the variable, the value and what was expected."""
    with pytest.raises(ConfigError, match=f"{ENV_VERSION}: 'v2', expected 1 or 2"):
        detect_version({ENV_VERSION: "v2"})

"""The init container of the chart that turns NRI on in the runtime's configuration."""

from __future__ import annotations

import importlib.util
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

FILE = Path(__file__).parents[2] / "deploy/helm/nriplugin/files/turn_nri_on.py"
SECTION = "io.containerd.nri.v1.nri"
TYPICAL = """\
version = 2
root = "/data/containerd"  # on the large disk

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "pause:1"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""
DISABLED = """
[plugins."io.containerd.nri.v1.nri"]
  disable = true
  socket_path = "/var/run/nri/nri.sock"
"""


def _load() -> ModuleType:
    """Load the script, which is in the chart and in no package."""
    specification = importlib.util.spec_from_file_location("turn_nri_on", FILE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


script = _load()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version = 3\n",
        TYPICAL,
        TYPICAL + DISABLED,
        DISABLED.replace("disable = true\n", "") + TYPICAL.replace("version = 2\n", ""),
        TYPICAL + DISABLED + "[debug]\nlevel = 'info'\n",
        "version = 3\n[plugins.'io.containerd.nri.v1.nri']\ndisable=true",
    ],
)
def test_nri_is_on_and_all_else_is_as_it_was(text: str) -> None:
    """Comments stay, too: the file is edited, not written anew."""
    if text and "version" not in text:
        text = "version = 2\n" + text
    changed = script.containerd_with_nri(text)
    before, after = tomllib.loads(text), tomllib.loads(changed)
    section = after["plugins"].pop(SECTION)
    assert section.pop("disable") is False
    old = before.setdefault("plugins", {}).pop(SECTION, {})
    old.pop("disable", None)
    before.setdefault("version", 2)
    assert (after, section) == (before, old)
    assert changed.count("#") == text.count("#")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("version = 1\n", "expected a configuration of version 2 or 3"),
        ("root = '/x'\n", "expected a configuration of version 2 or 3"),
        ("version = \n", "config.toml: "),
        (f"version = 2\nplugins = {{'{SECTION}' = {{disable = true}}}}\n", "config"),
    ],
)
def test_what_is_not_understood_is_left_alone(text: str, why: str) -> None:
    """The text of the error says what was found or expected."""
    with pytest.raises(script.Failure, match=why):
        script.containerd_with_nri(text)


@dataclass
class PlayedServices:
    """systemd with one runtime, which serves NRI if its configuration says so."""

    host: Path
    active: str
    works: bool = True
    restarts: list[str] = field(default_factory=list)

    def is_active(self, unit: str) -> bool:
        return unit == self.active

    def restart(self, unit: str) -> None:
        self.restarts.append(unit)

    def answers(self) -> bool:
        return self.works and bool(self.restarts)

    def turn_on(self) -> str:
        done = script.turn_on(self.host, self, self.answers, lambda check: check())
        assert isinstance(done, str)
        return done


def read(path: Path) -> Any:
    return tomllib.loads(path.read_text())


def test_containerd_is_configured_and_restarted(tmp_path: Path) -> None:
    """The file from before stays beside the new one, with its mode."""
    file = tmp_path / "etc/containerd/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(TYPICAL)
    file.chmod(0o600)
    services = PlayedServices(tmp_path, "containerd.service")
    assert "NRI is on" in services.turn_on()
    assert services.restarts == ["containerd.service"]
    assert read(file)["plugins"][SECTION] == {"disable": False}
    assert file.stat().st_mode & 0o777 == 0o600
    kept = file.with_name("config.toml.before-nriplugin")
    assert kept.read_text() == TYPICAL
    assert {path.name for path in file.parent.iterdir()} == {file.name, kept.name}


def test_crio_gets_a_file_of_its_own(tmp_path: Path) -> None:
    """Its other files are not touched."""
    services = PlayedServices(tmp_path, "crio.service")
    services.turn_on()
    file = tmp_path / "etc/crio/crio.conf.d/99-nriplugin.conf"
    assert read(file) == {"crio": {"nri": {"enable_nri": True}}}
    assert services.restarts == ["crio.service"]


@pytest.mark.parametrize("text", [TYPICAL, None])
def test_a_runtime_that_stays_away_gets_its_file_back(
    text: str | None, tmp_path: Path
) -> None:
    """It is restarted once more, so that the node is as it was."""
    file = tmp_path / "etc/containerd/config.toml"
    file.parent.mkdir(parents=True)
    if text is not None:
        file.write_text(text)
    services = PlayedServices(tmp_path, "containerd.service", works=False)
    with pytest.raises(script.Failure, match=r"containerd\.service: no NRI socket"):
        services.turn_on()
    assert services.restarts == ["containerd.service"] * 2
    assert (file.read_text() if file.exists() else None) == text


@pytest.mark.parametrize("unit", ["containerd.service", "crio.service"])
def test_a_runtime_is_not_restarted_for_ever(unit: str, tmp_path: Path) -> None:
    """kubelet repeats the init container; another configuration is another try."""
    services = PlayedServices(tmp_path, unit, works=False)
    for _ in range(3):
        with pytest.raises(script.Failure):
            services.turn_on()
    assert len(services.restarts) == 2
    with pytest.raises(script.Failure, match=r"remove etc/.*/nriplugin-failed on"):
        services.turn_on()
    file = tmp_path / (script.CRIO if unit == "crio.service" else script.CONTAINERD)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("# other\nversion = 2\n")
    services.works = True
    services.turn_on()
    assert len(services.restarts) == 3
    assert not (tmp_path / script.FAILED[unit]).exists()
    assert not any(one.is_file() for one in tmp_path.glob("etc/crio/*"))


def test_a_runtime_of_another_kind_is_named(tmp_path: Path) -> None:
    """Nothing is written for it, and the error says what to do."""
    services = PlayedServices(tmp_path, "k3s.service")
    with pytest.raises(script.Failure, match="turn NRI on by hand"):
        services.turn_on()
    assert list(tmp_path.iterdir()) == []

"""Files of the host are found below the host root, whatever its links say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nriplugin.daemon.doctor.examine import CheckFamily, examine
from nriplugin.daemon.doctor.finding import ok
from nriplugin.daemon.doctor.host_files import HostFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.hosts import FakeHost

    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost


def test_a_link_does_not_lead_out_of_the_host_root(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/a").write_text("the host's")
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "var/relative").symlink_to("../run")
    (tmp_path / "out").symlink_to("../../../../run/a")
    (tmp_path / "circle").symlink_to("circle")
    files = HostFiles(str(tmp_path))
    for path in ("/run/a", "/var/run/a", "/var/relative/a", "/out", "/../run/./a"):
        assert files.path(path) == f"{tmp_path}/run/a"
        assert files.read(path) == "the host's"
    assert files.path("/") == str(tmp_path)
    assert not files.exists("/etc/passwd")
    assert files.read_or_none("/etc/passwd") is None
    assert files.names("/run") == ["a"]
    assert files.names("/nothing") == []
    with pytest.raises(OSError, match="symbolic links"):
        files.path("/circle")


def test_the_root_itself_may_be_the_host() -> None:
    assert HostFiles("/").path("/proc/1") == "/proc/1"


def test_a_check_that_fails_does_not_end_the_others(host: FakeHost) -> None:
    """It becomes a finding, after those that it had found."""

    def broken(_: ExaminedHost) -> Iterator[CheckFinding]:
        yield ok("first", "Found before.")
        raise ValueError("out of order")

    def fine(_: ExaminedHost) -> Iterator[CheckFinding]:
        yield ok("second", "Found after.")

    families = (CheckFamily("Broken", broken), CheckFamily("Fine", fine))
    (_, first), (_, second) = examine(host.examined(), families)
    assert [one.check for one in first] == ["first", "check-failed"]
    assert str(first[1].level) == "warning"
    assert "checks of broken failed: ValueError: out of order" in first[1].text
    assert [one.check for one in second] == ["second"]

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from nriplugin.cri.addresses import claim, parse_address, parse_mode
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_an_address_is_kubelets() -> None:
    """unix:// and an absolute path."""
    assert parse_address("--listen", "unix:///run/a/b.sock") == "/run/a/b.sock"


@pytest.mark.parametrize(
    "text",
    ["", "/run/a.sock", "unix://run/a.sock", "unix:///run/", "tcp://h:1", "unix:/a"],
)
def test_anything_else_is_refused(text: str) -> None:
    """The error names option and value."""
    with pytest.raises(ConfigError, match=r"^--listen: '.*', expected unix:///path"):
        parse_address("--listen", text)


def test_a_path_that_no_socket_can_have() -> None:
    """The kernel's limit, said in bytes."""
    with pytest.raises(ConfigError, match="expected at most 107 bytes"):
        parse_address("--listen", f"unix:///{'ü' * 54}")


def test_modes_are_octal() -> None:
    """And let at least their owner in."""
    assert parse_mode("--socket-mode", "0660") == 0o660
    for text in ("", "rw", "0999", "0400", "0", "1777", "-600"):
        with pytest.raises(ConfigError, match=r"^--socket-mode: '.*', expected octal"):
            parse_mode("--socket-mode", text)


def test_a_dead_socket_is_taken_away(tmp_path: Path) -> None:
    """It is what a killed proxy leaves behind."""
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    claim("--listen", str(path))
    assert not path.exists()


def test_a_living_socket_is_left_alone(tmp_path: Path) -> None:
    """Also one whose server is too busy to answer."""
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(0)
        clients = []
        for _ in range(3):
            with pytest.raises(ConfigError, match="nobody serves already"):
                claim("--listen", str(path))
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            client.connect_ex(str(path))
            clients.append(client)
        for client in clients:
            client.close()
    assert path.exists()


def test_a_file_is_left_alone(tmp_path: Path) -> None:
    """Whatever it is, it is not ours; nor is what a link leads to."""
    path = tmp_path / "x.sock"
    path.write_text("precious")
    link = tmp_path / "link.sock"
    link.symlink_to(path)
    for one in (path, link):
        with pytest.raises(ConfigError, match="expected a socket or nothing there"):
            claim("--listen", str(one))
    assert path.read_text() == "precious"


def test_a_directory_has_to_be_there(tmp_path: Path) -> None:
    """We do not make one."""
    with pytest.raises(ConfigError, match="expected a directory that is there"):
        claim("--listen", str(tmp_path / "no" / "x.sock"))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="Not a directory"):
        claim("--listen", str(tmp_path / "file" / "x.sock"))

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from nriplugin.errors import ConfigError
from nriplugin.sockets import claimed, parse_address, parse_mode, target_of

if TYPE_CHECKING:
    from pathlib import Path


def test_an_address_is_kubelets() -> None:
    """An address is unix:// and an absolute path."""
    assert parse_address("--listen", "unix:///run/a/b.sock") == "/run/a/b.sock"


@pytest.mark.parametrize(
    "text",
    ["", "/run/a.sock", "unix://run/a.sock", "unix:///run/", "tcp://h:1", "unix:/a"],
)
def test_anything_else_is_refused(text: str) -> None:
    """The error names the option and the value."""
    with pytest.raises(ConfigError, match=r"^--listen: '.*', expected unix:///path"):
        parse_address("--listen", text)


def test_an_address_is_a_url() -> None:
    """Percent encoding is decoded once; bytes that are not UTF-8 are kept."""
    for text, path in (
        ("unix:///run/a%41.sock", b"/run/aA.sock"),
        ("unix:///run/a%2541.sock", b"/run/a%41.sock"),
        ("unix:///run/%3f%23.sock", b"/run/?#.sock"),
        ("unix:///run/\udcff%ff.sock", b"/run/\xff\xff.sock"),
        ("unix:///run/ü%C3%BC.sock", "/run/üü.sock".encode()),
    ):
        assert os.fsencode(parse_address("--listen", text)) == path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a%4.sock", "%25 for %"),
        ("a?b.sock", "%3F for [?]"),
        ("a#b.sock", "%23 for #"),
        ("a%00.sock", "no zero byte"),
        ("a,b.sock", "no comma"),
        ("a%2cb.sock", "no comma"),
    ],
)
def test_a_url_that_names_no_file(name: str, expected: str) -> None:
    """kubelet, gRPC and nriplugin would each read it differently."""
    with pytest.raises(
        ConfigError, match=f"^--listen: 'unix:.*', expected .*{expected}"
    ):
        parse_address("--listen", f"unix:///run/{name}")


def test_grpc_gets_the_path_in_its_own_writing() -> None:
    """gRPC decodes percent encoding, so the path is encoded for it."""
    assert target_of("/run/a.sock") == "unix:/run/a.sock"
    assert target_of("/run/a%41 \udcff.sock") == "unix:/run/a%2541%20%FF.sock"


def test_a_path_that_no_socket_can_have() -> None:
    """The kernel's limit is 107 bytes."""
    with pytest.raises(ConfigError, match="expected at most 107 bytes"):
        parse_address("--listen", f"unix:///{'ü' * 54}")


def test_modes_are_octal() -> None:
    """The owner must be able to read and write."""
    assert parse_mode("--socket-mode", "0660") == 0o660
    for text in ("", "rw", "0999", "0400", "0", "1777", "-600"):
        with pytest.raises(ConfigError, match=r"^--socket-mode: '.*', expected octal"):
            parse_mode("--socket-mode", text)


def test_a_dead_socket_is_taken_away(tmp_path: Path) -> None:
    """A killed proxy leaves its socket behind."""
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    with claimed("--listen", str(path)):
        assert not path.exists()


def test_one_claim_at_a_time(tmp_path: Path) -> None:
    """The lock is held before there is a socket, and until the first process is
    done.
    """
    path = str(tmp_path / "x.sock")
    with (
        claimed("--listen", path),
        pytest.raises(ConfigError, match="another process serves it"),
        claimed("--listen", path),
    ):
        pass
    with claimed("--listen", path):
        pass


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    """A link could make the process create a file elsewhere."""
    (tmp_path / "x.sock.lock").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(ConfigError, match=r"^--listen: .*/x\.sock\.lock: Too many"),
        claimed("--listen", str(tmp_path / "x.sock")),
    ):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_living_socket_is_left_alone(tmp_path: Path) -> None:
    """A socket whose server is too busy to answer is in use as well."""
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(0)
        clients = []
        for _ in range(3):
            with (
                pytest.raises(ConfigError, match="another process serves it"),
                claimed("--listen", str(path)),
            ):
                pass
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            client.connect_ex(str(path))
            clients.append(client)
        for client in clients:
            client.close()
    assert path.exists()


def test_a_file_is_left_alone(tmp_path: Path) -> None:
    """A file, or what a link leads to, is never removed."""
    path = tmp_path / "x.sock"
    path.write_text("precious")
    link = tmp_path / "link.sock"
    link.symlink_to(path)
    for one in (path, link):
        with (
            pytest.raises(ConfigError, match="expected a socket or nothing there"),
            claimed("--listen", str(one)),
        ):
            pass
    assert path.read_text() == "precious"


def test_a_directory_has_to_be_there(tmp_path: Path) -> None:
    """The directory of the socket is not created."""
    (tmp_path / "file").touch()
    for place in ("no", "file"):
        with (
            pytest.raises(ConfigError, match="expected a directory that is there"),
            claimed("--listen", str(tmp_path / place / "x.sock")),
        ):
            pass

"""PodGroups of an API server, over real HTTPS: what arrives, and what goes wrong."""

from __future__ import annotations

import base64
import json
import logging
import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from support.api_server import (
    CLIENT_CERTIFICATE,
    CLIENT_KEY,
    SERVER_CERTIFICATE,
    FakeApiServer,
    answer,
    api_server,
    pod_group,
)
from support.harness import wait_until

from nriplugin.daemon.podgroups import access
from nriplugin.daemon.podgroups import api_server as asking
from nriplugin.daemon.podgroups import watch as watching
from nriplugin.daemon.podgroups.access import in_cluster, of_kubeconfig
from nriplugin.daemon.podgroups.api_source import ApiSource
from nriplugin.daemon.podgroups.failures import FailureReason
from nriplugin.daemon.podgroups.watch import PodGroupWatch
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from nriplugin.kube.podgroup_object import GroupObject


class Watched:
    """A watch over a server, and the PodGroups that it has published."""

    def __init__(self, path: str) -> None:
        self.published: list[dict[str, GroupObject]] = []
        source = ApiSource("the API server", lambda: of_kubeconfig(path))
        self.watch = PodGroupWatch(source, self.published.append, first_s=0.02)
        self.watch.start()

    @property
    def names(self) -> list[str]:
        return sorted(self.published[-1]) if self.published else []

    def until(self, *names: str) -> None:
        """Wait until exactly these are known."""
        wait_until(lambda: self.names == sorted(names))

    def until_failed(self, reason: FailureReason, times: int = 1) -> None:
        """Wait until a failure was counted so often."""
        wait_until(lambda: self.watch.failures[reason] >= times)


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with api_server() as fake:
        yield fake


@pytest.fixture
def watched(server: FakeApiServer, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def start(user: str = "{token: secret}", **cluster: str) -> Watched:
        path = server.kubeconfig(tmp_path / "kubeconfig", user, **cluster)
        made.append(Watched(path))
        return made[-1]

    yield start
    for one in made:
        one.watch.stop()


def watches(server: FakeApiServer) -> None:
    """Wait until a watch is open."""
    wait_until(lambda: bool(server.watches))


def test_a_list_and_then_what_changes(server: FakeApiServer, watched: Any) -> None:
    """Additions, changes and deletions arrive; a bookmark moves the version."""
    server.objects = [pod_group("a", minMember=3, queue="research"), pod_group("b")]
    server.version = 7
    found = watched()
    found.until("ml/a", "ml/b")
    first = found.published[-1]["ml/a"]
    assert (first.min_member, first.queue, first.phase) == (3, "research", "Inqueue")
    watches(server)
    assert server.requests[-1]["resourceVersion"] == "7"
    assert server.requests[-1]["allowWatchBookmarks"] == "true"
    server.say("ADDED", pod_group("c", 8))
    server.say("MODIFIED", pod_group("a", 9, minMember=5))
    server.say("DELETED", pod_group("b", 10))
    found.until("ml/a", "ml/c")
    assert found.published[-1]["ml/a"].min_member == 5
    server.say("BOOKMARK", {"metadata": {"resourceVersion": "42"}})
    server.end_watches()
    watches(server)
    assert server.requests[-1]["resourceVersion"] == "42"
    assert not found.watch.failures
    assert found.watch.objects == 2
    assert found.watch.read_at > 0


def test_a_long_list_comes_in_pages(server: FakeApiServer, watched: Any) -> None:
    """All of it is published at once."""
    server.objects = [pod_group(f"g{number}") for number in range(25)]
    server.most_per_page = 10
    found = watched()
    wait_until(lambda: len(found.names) == 25)
    pages = [one.get("continue") for one in server.requests if "limit" in one]
    assert pages == [None, "10", "20"]
    assert found.published[0] is found.published[-1]


def test_the_list_is_read_again_after_410(server: FakeApiServer, watched: Any) -> None:
    """Whether the watch begins with it or the server says so later."""
    server.objects = [pod_group("a")]
    found = watched()
    found.until("ml/a")
    watches(server)
    server.objects = [pod_group("b")]
    server.say("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
    found.until("ml/b")
    watches(server)
    server.objects = [pod_group("c")]
    server.instead.append(lambda handler: handler.send_error(410))
    server.end_watches()
    found.until("ml/c")
    assert found.watch.failures == {FailureReason.GONE: 2}
    wait_until(lambda: found.watch.problem == "")


def test_a_broken_connection_loses_nothing(server: FakeApiServer, watched: Any) -> None:
    """The watch goes on from the last version, and the list is not read again."""
    server.objects = [pod_group("a", 5)]
    server.version = 5
    found = watched()
    found.until("ml/a")
    watches(server)
    server.say("ADDED", pod_group("b", 6))
    found.until("ml/a", "ml/b")

    def break_off(handler: BaseHTTPRequestHandler) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)

    server.instead.extend([break_off] * 3)
    server.end_watches()
    found.until_failed(FailureReason.UNREACHABLE, 3)
    watches(server)
    assert server.requests[-1]["resourceVersion"] == "6"
    assert found.names == ["ml/a", "ml/b"]
    assert sum("limit" in one for one in server.requests) == 1


def test_an_api_server_that_is_away(
    server: FakeApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again; that is counted each time, and logged once."""
    server.objects = [pod_group("a")]
    path = tmp_path / "kubeconfig"
    with socket.socket() as away, caplog.at_level(logging.INFO):
        away.bind(("127.0.0.1", 0))  # nobody else gets the port, and none listens
        port, server.port = server.port, away.getsockname()[1]
        found = Watched(server.kubeconfig(path))
        found.until_failed(FailureReason.UNREACHABLE, 3)
        assert found.watch.problem == "unreachable: Connection refused"
        server.port = port
        server.kubeconfig(path)
        found.until("ml/a")
        found.watch.stop()
    said = [line for line in caplog.messages if "cannot be read" in line]
    assert len(said) == 1
    assert said[0].startswith("PodGroups: the API server cannot be read: unreachable")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, FailureReason.REFUSED),
        (403, FailureReason.REFUSED),
        (404, FailureReason.NOT_THERE),
        (429, FailureReason.ERROR),
        (500, FailureReason.ERROR),
    ],
)
def test_a_server_that_refuses(
    server: FakeApiServer, watched: Any, status: int, reason: FailureReason
) -> None:
    """Each status has its reason; the next answer counts."""
    server.objects = [pod_group("a")]
    server.instead.extend([lambda handler: handler.send_error(status)] * 2)
    found = watched()
    found.until("ml/a")
    assert found.watch.failures == {reason: 2}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"items": 5}',
        b"[" * 100_000,
        b'{"items": [{}',
        b"\xff",
    ],
)
def test_a_page_that_is_none(server: FakeApiServer, watched: Any, body: bytes) -> None:
    """It is counted, and asked for again."""
    server.objects = [pod_group("a")]
    server.instead.append(lambda handler: answer(handler, body))
    found = watched()
    found.until("ml/a")
    assert found.watch.failures == {FailureReason.MALFORMED: 1}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"metadata": {"name": "x"}, "spec": 5}, FailureReason.MALFORMED),
        ({"metadata": {"name": 5}}, FailureReason.MALFORMED),
        ({"metadata": {"namespace": "ml"}}, FailureReason.MALFORMED),
        (pod_group("x", minMember=-1), FailureReason.MALFORMED),
        (pod_group("x", minResources={"cpu": "much"}), FailureReason.MALFORMED),
        (pod_group("x", queue="q" * 40_000), FailureReason.TOO_LARGE),
    ],
)
def test_a_bad_object_spoils_no_other(
    server: FakeApiServer, watched: Any, bad: Any, reason: FailureReason
) -> None:
    """Neither in the list nor in a watch."""
    server.objects = [pod_group("a"), bad, pod_group("b")]
    found = watched()
    found.until("ml/a", "ml/b")
    assert found.watch.failures == {reason: 1}
    watches(server)
    server.say("ADDED", bad)
    server.say("ADDED", b"nonsense")
    server.say("ADDED", pod_group("c"))
    found.until("ml/a", "ml/b", "ml/c")
    assert found.watch.failures[FailureReason.MALFORMED] == (
        3 if reason is FailureReason.MALFORMED else 1
    )


def test_pages_that_are_too_large_are_made_smaller(
    server: FakeApiServer, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until they fit; the whole list arrives."""
    monkeypatch.setattr(asking, "MAX_PAGE", 20_000)
    server.objects = [pod_group(f"g{n}", queue="q" * 3_000) for n in range(12)]
    found = watched()
    wait_until(lambda: len(found.names) == 12)
    limits = [int(one["limit"]) for one in server.requests if "limit" in one]
    assert limits[0] == 500
    assert limits[-1] < 7


def test_a_line_of_a_watch_that_is_too_large(
    server: FakeApiServer, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is read again."""
    monkeypatch.setattr(asking, "MAX_LINE", 5_000)
    server.objects = [pod_group("a")]
    found = watched()
    found.until("ml/a")
    watches(server)
    server.objects = [pod_group("b")]
    server.say("ADDED", pod_group("x", queue="q" * 6_000))
    found.until("ml/b")
    assert found.watch.failures == {FailureReason.TOO_LARGE: 1}


def test_too_many_objects(
    server: FakeApiServer, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than so many are kept."""
    monkeypatch.setattr(watching, "MAX_GROUPS", 3)
    server.objects = [pod_group(f"g{number}") for number in range(5)]
    found = watched()
    found.until("ml/g0", "ml/g1", "ml/g2")
    watches(server)
    server.say("ADDED", pod_group("one-more"))
    server.say("MODIFIED", pod_group("g0", minMember=9))
    wait_until(lambda: found.published[-1]["ml/g0"].min_member == 9)
    assert found.names == ["ml/g0", "ml/g1", "ml/g2"]
    assert found.watch.failures == {FailureReason.TOO_MANY: 2}


def test_a_slow_server(
    server: FakeApiServer, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that drips, and one that does not come, are given up."""
    monkeypatch.setattr(asking, "PAGE_S", 0.3)
    monkeypatch.setattr(asking, "SILENCE_S", 2.0)
    server.objects = [pod_group("a")]
    found = watched
    done: list[str] = []

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        try:
            for _ in range(100):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                handler.rfile  # noqa: B018 - the connection stays open
                found_watch.watch._stopping.wait(0.1)
        except OSError:
            done.append("given up")

    def silent(handler: BaseHTTPRequestHandler) -> None:
        # The request after this one is answered, however busy the machine is.
        monkeypatch.setattr(asking, "PAGE_S", 60.0)
        monkeypatch.setattr(asking, "SILENCE_S", 60.0)
        handler.connection.settimeout(60)
        if not handler.rfile.read(1):
            done.append("given up")

    server.instead.extend([drip, silent])
    found_watch = found()
    found_watch.until("ml/a")
    assert found_watch.watch.failures == {FailureReason.UNREACHABLE: 2}
    wait_until(lambda: len(done) == 2)


def test_a_token_that_is_replaced(
    server: FakeApiServer, watched: Any, tmp_path: Path
) -> None:
    """The new one is sent with the next connection."""
    token = tmp_path / "token"
    token.write_text("one\n")
    server.token, server.objects = "one", [pod_group("a")]
    found = watched("{tokenFile: token}")
    found.until("ml/a")
    watches(server)
    server.token = "two"  # noqa: S105 - of a test
    server.end_watches()
    found.until_failed(FailureReason.REFUSED)
    assert found.watch.problem == "refused: HTTP status 401"
    token.write_text("two")
    watches(server)
    assert server.requests[-1]["authorization"] == "Bearer two"
    wait_until(lambda: found.watch.problem == "")


def test_a_server_with_another_certificate(server: FakeApiServer, watched: Any) -> None:
    """It is not trusted, and is not told the token."""
    found = watched(**{"certificate-authority": str(CLIENT_CERTIFICATE)})
    found.until_failed(FailureReason.TLS)
    assert found.watch.problem == "tls: self-signed certificate"
    assert server.requests == []


def test_a_server_with_another_name(server: FakeApiServer, watched: Any) -> None:
    """Its certificate has to be for the name; `tls-server-name` says another one."""
    found = watched(**{"tls-server-name": "elsewhere"})
    found.until_failed(FailureReason.TLS)
    assert server.requests == []
    server.objects = [pod_group("a")]
    watched(**{"tls-server-name": "localhost"}).until("ml/a")


def test_a_server_without_tls(watched: Any, tmp_path: Path) -> None:
    """Its answer is no handshake."""
    with socket.create_server(("127.0.0.1", 0)) as plain:
        plain.settimeout(60)
        port = plain.getsockname()[1]
        found = watched(server=f"https://127.0.0.1:{port}")
        peer, _ = plain.accept()
        with peer:
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            found.until_failed(FailureReason.TLS)
            found.watch.stop()


def test_a_client_certificate(tmp_path: Path) -> None:
    """As files or in the kubeconfig; nothing is left of it on the disk."""

    def encoded(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    files = {
        "client-certificate": str(CLIENT_CERTIFICATE),
        "client-key": str(CLIENT_KEY),
    }
    data = {
        "client-certificate-data": encoded(CLIENT_CERTIFICATE),
        "client-key-data": encoded(CLIENT_KEY),
    }
    with api_server(client_certificates=True) as server:
        server.objects = [pod_group("a")]
        for number, user in enumerate((files, data)):
            path = tmp_path / f"kubeconfig-{number}"
            found = Watched(server.kubeconfig(path, json.dumps(user)))
            found.until("ml/a")
            found.watch.stop()
    assert len(list(tmp_path.iterdir())) == 2


def test_stop_ends_the_thread(server: FakeApiServer, watched: Any) -> None:
    """Although it waits for the server."""
    found = watched()
    watches(server)
    thread = next(one for one in _threads() if one.name == "podgroups")
    found.watch.stop()
    thread.join(60)
    assert not thread.is_alive()


def _threads() -> list[Any]:
    import threading

    return threading.enumerate()


def test_inside_of_a_pod(server: FakeApiServer, tmp_path: Path) -> None:
    """The environment names the server, and the service account has the rest."""
    (tmp_path / "token").write_text("of the pod")
    (tmp_path / "ca.crt").write_bytes(SERVER_CERTIFICATE.read_bytes())
    environ = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    server.objects = [pod_group("a")]
    published: list[dict[str, GroupObject]] = []
    source = ApiSource("here", lambda: in_cluster(environ, str(tmp_path)))
    watch = PodGroupWatch(source, published.append)
    watch.start()
    wait_until(lambda: bool(published))
    watch.stop()
    assert list(published[0]) == ["ml/a"]
    assert server.requests[0]["authorization"] == "Bearer of the pod"


def test_no_pod(tmp_path: Path) -> None:
    """The error names what is missing."""
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST: ''"):
        in_cluster({}, str(tmp_path))
    environ = {"KUBERNETES_SERVICE_HOST": "::1"}
    with pytest.raises(ConfigError, match=r"ca.crt: No such file"):
        in_cluster(environ, str(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected fields"),
        ("{}", "contexts: nothing is named None"),
        ("{current-context: x, contexts: [5]}", "contexts: nothing is named 'x'"),
        ("SERVER: http://a", r"server: 'http://a', expected https://HOST:PORT"),
        ("SERVER: https://a:b", "expected https://HOST:PORT"),
        ("USER: {exec: {command: aws}}", "user.exec: not supported"),
        ("USER: {client-key-data: '*', client-certificate: x}", "expected base64"),
        (
            "USER: {client-key: /none, client-certificate: /none}",
            "client-certificate: No such file",
        ),
        ("USER: {tokenFile: none}", "none: cannot be read: No such file"),
        ("CA: bm9uc2Vuc2U=", "certificate-authority-data: .*expected certificates"),
    ],
)
def test_a_kubeconfig_with_a_mistake(
    tmp_path: Path, content: str, message: str
) -> None:
    """One line that names the file or the field, the value and what was expected."""
    values = {"SERVER": "https://127.0.0.1:1", "USER": "{token: t}", "CA": ""}
    key, _, value = content.partition(": ")
    if key in values:
        values[key] = value
        authority = f", certificate-authority-data: {values['CA']}"
        content = (
            "current-context: x\n"
            "contexts: [{name: x, context: {cluster: x, user: x}}]\n"
            f"clusters: [{{name: x, cluster: {{server: '{values['SERVER']}'"
            f"{authority if values['CA'] else ''}}}}}]\n"
            f"users: [{{name: x, user: {values['USER']}}}]\n"
        )
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        of_kubeconfig(str(path))
    assert "\n" not in str(caught.value)


def test_the_address_is_shown() -> None:
    """As a URL, for IPv6, too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    given = access.ApiAccess("::1", 6443, "/k8s", context, "::1", "")
    assert given.shown == "https://[::1]:6443/k8s"

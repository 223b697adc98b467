"""A small API server over HTTPS that has PodGroups, and misbehaves on demand."""

from __future__ import annotations

import json
import queue
import ssl
import threading
from collections import deque
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TLS = Path(__file__).parents[1] / "data/tls"
SERVER_CERTIFICATE, SERVER_KEY = TLS / "server.crt", TLS / "server.key"
CLIENT_CERTIFICATE, CLIENT_KEY = TLS / "client.crt", TLS / "client.key"
PATH = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
END = None  # ends a watch


def pod_group(name: str, version: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a PodGroup as the API server writes it."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "resourceVersion": str(version),
            "managedFields": [{"manager": "volcano", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"minMember": 1, "queue": "default", **spec},
        "status": {"phase": "Inqueue"},
    }


class FakeApiServer:
    """The server; a test changes what it has, and how it answers."""

    def __init__(self, *, client_certificates: bool = False) -> None:
        self.objects: list[dict[str, Any]] = []
        self.version = 1
        self.token = ""
        # What is done in place of the next answers, the oldest first.
        self.instead: deque[Callable[[BaseHTTPRequestHandler], None]] = deque()
        self.requests: list[dict[str, str]] = []
        self.most_per_page = 1000
        self.watches: list[queue.Queue[bytes | None]] = []
        self.changed = threading.Condition()
        self._client_certificates = client_certificates
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(SERVER_CERTIFICATE, SERVER_KEY)
        if client_certificates:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(CLIENT_CERTIFICATE)
        # The handshake is each connection's thread's: one that stalls holds up none.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self._server.server_address[1]

    def say(self, kind: str, content: dict[str, Any] | bytes) -> None:
        """Send a change to all watches."""
        line = content
        if isinstance(content, dict):
            line = json.dumps({"type": kind, "object": content}).encode()
        assert isinstance(line, bytes)
        for watch in list(self.watches):
            watch.put(line + b"\n")

    def end_watches(self) -> None:
        """End all watches, as a server does after a while."""
        watches, self.watches = self.watches, []
        for watch in watches:
            watch.put(END)

    def kubeconfig(self, path: Path, user: str = "{token: secret}", **more: str) -> str:
        """Write a kubeconfig that leads here; return its path."""
        cluster = {
            "server": f"https://127.0.0.1:{self.port}",
            "certificate-authority": str(SERVER_CERTIFICATE),
            **more,
        }
        path.write_text(
            "current-context: here\n"
            "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
            f"clusters: [{{name: c, cluster: {json.dumps(cluster)}}}]\n"
            f"users: [{{name: u, user: {user}}}]\n"
        )
        return str(path)


class _Handler(BaseHTTPRequestHandler):
    fake: FakeApiServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        fake = self.fake
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        fake.requests.append(
            {**query, "authorization": self.headers["Authorization"] or ""}
        )
        self.close_connection = True
        if fake.instead:
            fake.instead.popleft()(self)
        elif fake.token and self.headers["Authorization"] != f"Bearer {fake.token}":
            self.send_error(401)
        elif url.path != PATH:
            self.send_error(404)
        elif query.get("watch"):
            self._watch()
        else:
            self._list(query)

    def _list(self, query: dict[str, str]) -> None:
        fake = self.fake
        first = int(query.get("continue", "0"))
        limit = min(int(query["limit"]), fake.most_per_page)
        metadata = {"resourceVersion": str(fake.version)}
        if first + limit < len(fake.objects):
            metadata["continue"] = str(first + limit)
        items = fake.objects[first : first + limit]
        answer(self, json.dumps({"metadata": metadata, "items": items}).encode())

    def _watch(self) -> None:
        changes: queue.Queue[bytes | None] = queue.Queue()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with self.fake.changed:
            self.fake.watches.append(changes)
            self.fake.changed.notify_all()
        while (line := changes.get(timeout=100)) is not END:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Answer with a body."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def api_server(**options: Any) -> Iterator[FakeApiServer]:
    """Serve within the block."""
    fake = FakeApiServer(**options)
    # Broken connections are a part of the tests.
    fake._server.handle_error = lambda *_: None  # type: ignore[method-assign] # silent
    thread = threading.Thread(target=fake._server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield fake
    finally:
        fake.end_watches()
        fake._server.shutdown()
        thread.join()
        fake._server.server_close()

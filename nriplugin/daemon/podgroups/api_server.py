"""Lists and watches PodGroups of an API server, over HTTPS with the standard library.

An answer may be slow, huge or nonsense: the time and the size of each are bounded, and
all that can go wrong is a `ReadFailed` with one of a few reasons. There is one
connection at a time; `close`, from any thread, ends it.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from nriplugin import __version__
from nriplugin.daemon.podgroups.failures import FailureReason, ReadFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.podgroups.access import ApiAccess

PATH = "/apis/scheduling.volcano.sh/v1beta1/podgroups"

# How long to wait for a connection, and between two parts of an answer.
SILENCE_S = 15.0
PAGE_S = 60.0  # for a page of the list as a whole
# How long one watch lasts. The server sends a bookmark about once a minute meanwhile.
WATCH_S = 300
WATCH_SILENCE_S = 150.0
MAX_PAGE = 8 << 20
MAX_LINE = 4 << 20
_CHUNK = 1 << 16

_REASONS = {
    401: FailureReason.REFUSED,
    403: FailureReason.REFUSED,
    404: FailureReason.NOT_THERE,
    410: FailureReason.GONE,
}


class ApiServer:
    """One API server, asked by one thread."""

    def __init__(self, access: ApiAccess) -> None:
        """Ask with this access; nothing is sent before the first question."""
        self._access = access
        self._connection: http.client.HTTPConnection | None = None
        self._closed = False

    def page(self, limit: int, after: str) -> bytes:
        """Return a page of the list of all PodGroups, as JSON.

        Raises:
            ReadFailed: it did not arrive.
        """
        query = {"limit": str(limit), **({"continue": after} if after else {})}
        return self._read(query, SILENCE_S)

    def watch(self, version: str) -> Iterator[bytes]:
        """Return the changes since a version of the list, each as JSON, as they come.

        Raises:
            ReadFailed: the server refused; or, while they come, the connection broke.
        """
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        with _Failing():
            answer = self._ask(query, WATCH_SILENCE_S)
        return _lines(answer)

    def drop(self) -> None:
        """Close the connection, if there is one; called by the thread that asks."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """End the connection, also while the other thread waits for an answer."""
        self._closed = True
        connection = self._connection
        if connection is not None:
            _shut(connection)

    def _read(self, query: dict[str, str], silence_s: float) -> bytes:
        deadline = monotonic() + PAGE_S
        parts: list[bytes] = []
        size = 0
        with _Failing():
            answer = self._ask(query, silence_s)
            while part := answer.read1(_CHUNK):
                parts.append(part)
                size += len(part)
                if size > MAX_PAGE:
                    raise ReadFailed(
                        FailureReason.TOO_LARGE, f"a page of over {size} bytes"
                    )
                if monotonic() > deadline:
                    text = f"no complete page within {PAGE_S:.0f} s"
                    raise ReadFailed(FailureReason.UNREACHABLE, text)
        return b"".join(parts)

    def _ask(self, query: dict[str, str], silence_s: float) -> http.client.HTTPResponse:
        access = self._access
        self.drop()
        connection = http.client.HTTPConnection(access.host, access.port)
        plain = socket.create_connection((access.host, access.port), SILENCE_S)
        try:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.sock = access.context.wrap_socket(
                plain, server_hostname=access.server_name
            )
        except BaseException:
            plain.close()
            raise
        connection.sock.settimeout(silence_s)
        self._connection = connection
        if self._closed:
            _shut(connection)
        headers = {
            "Accept": "application/json",
            "User-Agent": f"nriplugin/{__version__}",
        }
        if access.token:
            headers["Authorization"] = f"Bearer {access.token}"
        path = f"{access.prefix}{PATH}?{urlencode(query)}"
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            reason = _REASONS.get(answer.status, FailureReason.ERROR)
            raise ReadFailed(reason, f"HTTP status {answer.status}")
        return answer


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    with _Failing():
        while line := answer.readline(MAX_LINE):
            if len(line) == MAX_LINE:
                raise ReadFailed(
                    FailureReason.TOO_LARGE, f"a change of {MAX_LINE} bytes"
                )
            if not line.endswith(b"\n"):
                raise ReadFailed(FailureReason.UNREACHABLE, "the watch broke off")
            yield line


class _Failing:
    """Turns the exceptions of sockets, TLS and HTTP into `ReadFailed`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, exc: BaseException | None, __: object) -> None:
        if isinstance(exc, ssl.SSLCertVerificationError):
            raise ReadFailed(FailureReason.TLS, exc.verify_message) from exc
        if isinstance(exc, ssl.SSLError):
            raise ReadFailed(FailureReason.TLS, exc.reason or str(exc)) from exc
        if isinstance(exc, TimeoutError):
            raise ReadFailed(FailureReason.UNREACHABLE, "no answer in time") from exc
        if isinstance(exc, OSError):
            text = exc.strerror or str(exc)
            raise ReadFailed(FailureReason.UNREACHABLE, text) from exc
        if isinstance(exc, http.client.IncompleteRead):
            raise ReadFailed(FailureReason.UNREACHABLE, "the answer broke off") from exc
        # A header that is no text of a token, or an address that is none, is a
        # ValueError.
        if isinstance(exc, http.client.HTTPException | ValueError):
            text = f"{type(exc).__name__}: {exc}"
            raise ReadFailed(FailureReason.MALFORMED, f"{text:.100}") from exc


def _shut(connection: http.client.HTTPConnection) -> None:
    sock = connection.sock
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has ended already

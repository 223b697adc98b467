"""One HTTP request and its answer, as bytes. No socket is in here.

Only what metrics and health need: GET and HEAD, one request per connection. The
standard library's http.server would do as well, but it loads the e-mail package, HTML
tables and OpenSSL, 3.5 MB of memory on every node.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from nriplugin import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

# Far more than a scraper or a browser sends.
MAX_HEAD_BYTES = 16 * 1024
# A shorter text would gain nothing.
GZIP_FROM_BYTES = 1024
# zlib's number for the header of gzip.
_GZIP_FORMAT = 31

TEXT = "text/plain; charset=utf-8"

REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class HTTPAnswer(NamedTuple):
    """What a client gets."""

    code: int
    body: bytes
    content_type: str = TEXT


class HTTPRequest(NamedTuple):
    """What a client asks for."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]  # by their names in lower case

    @property
    def accept(self) -> str:
        """Return which content types the client takes."""
        return self.headers.get("accept", "")

    @property
    def takes_gzip(self) -> bool:
        """Return whether the client takes a packed answer."""
        taken = self.headers.get("accept-encoding", "").replace(" ", "").split(",")
        return any(one.split(";")[0] == "gzip" and one[-4:] != ";q=0" for one in taken)


def head_is_complete(head: bytes) -> bool:
    """Return whether all headers of a request have arrived."""
    return b"\r\n\r\n" in head or b"\n\n" in head


def parse_request(head: bytes) -> HTTPRequest | HTTPAnswer:
    """Return the request with this head, or the answer to one that is not valid."""
    if len(head) > MAX_HEAD_BYTES:
        return text_answer(431, [REASONS[431]])
    first, *lines = head.decode("latin-1").splitlines()
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        return text_answer(400, ["expected METHOD PATH HTTP/1.1"])
    method, target, version = words
    if not version.startswith("HTTP/1."):
        return text_answer(505, ["expected HTTP/1.0 or HTTP/1.1"])
    headers = {}
    for line in lines:
        if not line:
            break
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if method not in ("GET", "HEAD"):
        return text_answer(405, ["expected GET or HEAD"])
    path, _, query = target.partition("?")
    return HTTPRequest(method, path, query, headers)


def text_answer(code: int, lines: list[str]) -> HTTPAnswer:
    """Return an answer with lines of text."""
    return HTTPAnswer(code, ("\n".join(lines) + "\n").encode())


def answer_bytes(answer: HTTPAnswer, request: HTTPRequest | None = None) -> bytes:
    """Return the bytes to send; without a request, for a client that sent none."""
    code, body, content_type = answer
    headers = [
        f"HTTP/1.1 {code} {REASONS[code]}",
        f"Server: nriplugin/{__version__}",
        f"Content-Type: {content_type}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Vary: Accept, Accept-Encoding",
        "Connection: close",
    ]
    if request is not None and request.takes_gzip and len(body) >= GZIP_FROM_BYTES:
        packing = zlib.compressobj(1, wbits=_GZIP_FORMAT)
        body = packing.compress(body) + packing.flush()
        headers.append("Content-Encoding: gzip")
    if code == 405:
        headers.append("Allow: GET, HEAD")
    if code == 503:
        headers.append("Retry-After: 1")
    headers.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([*headers, "", ""]).encode("latin-1")
    has_body = request is None or request.method != "HEAD"
    return head + body if has_body else head

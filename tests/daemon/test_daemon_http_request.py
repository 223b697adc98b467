"""HTTP requests and answers as bytes."""

from __future__ import annotations

import zlib

import pytest

from nriplugin.daemon.http_request import (
    MAX_HEAD_BYTES,
    HTTPAnswer,
    HTTPRequest,
    answer_bytes,
    head_is_complete,
    parse_request,
    text_answer,
)


def parsed(head: bytes) -> HTTPRequest:
    request = parse_request(head)
    assert isinstance(request, HTTPRequest)
    return request


def refusal(head: bytes) -> int:
    answer = parse_request(head)
    assert isinstance(answer, HTTPAnswer)
    return answer.code


def test_a_request() -> None:
    """Method, path, query and headers, whatever the case of their names."""
    request = parsed(
        b"GET /readyz?verbose&x=1 HTTP/1.1\r\nHost: a:1\r\nACCEPT:  text/plain \r\n\r\n"
    )
    assert (request.method, request.path, request.query) == (
        *("GET", "/readyz"),
        "verbose&x=1",
    )
    assert request.accept == "text/plain"


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"\xff\x00\x16\x03\x01 x\n\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"POST / HTTP/1.1\r\n\r\n", 405),
        (b"get / HTTP/1.1\r\n\r\n", 405),
        (b"GET /" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\n\r\n", 431),
    ],
)
def test_what_is_refused(head: bytes, code: int) -> None:
    """A request that is not one of ours gets the code that says why."""
    assert refusal(head) == code


def test_a_head_is_complete_with_its_empty_line() -> None:
    """Both line ends are known: people type requests into nc."""
    assert not head_is_complete(b"GET / HTTP/1.1\r\nHost: a\r\n")
    assert head_is_complete(b"GET / HTTP/1.1\r\n\r\n")
    assert head_is_complete(b"GET / HTTP/1.1\n\n")


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("identity", False),
        ("", False),
    ],
)
def test_gzip_only_for_who_takes_it(header: str, taken: bool) -> None:
    """The packed answer holds the same text, and is only for clients that take it."""
    text = "a line of text\n" * 200
    request = HTTPRequest("GET", "/", "", {"accept-encoding": header})
    head, _, body = answer_bytes(HTTPAnswer(200, text.encode()), request).partition(
        b"\r\n\r\n"
    )
    assert (b"Content-Encoding: gzip" in head) is taken
    assert f"Content-Length: {len(body)}".encode() in head
    assert (zlib.decompress(body, 31) if taken else body).decode() == text


def test_a_short_text_is_not_packed() -> None:
    """It would only become longer."""
    request = HTTPRequest("GET", "/", "", {"accept-encoding": "gzip"})
    assert b"gzip" not in answer_bytes(text_answer(200, ["ok"]), request)


def test_head_has_no_body() -> None:
    """HEAD gets the same headers as GET."""
    answer = text_answer(200, ["ok"])
    whole = answer_bytes(answer, HTTPRequest("GET", "/", "", {}))
    assert answer_bytes(answer, HTTPRequest("HEAD", "/", "", {})) + b"ok\n" == whole

from __future__ import annotations

import os
import queue
import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from doors.cri.fakes import (
    Client,
    FakeRuntime,
    create_request,
    in_threads,
    rpc,
    serving,
)
from support.harness import PATIENCE_S, wait_until

from nriplugin.doors.cri import forwarding
from nriplugin.doors.cri.methods import SERVER_STREAMS, UNARY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.doors.cri.door import CRIDoor

METHODS = [
    rpc("Status"),
    "/runtime.v1.ImageService/PullImage",
    "/runtime.v1alpha2.RuntimeService/CreateContainer",
    "/runtime.v1.RuntimeService/MethodOfTheYear2040",
    "/some.other.Service/Method",
]
each_method = pytest.mark.parametrize("method", METHODS)

MIB = 1 << 20
# How long the runtime's end of a call waits for the other end: longer than the test,
# which would take the end of this time for that.
LONGER_S = 2 * PATIENCE_S


@each_method
def test_any_method_is_forwarded_as_bytes(
    kubelet: Client, fake: FakeRuntime, method: str
) -> None:
    """The proxy does not parse requests, whether it knows the method or not."""
    request = b"\xff\xfe not a protobuf \x00"
    assert kubelet.raw(method, request) == b"echo:" + request
    assert [one.request for one in fake.seen if one.method == method][-1] == request


def test_the_older_cri_is_left_alone(kubelet: Client, fake: FakeRuntime) -> None:
    """A v1alpha2 method is not rewritten, even if v1 has one of that name."""
    method = "/runtime.v1alpha2.RuntimeService/CreateContainer"
    request = create_request("p", cpu_shares=512).SerializeToString()
    assert kubelet.raw(method, request) == b"echo:" + request


@each_method
def test_metadata_goes_both_ways(
    kubelet: Client, fake: FakeRuntime, method: str
) -> None:
    """The caller's metadata, and the runtime's initial and trailing metadata."""

    def answer(request: bytes, context: Any) -> bytes:
        context.send_initial_metadata((("before", "1"), ("before-bin", b"\x00\xff")))
        context.set_trailing_metadata((("after", "2"), ("after-bin", b"\xff\x00")))
        return request

    fake.answers[method] = answer
    call: Any = kubelet.channel.unary_unary(method)
    sent = (("traceparent", "00-a-b-01"), ("x-bin", b"\x01\xfe"), ("x-twice", "a"))
    outcome: Any
    _, outcome = call.with_call(b"", metadata=sent)
    seen = [one for one in fake.seen if one.method == method][-1].metadata
    assert {key: seen[key] for key, _ in sent} == dict(sent)
    initial: dict[str, Any] = dict(outcome.initial_metadata())
    trailing: dict[str, Any] = dict(outcome.trailing_metadata())
    assert (initial["before"], initial["before-bin"]) == ("1", b"\x00\xff")
    assert (trailing["after"], trailing["after-bin"]) == ("2", b"\xff\x00")


@each_method
def test_an_error_keeps_its_code_words_and_details(
    kubelet: Client, fake: FakeRuntime, method: str
) -> None:
    """kubelet reads the details, which are in the trailing metadata."""
    details = b"\x08\x05\x12\x04gone"

    def answer(request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("grpc-status-details-bin", details),))
        context.abort(grpc.StatusCode.NOT_FOUND, "no such thing: ünïcode\n2")
        raise AssertionError

    fake.answers[method] = answer
    with pytest.raises(grpc.RpcError) as caught:
        kubelet.raw(method, b"")
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.details() == "no such thing: ünïcode\n2"
    trailing: dict[str, Any] = dict(error.trailing_metadata())
    assert trailing["grpc-status-details-bin"] == details


@pytest.mark.parametrize("length", [9_000, 20_000, 200_000])
def test_a_long_error_text_arrives_complete(
    fake: FakeRuntime, kubelet: Client, length: int
) -> None:
    """A runtime may quote a program's output, which exceeds gRPC's default limit."""

    def fail(request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("grpc-status-details-bin", b"d" * length),))
        context.abort(grpc.StatusCode.NOT_FOUND, "x" * length)
        return b""

    fake.answers[rpc("ContainerStatus")] = fail
    for _ in range(5):
        with pytest.raises(grpc.RpcError) as raised:
            kubelet.raw(rpc("ContainerStatus"), b"")
        error: Any = raised.value
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert error.details() == "x" * length
        assert len(dict(error.trailing_metadata())["grpc-status-details-bin"]) == length


@each_method
def test_a_deadline_reaches_the_runtime(
    kubelet: Client, fake: FakeRuntime, method: str
) -> None:
    """A call without a deadline reaches the runtime without one."""
    kubelet.raw(method, b"", timeout=1000)
    kubelet.raw(method, b"")
    limited, unlimited = [one for one in fake.seen if one.method == method][-2:]
    # Each hop rounds it up a little.
    assert 0 < limited.time_remaining_s < 1100
    assert unlimited.time_remaining_s > 10**8


@each_method
def test_a_slow_runtime_is_given_up_by_the_caller_alone(
    kubelet: Client, fake: FakeRuntime, method: str
) -> None:
    """Only the caller's deadline ends a call, at the runtime as well."""
    calls: list[threading.Event] = []  # for each that began, what its end sets

    def answer(request: bytes, context: Any) -> bytes:
        ended = threading.Event()
        if context.add_callback(ended.set):
            calls.append(ended)
            assert ended.wait(LONGER_S)
        return b""

    fake.answers[method] = answer
    # On a busy machine a call may be over before it has come to the runtime.
    for deadline_s in (0.2, 2, 20):
        with pytest.raises(grpc.RpcError) as caught:
            kubelet.raw(method, b"", timeout=deadline_s)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        if calls:
            break
    assert calls
    assert all(ended.wait(PATIENCE_S) for ended in calls)


@each_method
def test_cancelling_cancels_at_the_runtime(
    kubelet: Client, fake: FakeRuntime, method: str
) -> None:
    """The caller's cancellation reaches the runtime in a call without a deadline."""
    began, ended = threading.Event(), threading.Event()

    def answer(request: bytes, context: Any) -> bytes:
        context.add_callback(ended.set)
        began.set()
        assert ended.wait(LONGER_S)
        return b""

    fake.answers[method] = answer
    call: Any = kubelet.channel.unary_unary(method)
    future = call.future(b"")
    assert began.wait(PATIENCE_S)
    future.cancel()
    assert ended.wait(PATIENCE_S)


@each_method
def test_sixteen_mebibytes_each_way(
    kubelet: Client, fake: FakeRuntime, method: str
) -> None:
    """kubelet and runtimes allow each other messages of this size."""
    request = b"\xff" + os.urandom(16 * MIB - 1)
    assert kubelet.raw(method, request) == b"echo:" + request


@each_method
@pytest.mark.parametrize("kind", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages(
    kubelet: Client, fake: FakeRuntime, method: str, kind: grpc.Compression
) -> None:
    """Requests and responses may be compressed."""

    def answer(request: bytes, context: Any) -> bytes:
        context.set_compression(kind)
        return b"echo:" + request

    fake.answers[method] = answer
    request = b"\xff" + b"again and again " * 10_000
    assert kubelet.raw(method, request, compression=kind) == b"echo:" + request


def test_a_stream_of_events_comes_as_it_goes(
    kubelet: Client, fake: FakeRuntime
) -> None:
    """Each event arrives when it is sent, and the caller ends the stream."""
    events: queue.Queue[bytes] = queue.Queue()
    ended = threading.Event()

    def stream(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        assert next(requests) == b"which"
        context.add_callback(ended.set)
        context.send_initial_metadata((("began", "yes"),))
        while context.is_active():
            yield events.get(timeout=LONGER_S)

    (method,) = SERVER_STREAMS
    fake.streams[method] = stream
    start: Any = kubelet.channel.unary_stream(method)
    call = start(b"which")
    assert dict(call.initial_metadata())["began"] == "yes"
    for number in range(3):
        events.put(b"%d" % number)
        assert next(call) == b"%d" % number
    call.cancel()
    events.put(b"")
    assert ended.wait(PATIENCE_S)


def test_a_stream_both_ways(kubelet: Client, fake: FakeRuntime) -> None:
    """In a stream of an unknown method each request gets its response at once."""

    def stream(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        for request in requests:
            yield request.upper()
        context.set_trailing_metadata((("count", "3"),))

    fake.streams["/new.Service/Talk"] = stream
    questions: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    start: Any = kubelet.channel.stream_stream("/new.Service/Talk")
    call = start(iter(questions.get, None))
    for word in (b"a", b"b", b"c"):
        questions.put(word)
        assert next(call) == word.upper()
    questions.put(None)
    assert list(call) == []
    assert dict(call.trailing_metadata())["count"] == "3"


def test_a_stream_that_fails_after_some_messages(
    kubelet: Client, fake: FakeRuntime
) -> None:
    """The messages arrive, and then the error."""

    def stream(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        yield b"1"
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many")

    (method,) = SERVER_STREAMS
    fake.streams[method] = stream
    start: Any = kubelet.channel.unary_stream(method)
    call = start(b"")
    assert next(call) == b"1"
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert caught.value.details() == "too many"


def test_a_caller_that_vanishes_ends_its_stream(
    door: CRIDoor, fake: FakeRuntime, tmp_path: Path
) -> None:
    """When kubelet is killed, its stream ends at the runtime, too."""
    ended = threading.Event()

    def stream(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.add_callback(ended.set)
        yield b"1"
        assert ended.wait(LONGER_S)

    (method,) = SERVER_STREAMS
    fake.streams[method] = stream
    with Client(str(tmp_path / "proxy.sock")) as client:
        start: Any = client.channel.unary_stream(method)
        assert next(start(b"")) == b"1"
    assert ended.wait(PATIENCE_S)


def test_a_hundred_calls_at_once(kubelet: Client, fake: FakeRuntime) -> None:
    """The runtime has all calls at the same time, and each gets its own answer."""
    together = threading.Barrier(100)

    def answer(request: bytes, context: Any) -> bytes:
        together.wait(PATIENCE_S)
        return b"echo:" + request

    method = "/runtime.v1.ImageService/PullImage"
    fake.answers[method] = answer
    sent = [b"%d" % number for number in range(100)]
    got = in_threads(100, lambda number: kubelet.raw(method, sent[number]))
    assert got == [b"echo:" + one for one in sent]


def test_open_streams_leave_room_for_calls(
    kubelet: Client, fake: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of streams is limited, so that they never take all threads."""
    monkeypatch.setattr(forwarding, "MAX_STREAMS", 3)
    release = threading.Event()

    def stream(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        yield b"open"
        release.wait(PATIENCE_S)

    (method,) = SERVER_STREAMS
    fake.streams[method] = stream
    start: Any = kubelet.channel.unary_stream(method)
    open_ones = [start(b"") for _ in range(3)]
    assert [next(call) for call in open_ones] == [b"open"] * 3
    with pytest.raises(grpc.RpcError) as caught:
        next(start(b""))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert kubelet.raw(rpc("Status"), b"\xff") == b"echo:\xff"
    release.set()
    assert [list(call) for call in open_ones] == [[], [], []]
    assert next(start(b"")) == b"open"


@each_method
def test_without_a_runtime_the_answer_is_unavailable(
    kubelet: Client, fake: FakeRuntime, method: str
) -> None:
    """Calls fail at once, and succeed when the runtime is back."""
    fake.stop()

    def code() -> grpc.StatusCode:
        try:
            kubelet.raw(method, b"\xff")
        except grpc.RpcError as exc:
            status: grpc.StatusCode = exc.code()
            return status
        return grpc.StatusCode.OK

    assert code() is grpc.StatusCode.UNAVAILABLE
    fake.start()
    wait_until(lambda: code() is grpc.StatusCode.OK)


def test_a_runtime_that_dies_in_the_middle_of_a_call(
    kubelet: Client, fake: FakeRuntime
) -> None:
    """The caller gets an error instead of waiting for ever."""
    began = threading.Event()
    release = threading.Event()

    def answer(request: bytes, context: Any) -> bytes:
        began.set()
        release.wait(PATIENCE_S)
        return b""

    fake.answers[rpc("Status")] = answer
    call: Any = kubelet.channel.unary_unary(rpc("Status"))
    future = call.future(b"")
    assert began.wait(PATIENCE_S)
    stopper = threading.Thread(target=fake.stop)
    stopper.start()
    error = future.exception(PATIENCE_S)
    assert isinstance(error, grpc.RpcError)
    assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    release.set()
    stopper.join(PATIENCE_S)


def test_stopping_ends_streams_and_lets_calls_end(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """A call under way gets its answer; a stream ends with UNAVAILABLE."""
    began, release = threading.Event(), threading.Event()

    def answer(request: bytes, context: Any) -> bytes:
        began.set()
        assert release.wait(PATIENCE_S)
        return b"done"

    def stream(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        yield b"1"
        release.wait(PATIENCE_S)

    (events,) = SERVER_STREAMS
    fake.answers[rpc("Status")], fake.streams[events] = answer, stream
    path = str(tmp_path / "stops.sock")
    with Client(path) as client, serving(fake, path) as door:
        unary: Any = client.channel.unary_unary(rpc("Status"))
        future = unary.future(b"")
        start: Any = client.channel.unary_stream(events)
        open_one = start(b"")
        assert next(open_one) == b"1"
        assert began.wait(PATIENCE_S)
        stopper = threading.Thread(target=door.close)
        stopper.start()
        with pytest.raises(grpc.RpcError) as caught:
            next(open_one)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert caught.value.details() == forwarding.STOPPING
        release.set()
        assert future.result(PATIENCE_S) == b"done"
        stopper.join(PATIENCE_S)
    assert not os.path.exists(path)


def test_the_table_of_methods_is_cris() -> None:
    """It has two services in two versions, and no stream among the unary methods."""
    packages = {method.split("/")[1] for method in UNARY}
    assert packages == {
        f"runtime.{version}.{service}"
        for version in ("v1", "v1alpha2")
        for service in ("RuntimeService", "ImageService")
    }
    assert not UNARY & SERVER_STREAMS
    assert not [method for method in UNARY if "/Stream" in method]

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import RawPeer, Recorder, container, pod, raw_peer, update

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import ConfigError, ConnectionClosed, RequestFails, RPCError
from nriplugin.nri import FailurePolicy, Plugin, session
from nriplugin.nri.methods import METHODS, Kind
from nriplugin.wire import mux, ttrpc
from nriplugin.wire.ttrpc import Call, Client, Code

if TYPE_CHECKING:
    from collections.abc import Callable

CREATE = nri.CreateContainerRequest(pod=pod(), container=container())


class Creator(Plugin):
    """A plugin that answers CreateContainer with what the test sets."""

    def __init__(self, answer: Callable[[nri.CreateContainerRequest], Any]) -> None:
        self._answer = answer

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        response: nri.CreateContainerResponse | None = self._answer(request)
        return response


def raising(request: nri.CreateContainerRequest) -> None:
    raise RuntimeError("boom")


def annotating(size: int) -> Callable[[Any], nri.CreateContainerResponse]:
    adjust = nri.ContainerAdjustment(annotations={"pad": "x" * size})
    return lambda request: nri.CreateContainerResponse(adjust=adjust)


def test_registers_with_name_index_and_version() -> None:
    """The first call is RegisterPlugin with name, index and NRI version."""
    with raw_peer(Recorder()) as peer:
        request = peer.accept_registration()
    assert (request.plugin_name, request.plugin_idx) == ("test", "10")
    assert request.NRI_version.startswith("0.12")


def test_configure_may_come_before_the_registration_reply() -> None:
    """Configure is served before the answer to RegisterPlugin has arrived."""
    with raw_peer(Recorder()) as peer:
        registration = peer.receive()
        assert isinstance(registration, Call)
        peer.ask("Configure", nri.ConfigureRequest(), nri.ConfigureResponse)
        peer.connection.send(peer.connection.reply(registration.stream_id, b""))
        peer.ask("Synchronize", nri.SynchronizeRequest(), nri.SynchronizeResponse)


def test_refused_registration_ends_the_session() -> None:
    """An error in the answer to RegisterPlugin ends the session."""
    with raw_peer(Recorder()) as peer:
        registration = peer.receive()
        assert isinstance(registration, Call)
        peer.connection.send(
            peer.connection.failure(registration.stream_id, 2, "bad name")
        )
        peer.join()
    assert isinstance(peer.ended_with, RPCError)
    assert "bad name" in str(peer.ended_with)


def test_a_runtime_that_stays_silent_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wait for Configure and Synchronize is limited."""
    monkeypatch.setattr(session, "REGISTRATION_PATIENCE_S", 0.05)
    with raw_peer(Recorder()) as peer:
        peer.join()
    assert isinstance(peer.ended_with, ConnectionClosed)
    assert "silent" in str(peer.ended_with)


@pytest.mark.parametrize(
    ("configure", "events"),
    [
        ({"NRI_version": "0.12.5"}, 0x3FFF),
        ({"runtime_name": "containerd", "runtime_version": "v2.1.4"}, 0x07FF),
        ({"runtime_name": "cri-o", "runtime_version": "1.34.0"}, 0x3FFF),
        ({"runtime_name": "something", "runtime_version": "9.9"}, 0x07FF),
    ],
)
def test_mask_has_only_what_the_runtime_knows(
    configure: dict[str, Any], events: int
) -> None:
    """The mask has no bit that the runtime's release does not know."""
    with raw_peer(Recorder()) as peer:
        peer.accept_registration()
        request = nri.ConfigureRequest(**configure)
        assert peer.ask("Configure", request, nri.ConfigureResponse).events == events


def test_mask_has_only_what_the_plugin_handles() -> None:
    """The mask has exactly the events whose handlers the plugin defines."""
    with raw_peer(Creator(lambda request: None)) as peer:
        assert peer.begin().events == 1 << (nri.CREATE_CONTAINER - 1)


class Validator(Plugin):
    def validate_container_adjustment(self, request: object) -> None:
        return None


def test_a_runtime_that_knows_none_of_our_events_is_refused() -> None:
    """Configure fails with a reason if the mask would be zero."""
    with raw_peer(Validator()) as peer:
        peer.accept_registration()
        peer.send("Configure", nri.ConfigureRequest(runtime_name="containerd"))
        assert "none of the plugin's events" in peer.answer().reason
        peer.sock.close()
        peer.join()
    assert isinstance(peer.ended_with, ConfigError)


def test_policy_fail_is_told_to_the_runtime() -> None:
    """With the policy `fail`, the answer to Configure asks the runtime to fail."""
    plugin = Recorder()
    plugin.failure_policy = FailurePolicy.FAIL
    with raw_peer(plugin) as peer:
        assert peer.begin().failure_policy.fail_request
    with raw_peer(Recorder()) as peer:
        assert not peer.begin().HasField("failure_policy")


def test_split_synchronize_reaches_the_plugin_as_one() -> None:
    """Pieces are answered with `more`, and the plugin sees one Synchronize."""
    plugin = Recorder()
    with raw_peer(plugin) as peer:
        peer.accept_registration()
        peer.ask("Configure", nri.ConfigureRequest(), nri.ConfigureResponse)
        pieces = (
            nri.SynchronizeRequest(containers=[container(2)], more=True),
            nri.SynchronizeRequest(pods=[pod(1), pod(2)], more=True),
        )
        for piece in pieces:
            reply = peer.ask("Synchronize", piece, nri.SynchronizeResponse)
            assert reply == nri.SynchronizeResponse(more=True)
            assert plugin.synchronized == []
        last = nri.SynchronizeRequest(containers=[container(1)])
        assert not peer.ask("Synchronize", last, nri.SynchronizeResponse).more
    assert plugin.synchronized == [(["p1", "p2"], ["c2", "c1"])]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.rpc)
def test_every_method_reaches_its_handler(method: Any) -> None:
    """Every row of the table reaches the handler that it names."""
    plugin = Recorder()
    request = method.request(pod=pod())
    if method.kind is not Kind.POD_EVENT and method.rpc != "UpdatePodSandbox":
        request.container.CopyFrom(container())
    with raw_peer(plugin) as peer:
        peer.begin()
        peer.ask(method.rpc, request, method.response)
    expected = "c1" if "container" in request.DESCRIPTOR.fields_by_name else ""
    assert plugin.seen == [(method.handler, "p1", expected)]


@pytest.mark.parametrize(
    "method",
    [method for method in METHODS if method.kind is not Kind.QUESTION],
    ids=lambda method: method.rpc,
)
def test_state_change_reaches_the_same_handlers(method: Any) -> None:
    """A StateChange, as before NRI 0.12, reaches the handler of its event."""
    plugin = Recorder()
    change = nri.StateChangeEvent(event=method.event, pod=pod())
    if method.kind is Kind.CONTAINER_EVENT:
        change.container.CopyFrom(container())
    with raw_peer(plugin) as peer:
        peer.begin()
        peer.ask("StateChange", change, nri.Empty)
    expected = "c1" if method.kind is Kind.CONTAINER_EVENT else ""
    assert plugin.seen == [(method.handler, "p1", expected)]


def test_state_change_of_an_unknown_event_is_ignored() -> None:
    """A StateChange with an event of a future release is answered and ignored."""
    plugin = Recorder()
    with raw_peer(plugin) as peer:
        peer.begin()
        for event in (0, nri.CREATE_CONTAINER, 99):
            change = nri.StateChangeEvent(event=nri.Event.ValueType(event), pod=pod())
            peer.ask("StateChange", change, nri.Empty)
    assert plugin.seen == []


def test_methods_without_a_handler_are_answered_empty() -> None:
    """A known method without a handler gets an empty answer, not code 12."""
    with raw_peer(Creator(lambda request: None)) as peer:
        peer.begin()
        for method in METHODS:
            peer.ask(method.rpc, b"", method.response)
        peer.ask("StateChange", b"", nri.Empty)
        peer.ask("Shutdown", b"", nri.Empty)


@pytest.mark.parametrize(
    ("service", "method", "reason"),
    [
        ("nri.pkg.api.v1alpha1.Plugin", "Foo", "method Foo"),
        ("nri.pkg.api.v2.Plugin", "CreateContainer", "service nri.pkg.api.v2.Plugin"),
    ],
)
def test_unknown_methods_and_services_are_unimplemented(
    service: str, method: str, reason: str
) -> None:
    """Unknown methods and services get code 12."""
    with raw_peer(Recorder()) as peer:
        peer.begin()
        peer.send(method, b"", service=service)
        answer = peer.answer()
        assert (answer.code, answer.reason) == (Code.UNIMPLEMENTED, reason)
        peer.ask("CreateContainer", CREATE, nri.CreateContainerResponse)


def test_metadata_and_a_missing_timeout_are_tolerated() -> None:
    """A request may have tracing metadata and no timeout."""
    plugin = Recorder()
    with raw_peer(plugin) as peer:
        peer.begin()
        peer.ask(
            "CreateContainer",
            CREATE,
            nri.CreateContainerResponse,
            metadata={"traceparent": "00-0-0-00"},
        )
    assert plugin.seen == [("create_container", "p1", "c1")]


def test_a_view_takes_the_place_of_the_full_request() -> None:
    """A request is parsed with the message that the plugin's `views` name."""
    seen: list[object] = []
    plugin = Creator(seen.append)
    plugin.views = {"create_container": nri.StopContainerRequest}
    with raw_peer(plugin) as peer:
        peer.begin()
        peer.ask("CreateContainer", CREATE, nri.CreateContainerResponse)
    assert seen == [nri.StopContainerRequest(pod=pod(), container=container())]


@pytest.mark.parametrize("size", [0, 1, 100, 126, 127, 128, 4000, 4083, 4084, 100_000])
def test_answers_of_any_size_arrive(size: int) -> None:
    """Answers arrive whole whether they take one frame or two."""
    with raw_peer(Creator(annotating(size))) as peer:
        peer.begin()
        reply = peer.ask("CreateContainer", CREATE, nri.CreateContainerResponse)
    assert len(reply.adjust.annotations["pad"]) == size


@pytest.mark.parametrize(
    ("policy", "code"), [(FailurePolicy.IGNORE, 0), (FailurePolicy.FAIL, Code.UNKNOWN)]
)
def test_a_failing_handler_follows_the_policy(
    policy: FailurePolicy, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception gives an empty answer or a status; the next request is served."""
    plugin = Creator(raising)
    plugin.failure_policy = policy
    with raw_peer(plugin) as peer:
        peer.begin()
        for _ in range(2):
            peer.send("CreateContainer", CREATE)
            answer = peer.answer()
            assert (answer.code, answer.payload) == (code, b"")
            assert ("boom" in answer.reason) is (policy is FailurePolicy.FAIL)
        assert peer.stats.failed == 2
    assert "boom" in caplog.text


def test_a_request_that_is_to_fail_fails_whatever_the_policy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """RequestFails fails the request under any policy, and is logged in one line."""

    def refusing(request: nri.CreateContainerRequest) -> None:
        raise RequestFails("not this one")

    plugin = Creator(refusing)
    assert plugin.failure_policy is FailurePolicy.IGNORE
    with raw_peer(plugin) as peer:
        peer.begin()
        for _ in range(2):
            peer.send("CreateContainer", CREATE)
            answer = peer.answer()
            assert (answer.code, answer.payload) == (Code.UNKNOWN, b"")
            assert "not this one" in answer.reason
    assert "CreateContainer: not this one" in caplog.messages
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("policy", "code"), [(FailurePolicy.IGNORE, 0), (FailurePolicy.FAIL, Code.INTERNAL)]
)
def test_an_undecodable_payload_follows_the_policy(
    policy: FailurePolicy, code: int
) -> None:
    """A payload that cannot be parsed is treated as a handler that failed."""
    plugin = Recorder()
    plugin.failure_policy = policy
    with raw_peer(plugin) as peer:
        peer.begin()
        peer.send("CreateContainer", b"\xff\xff\xff")
        assert peer.answer().code == code
    assert plugin.seen == []


def test_an_undecodable_configure_is_always_an_error() -> None:
    """Configure gets an error: an empty answer would subscribe to all events."""
    with raw_peer(Recorder()) as peer:
        peer.accept_registration()
        peer.send("Configure", b"\xff\xff\xff")
        assert peer.answer().code == Code.INTERNAL


def test_an_answer_too_long_to_send_is_a_failure_of_the_handler() -> None:
    """An answer over 4 MiB is not sent; the failure policy applies."""
    with raw_peer(Creator(annotating(ttrpc.MAX_MESSAGE))) as peer:
        peer.begin()
        peer.send("CreateContainer", CREATE)
        assert (answer := peer.answer()).code == 0
        assert answer.payload == b""
        assert peer.stats.failed == 1


def test_harmful_updates_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """Updates without resources, or of the container in creation, are dropped."""
    answer = nri.CreateContainerResponse(
        update=[
            nri.ContainerUpdate(container_id="empty"),
            nri.ContainerUpdate(container_id="bare", linux=nri.LinuxContainerUpdate()),
            update("c1", cpu_weight="1"),
            update("other", cpu_weight="2"),
        ]
    )
    with raw_peer(Creator(lambda request: answer)) as peer:
        peer.begin()
        reply = peer.ask("CreateContainer", CREATE, nri.CreateContainerResponse)
    assert [entry.container_id for entry in reply.update] == ["other"]
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 3


def test_updates_of_the_same_container_are_kept_outside_creation() -> None:
    """An answer to UpdateContainer may update the container in question."""

    class Updater(Plugin):
        def update_container(
            self, request: nri.UpdateContainerRequest
        ) -> nri.UpdateContainerResponse:
            return nri.UpdateContainerResponse(update=[update("c1", cpu_weight="3")])

    request = nri.UpdateContainerRequest(pod=pod(), container=container())
    with raw_peer(Updater()) as peer:
        peer.begin()
        reply = peer.ask("UpdateContainer", request, nri.UpdateContainerResponse)
    assert [entry.container_id for entry in reply.update] == ["c1"]


@pytest.mark.parametrize(
    ("stream_id", "payload"), [(2, b""), (1, b""), (101, b"\xff\xff\xff")]
)
def test_a_bad_request_is_refused_and_the_next_one_served(
    stream_id: int, payload: bytes
) -> None:
    """A bad stream id or envelope gets an error on its stream."""
    with raw_peer(Recorder()) as peer:
        peer.begin()
        head = ttrpc.HEADER.pack(len(payload), stream_id, ttrpc.REQUEST, 0)
        peer.connection.client._open.add(stream_id)
        peer.connection.send(mux.pack(1, head, payload))
        answer = peer.answer()
        assert answer.stream_id == stream_id
        assert answer.code == Code.INVALID_ARGUMENT
        peer.connection.client._next_stream = 201
        peer.ask("CreateContainer", CREATE, nri.CreateContainerResponse)


def test_requests_that_arrive_together_are_answered_in_order() -> None:
    """Several requests in one read are answered in their order."""
    plugin = Recorder()
    with raw_peer(plugin) as peer:
        peer.begin()
        streams = [peer.send("StartContainer", CREATE) for _ in range(5)]
        assert [peer.answer().stream_id for _ in range(5)] == streams
    assert len(plugin.seen) == 5


def test_garbage_ends_the_session_with_a_protocol_error() -> None:
    """A header that claims 4 GiB ends the session with RemoteProtocolError."""
    with raw_peer(Recorder()) as peer:
        peer.begin()
        peer.sock.sendall(b"\xff" * 64)
        peer.join()
    assert "claims" in str(peer.ended_with)


def test_end_of_file_ends_the_session(recwarn: pytest.WarningsRecorder) -> None:
    """The end of the connection ends the session with ConnectionClosed."""
    peer = RawPeer(Recorder())
    peer.begin()
    peer.close()
    assert isinstance(peer.ended_with, ConnectionClosed)


def test_stop_ends_the_session_without_an_error() -> None:
    """`stop` ends `run` without an exception."""
    with raw_peer(Recorder()) as peer:
        peer.begin()
        peer.session.stop()
        peer.join()
    assert peer.ended_with is None


def test_a_synchronize_of_an_old_runtime_may_be_long() -> None:
    """A Synchronize of more than 4 MiB, as up to NRI 0.6.1, is accepted."""
    plugin = Recorder()
    with raw_peer(plugin) as peer:
        peer.connection.client = Client(max_message=ttrpc.MAX_REQUEST)
        peer.accept_registration()
        peer.ask("Configure", nri.ConfigureRequest(), nri.ConfigureResponse)
        many = [nri.Container(id=f"c{i}", args=["x" * 100_000]) for i in range(100)]
        request = nri.SynchronizeRequest(containers=many)
        assert request.ByteSize() > 2 * ttrpc.MAX_MESSAGE
        peer.ask("Synchronize", request, nri.SynchronizeResponse)
    assert plugin.synchronized == [([], [one.id for one in many])]

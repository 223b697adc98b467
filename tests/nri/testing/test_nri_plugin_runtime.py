"""The runtime that runs plugins in a test, and its strict mode."""

from __future__ import annotations

import logging
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import be_late

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import ConfigError, ConnectionClosed
from nriplugin.nri import FailurePolicy, Plugin
from nriplugin.nri.misspelt import HANDLERS
from nriplugin.nri.testing import (
    PluginRuntime,
    RequestRejected,
    StrictFailure,
    make_container,
    make_pod,
    make_resources,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Weight(Plugin):
    """Sets one v2 file on every new container."""

    def __init__(self, weight: str = "1") -> None:
        self.weight = weight

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse:
        response = nri.CreateContainerResponse()
        response.adjust.linux.resources.unified["cpu.weight"] = self.weight
        return response


def answering(handler: str, answer: Any) -> Plugin:
    """Return a plugin whose handler returns `answer`, or raises it."""

    def method(self: Plugin, *args: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    # A plugin needs a handler of the table; this one does nothing.
    def harmless(self: Plugin, pod: object) -> None:
        pass

    methods = {"run_pod_sandbox": harmless, handler: method}
    made: type[Plugin] = type("Mine", (Plugin,), methods)
    return made()


def live(runtime: PluginRuntime) -> None:
    """Cause every event of a container's life."""
    pod = make_pod()
    container = make_container(pod)
    runtime.run_pod_sandbox(pod)
    runtime.create_container(pod, container)
    runtime.start_container(pod, container)
    runtime.update_container(pod, container, make_resources(cpu_shares=2))
    runtime.stop_container(pod, container)
    runtime.remove_container(pod, container)


def test_a_plugin_runs_until_the_end_of_the_context() -> None:
    """The plugin answers inside of the context, and its thread has ended after it."""
    with PluginRuntime() as runtime:
        running = runtime.run_plugin(Weight("7"))
        pod = make_pod()
        created = runtime.create_container(pod, make_container(pod))
        assert created.adjust.linux.resources.unified["cpu.weight"] == "7"
        assert not running.ended
    assert running.ended
    assert not [one for one in threading.enumerate() if one.name == "nri-plugin"]


def test_a_plugin_can_be_stopped_and_run_again() -> None:
    """One instance serves a second time, with its handlers checked once."""
    plugin = Weight()
    for _ in range(2):
        with PluginRuntime() as runtime:
            runtime.run_plugin(plugin)
        assert not vars(plugin).keys() & {*HANDLERS}


def test_the_runtime_may_restart_under_the_plugin() -> None:
    """The plugin of a test dials again, as on a node."""
    with PluginRuntime() as runtime:
        runtime.run_plugin(Weight())
        runtime.stop()
        runtime.start()
        runtime.wait_for_plugin(2, timeout_s=60)


class Refusing(Weight):
    def configure(self, request: nri.ConfigureRequest) -> None:
        raise ConfigError("field x: 'y', expected z")


def test_what_run_would_raise_is_raised() -> None:
    """A plugin that refuses, or has no handlers, fails `run_plugin` with its reason."""
    with PluginRuntime() as runtime, pytest.raises(ConfigError, match="no handlers"):
        runtime.run_plugin(Plugin())
    with PluginRuntime() as runtime, pytest.raises(ConfigError, match="field x"):
        runtime.run_plugin(Refusing())
    failing = answering("synchronize", ValueError("odd"))
    failing.failure_policy = FailurePolicy.FAIL
    with (
        PluginRuntime(strict=False) as runtime,
        pytest.raises(ConnectionClosed, match="odd"),
    ):
        runtime.run_plugin(failing)
    with PluginRuntime() as runtime, pytest.raises(ConfigError, match="idx"):
        runtime.run_plugin(Weight(), idx="x")
    for strict in (True, False):
        with (
            PluginRuntime(strict=strict) as runtime,
            pytest.raises(ConfigError, match=r"class Weight, expected a .*Weight\(\)"),
        ):
            runtime.run_plugin(Weight)  # type: ignore[arg-type] # the mistake


def test_a_correct_plugin_has_no_mistakes() -> None:
    """All kinds of right answers pass in strict mode."""

    class Right(Weight):
        def synchronize(
            self, pods: object, containers: object
        ) -> Iterator[nri.ContainerUpdate]:
            update = nri.ContainerUpdate(container_id="c1")
            update.linux.resources.unified["cpu.weight"] = "2"
            yield update

        def update_container(
            self, request: nri.UpdateContainerRequest
        ) -> nri.UpdateContainerResponse:
            return nri.UpdateContainerResponse()

        def start_container(self, pod: object, container: object) -> None:
            pass

    with PluginRuntime() as runtime:
        runtime.run_plugin(Right())
        assert [update.container_id for update in runtime.updates[0]] == ["c1"]
        live(runtime)


HARMFUL = nri.ContainerUpdate(container_id="other")


async def _coroutine() -> None:
    pass


@pytest.mark.parametrize(
    ("handler", "answer", "sentence"),
    [
        (
            "create_container",
            nri.ContainerAdjustment(),
            "Mine.create_container returned ContainerAdjustment, "
            "expected CreateContainerResponse or None",
        ),
        (
            "create_container",
            _coroutine,
            "Mine.create_container returned coroutine, "
            "expected CreateContainerResponse or None",
        ),
        (
            "update_container",
            {},
            "Mine.update_container returned dict, "
            "expected UpdateContainerResponse or None",
        ),
        (
            # Both have an update, in fields of different numbers.
            "stop_container",
            nri.CreateContainerResponse(),
            "Mine.stop_container returned CreateContainerResponse, "
            "expected StopContainerResponse or None",
        ),
        (
            "start_container",
            True,
            "Mine.start_container returned bool, expected None",
        ),
        (
            "other_event",
            "x",
            "Mine.other_event returned str, expected None",
        ),
        (
            "synchronize",
            nri.SynchronizeResponse(),
            "Mine.synchronize returned SynchronizeResponse, "
            "expected an iterable of ContainerUpdate or None",
        ),
        (
            "synchronize",
            ["c1"],
            "Mine.synchronize returned an iterable with str, "
            "expected an iterable of ContainerUpdate or None",
        ),
        (
            "update_container",
            nri.UpdateContainerResponse(update=[HARMFUL]),
            "Mine.update_container returned an update of container 'other': "
            "it carries no linux.resources, which would wipe the request",
        ),
        (
            "start_container",
            ValueError("odd"),
            "Mine.start_container raised ValueError: odd",
        ),
    ],
)
def test_a_mistake_fails_the_test_with_a_sentence(
    handler: str, answer: Any, sentence: str
) -> None:
    """Each kind of mistake is raised by the call during which it was made."""

    def use(runtime: PluginRuntime) -> None:
        runtime.run_plugin(answering(handler, answer))
        live(runtime)

    with PluginRuntime() as runtime:
        with pytest.raises(StrictFailure) as failure:
            use(runtime)
        assert sentence in str(failure.value).splitlines()
        if isinstance(answer, Exception):
            assert failure.value.__cause__ is answer


def test_an_update_of_the_container_in_creation_is_a_mistake() -> None:
    """Such an update would fail the creation, so the SDK drops it."""

    class Confused(Plugin):
        def create_container(
            self, request: nri.CreateContainerRequest
        ) -> nri.CreateContainerResponse:
            response = nri.CreateContainerResponse()
            update = response.update.add(container_id=request.container.id)
            update.linux.resources.unified["cpu.weight"] = "2"
            return response

    pod = make_pod()
    with PluginRuntime() as runtime:
        runtime.run_plugin(Confused())
        with pytest.raises(StrictFailure, match="adjust it instead"):
            runtime.create_container(pod, make_container(pod))


@pytest.mark.parametrize("strict", [True, False])
def test_a_view_may_leave_the_container_out(strict: bool) -> None:
    """A handler whose view has no container may answer with updates of others."""

    class Light(Plugin):
        # It has the pod of CreateContainerRequest, under the same number.
        views = MappingProxyType({"create_container": nri.RunPodSandboxRequest})

        def create_container(  # type: ignore[override] # the view declared above
            self, request: nri.RunPodSandboxRequest
        ) -> nri.CreateContainerResponse:
            response = nri.CreateContainerResponse()
            update = response.update.add(container_id=f"of {request.pod.name}")
            update.linux.resources.unified["cpu.weight"] = "2"
            return response

    pod = make_pod("web")
    with PluginRuntime(strict=strict) as runtime:
        runtime.run_plugin(Light())
        created = runtime.create_container(pod, make_container(pod))
    assert [update.container_id for update in created.updates] == ["of web"]


def test_a_misspelt_handler_fails_before_the_plugin_runs() -> None:
    """`run_plugin` names the handler that was probably meant."""
    with PluginRuntime() as runtime:
        with pytest.raises(StrictFailure, match="did you mean create_container"):
            runtime.run_plugin(answering("creat_container", None))
        assert runtime.registrations == []


def test_a_conflict_fails_with_both_names_and_the_field() -> None:
    """Two plugins that set the same file fail the creation, as on a node."""
    pod = make_pod()
    with PluginRuntime() as runtime:
        runtime.run_plugin(Weight("1"), name="first", idx="10")
        runtime.run_plugin(Weight("2"), name="second", idx="20")
        with pytest.raises(RequestRejected) as rejected:
            runtime.create_container(pod, make_container(pod))
    assert str(rejected.value) == (
        "plugins 10-first and 20-second both set CgroupsUnified cpu.weight"
    )


def test_a_late_handler_is_a_mistake() -> None:
    """A handler that takes longer than the watchdog allows loses its answer."""
    asked = threading.Event()

    class Slow(Plugin):
        def create_container(self, request: nri.CreateContainerRequest) -> None:
            be_late(running._runner._session)
            assert asked.wait(60)

    pod = make_pod()
    with PluginRuntime() as runtime:
        running = runtime.run_plugin(Slow())
        with pytest.raises(StrictFailure, match=r"Slow: a handler took longer than"):
            runtime.create_container(pod, make_container(pod))
        asked.set()


def test_a_mistake_between_requests_fails_the_end() -> None:
    """What no call of the test can raise, the end of the context raises."""
    disconnected = r"Mine\.disconnected raised ValueError"
    with pytest.raises(StrictFailure, match=disconnected), PluginRuntime() as runtime:
        runtime.run_plugin(answering("disconnected", ValueError("odd")))


def test_a_refusal_on_purpose_is_no_mistake() -> None:
    """RequestFails rejects the request, with the words of the plugin."""
    from nriplugin.errors import RequestFails

    plugin = answering("create_container", RequestFails("not on this node"))
    pod = make_pod()
    with PluginRuntime() as runtime:
        runtime.run_plugin(plugin)
        with pytest.raises(RequestRejected, match="not on this node"):
            runtime.create_container(pod, make_container(pod))


def test_lenient_is_as_on_a_node(caplog: pytest.LogCaptureFixture) -> None:
    """Without strict mode a mistake is logged, and the container starts."""
    plugin = answering("create_container", ValueError("odd"))
    pod = make_pod()
    with caplog.at_level(logging.ERROR), PluginRuntime(strict=False) as runtime:
        runtime.run_plugin(plugin)
        created = runtime.create_container(pod, make_container(pod))
    assert created.adjust == nri.ContainerAdjustment()
    assert "the plugin's handler failed" in caplog.text
    assert not vars(plugin).keys() & {*HANDLERS}


def test_a_mistake_is_told_before_the_rejection_that_it_causes() -> None:
    """With the policy `fail` the sentence about the handler is what is raised."""
    plugin = answering("create_container", ValueError("odd"))
    plugin.failure_policy = FailurePolicy.FAIL
    pod = make_pod()
    with PluginRuntime() as runtime:
        runtime.run_plugin(plugin)
        with pytest.raises(StrictFailure, match="raised ValueError: odd"):
            runtime.create_container(pod, make_container(pod))


def test_builders_make_what_kubelet_would_ask_for() -> None:
    """Ids are unique, and a value that is not given is absent."""
    pod = make_pod("web", namespace="shop", labels={"a": "b"}, annotations={"c": "d"})
    resources = make_resources(
        cpu_shares=512,
        cpu_quota_us=50_000,
        memory_limit_bytes=1 << 20,
        unified={"memory.high": "max"},
    )
    container = make_container(pod, "app", env=["A=b"], resources=resources)
    assert (pod.namespace, pod.labels["a"], pod.annotations["c"]) == ("shop", "b", "d")
    assert container.pod_sandbox_id == pod.id
    assert container.env == ["A=b"]
    assert container.linux.resources == resources
    assert resources.cpu.period.value == 100_000
    assert len({make_pod().id, make_pod().id, pod.id}) == 3
    assert len({make_container(pod).id, container.id}) == 2
    assert make_resources() == nri.LinuxResources()
    assert not make_resources(cpu_shares=2).HasField("memory")

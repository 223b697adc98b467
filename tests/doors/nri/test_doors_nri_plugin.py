from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.nodes import plugin_on
from support.harness import connected, container, pod

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.cli.demo_scenario import play
from nriplugin.config import parse_config, read_config
from nriplugin.doors.nri.messages import name_of
from nriplugin.errors import ConfigError
from nriplugin.kube.managed import parse_managed
from nriplugin.nri import FailurePolicy

if TYPE_CHECKING:
    from pathlib import Path

APP = {"shares": 1024, "quota_us": 50_000, "limit_bytes": 1 << 28}
FILES = {
    "cpu.weight": "100",
    "cpu.max": "50000 100000",
    "memory.max": "268435456",
}


def viewed(app: nri.Container) -> view.CreateContainerRequest:
    """Return a creation parsed as the plugin's view of it."""
    request = nri.CreateContainerRequest(pod=pod(), container=app)
    return view.CreateContainerRequest.FromString(request.SerializeToString())


def viewed_update(
    asked: nri.LinuxResources, app: nri.Container | None = None
) -> view.UpdateContainerRequest:
    """Return an update parsed as the plugin's view of it."""
    request = nri.UpdateContainerRequest(
        pod=pod(), container=app or container(), linux_resources=asked
    )
    return view.UpdateContainerRequest.FromString(request.SerializeToString())


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (view.CreateContainerRequest, nri.CreateContainerRequest),
        (view.UpdateContainerRequest, nri.UpdateContainerRequest),
        (view.SynchronizeRequest, nri.SynchronizeRequest),
        (view.ContainerEvent, nri.StartContainerRequest),
        (view.ContainerEvent, nri.PostUpdateContainerRequest),
        (view.ContainerEvent, nri.RemoveContainerRequest),
    ],
)
def test_the_view_has_the_numbers_of_nri(mine: Any, theirs: Any) -> None:
    """Each field has the number and type of NRI's own message."""
    pairs = [(mine.DESCRIPTOR, theirs.DESCRIPTOR)]
    compared = 0
    while pairs:
        mine, theirs = pairs.pop()
        for field in mine.fields:
            full = theirs.fields_by_name[field.name]
            assert field.number == full.number
            assert field.is_repeated == full.is_repeated
            # Fields that the view keeps as bytes, and parses later or never.
            kept = field.type == field.TYPE_BYTES and full.type == full.TYPE_MESSAGE
            assert field.type == full.type or kept
            compared += 1
            if field.message_type and full.message_type:
                pairs.append((field.message_type, full.message_type))
    assert compared > 10


def test_a_new_container_gets_its_files(tmp_path: Path) -> None:
    """The answer has only unified keys and the record of nriplugin's values."""
    with connected(plugin_on(), tmp_path) as (runtime, _):
        adjust = runtime.create_container(pod(), container(**APP)).adjust
    assert dict(adjust.linux.resources.unified) == FILES
    managed = parse_managed(adjust.annotations["managed.cgroup2.nri.io"])
    assert managed is not None
    assert managed.files == FILES
    assert managed.others == {}
    assert managed.numbers == "1024,50000,100000,268435456"
    adjust.linux.resources.ClearField("unified")
    adjust.ClearField("annotations")
    assert (
        adjust.ByteSize()
        == nri.ContainerAdjustment(
            linux=nri.LinuxContainerAdjustment(resources=nri.LinuxResources())
        ).ByteSize()
    )


def test_explicit_v2_values_win() -> None:
    """A key that is set already is not replaced."""
    app = container(**APP)
    app.linux.resources.unified["cpu.weight"] = "7"
    response = plugin_on().create_container(viewed(app))
    assert response is not None
    unified = response.adjust.linux.resources.unified
    assert dict(unified) == {k: v for k, v in FILES.items() if k != "cpu.weight"}


def test_a_container_without_numbers_is_left_alone() -> None:
    """The answer is empty."""
    assert plugin_on().create_container(viewed(container())) is None


def test_an_update_carries_nriplugins_files_alone() -> None:
    """The runtime merges them into kubelet's request, which is not repeated."""
    asked = container(**APP).linux.resources
    asked.cpu.cpus = "0-3"
    asked.memory.swap.value = 1 << 29
    asked.unified["memory.max"] = "max"
    response = plugin_on().update_container(viewed_update(asked))
    assert response is not None
    (entry,) = response.update
    assert entry.container_id == "c1"
    files = {file: value for file, value in FILES.items() if file != "memory.max"}
    assert entry.linux.resources == nri.LinuxResources(unified=files)


def test_an_update_without_numbers_is_left_alone() -> None:
    """kubelet's cpuset-only updates have zeros everywhere, and zeros are no limits."""
    asked = nri.LinuxResources()
    asked.cpu.cpus = "2"
    for wrapped in (asked.cpu.shares, asked.cpu.quota, asked.memory.limit):
        wrapped.value = 0
    asked.cpu.period.value = 100_000  # alone, it must not lift a quota
    assert plugin_on().update_container(viewed_update(asked)) is None


METADATA = "io.kubernetes.cri-o.Metadata"


@pytest.mark.parametrize(
    ("annotations", "name"),
    [
        ({METADATA: '{"name":"app"}'}, "app"),
        ({"a": METADATA, METADATA: '{"name":"app","attempt":1}'}, "app"),
        ({"a": f'{METADATA}{{"name":"other"}}'}, ""),
        ({METADATA: "null"}, ""),
        ({METADATA: '{"name":7}'}, ""),
        ({METADATA: "{"}, ""),
        ({METADATA: "[" * 100_000}, ""),
        ({}, ""),
    ],
)
def test_a_container_without_a_name(annotations: dict[str, str], name: str) -> None:
    """CRI-O has the name in an annotation, which a pod's annotations cannot forge."""
    app = nri.Container(annotations=annotations)
    seen = view.Container.FromString(app.SerializeToString())
    assert name_of(seen) == name


def test_numbers_that_cannot_be_converted_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The container starts or fails as without nriplugin; the log has the reason."""
    with connected(plugin_on(), tmp_path) as (runtime, _):
        result = runtime.create_container(pod(), container(shares=1024, quota_us=5))
    assert not result.adjust.HasField("linux")
    assert "cpu.quota: 5, expected 1000" in caplog.text
    assert "Traceback" not in caplog.text


def test_configuration_may_come_from_the_runtime() -> None:
    """A plugin that the runtime launches has no other."""
    plugin = plugin_on()
    plugin.configure(nri.ConfigureRequest(config="failurePolicy: fail"))
    assert plugin.failure_policy is FailurePolicy.FAIL


@pytest.mark.parametrize("text", ["", "# nothing", "{}"])
def test_an_empty_configuration_is_all_defaults(text: str) -> None:
    """The defaults do no harm."""
    assert parse_config(text, "x").failure_policy is FailurePolicy.IGNORE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("failurePolcy: fail", "x: line 1: failurePolcy: unknown key"),
        (
            "failurePolicy: maybe",
            r"x: .*failurePolicy: \"maybe\", expected ignore or fail",
        ),
        ("failurePolicy: [", r"x: line \d, column \d: not YAML: "),
        ("- 1", "x: line 1: \\[1\\], expected a mapping"),
        ("failurePolicy: fail\n---\n{}", "x: 2 documents, expected one"),
        ("failurePolicy: 2020-99-99", "x: not YAML: month"),
        ("failurePolicy: !!bool x", "x: not YAML"),
        ("failurePolicy: !!timestamp x", "x: not YAML"),
        ("failurePolicy: !!python/object:os.system {}", "x: .*not YAML"),
    ],
)
def test_a_wrong_configuration_says_where(text: str, message: str) -> None:
    """One line names the field and the expected value."""
    with pytest.raises(ConfigError, match=message) as raised:
        parse_config(text, "x")
    assert "\n" not in str(raised.value)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    """A file that is missing, and one that is not text."""
    with pytest.raises(ConfigError, match=r"absent.*No such file"):
        read_config(str(tmp_path / "absent"))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary.*cannot be read"):
        read_config(str(binary))


def test_the_demo_shows_every_kind_of_pod() -> None:
    """The demo has a pod of each QoS class, an update and a removal."""
    steps = list(play())
    assert [step.event for step in steps] == [
        "RegisterPlugin",
        "CreateContainer",
        "CreateContainer",
        "CreateContainer",
        "UpdateContainer",
        "RemoveContainer",
    ]
    assert steps[1].went_out == {
        "cpu.weight": "174",
        "cpu.max": "200000 100000",
        "memory.max": str(1 << 30),
    }
    assert steps[3].went_out == {
        "cpu.idle": "1",
        "cpu.max": "max 100000",
        "memory.high": str((16 << 30) * 9 // 10 // 4096 * 4096),
    }


def test_curve_and_switch_of_the_configuration() -> None:
    """The configured curve is used, and `resources` can be off."""
    plugin = plugin_on()
    plugin.apply(parse_config("curve: kep", "test"))
    answer = plugin.create_container(viewed(container(**APP)))
    assert answer is not None
    assert answer.adjust.linux.resources.unified["cpu.weight"] == "39"
    plugin.apply(parse_config("resources: {enabled: false}", "test"))
    assert plugin.create_container(viewed(container(**APP))) is None

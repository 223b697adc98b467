"""A new handler is one module and one line of the table; nothing else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from doors.cri.fakes import Client, FakeRuntime, rpc, serving
from doors.nri.messages import container_at, creation, pod_at, unified_of
from doors.nri.nodes import configure, plugin_on
from engine.cases import APP, NODE, POD, SUFFIX, refusals
from engine.pids_handler import FOREIGN_KEY, KEY, NAME, PIDS_LIMIT, PidsLimitSettings
from support.handlers import registered_handler

from nriplugin.api import cri_pb2 as cri
from nriplugin.config import parse_config
from nriplugin.config.file import file_type
from nriplugin.engine.cache_key import deciding_keys
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import HandlerFailed
from nriplugin.engine.settings import DEFAULT_CONFIG
from nriplugin.errors import ConfigError
from nriplugin.explain import explain_pod
from nriplugin.kube.manifests import read_manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

ON = "pidsLimit: {enabled: true, most: 100}"
OURS = KEY + SUFFIX


@pytest.fixture
def _registered() -> Iterator[None]:
    with registered_handler(PIDS_LIMIT):
        yield


registered = pytest.mark.usefixtures("_registered")


@registered
def test_its_section_is_accepted_in_the_file_and_in_rules() -> None:
    """A rule changes only what it names, and a failure policy means what it does."""
    config = parse_config(
        f"""
        {ON}
        rules:
        - match: {{namespace: shop}}
          pidsLimit: {{most: 5, failurePolicy: fail}}
        """,
        "x",
    ).engine
    assert config.base.of(PidsLimitSettings) == PidsLimitSettings(True, False, 100)
    assert config.base.active == (NAME, "resources")
    [rule] = config.rules
    assert rule.settings.of(PidsLimitSettings) == PidsLimitSettings(True, True, 5)
    assert rule.settings.origin("pidsLimit.most") == "rules[0].pidsLimit.most"
    decision = decide(POD, APP, NODE, config)
    assert decision.files["pids.max"] == "5"


@registered
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pidsLimit: {mots: 1}",
            r"pidsLimit.mots: unknown key, .* did you mean 'most'",
        ),
        ("pidslimit: {}", r"pidslimit: unknown key, .* did you mean 'pidsLimit'"),
        ("pidsLimit: {most: 0}", r"pidsLimit.most: 0, expected a whole number from 1"),
        ("pidsLimit: {most: 2000}", r"pidsLimit.most: 2000, expected .* to 1000"),
        ("pidsLimit: {most: many}", r"pidsLimit.most: \"many\", expected"),
        (
            "rules: [{match: {}, pidsLimit: {x: 1}}]",
            r"rules\[0\].pidsLimit.x: unknown key",
        ),
    ],
)
def test_a_mistake_in_its_section_is_refused(text: str, message: str) -> None:
    """With the path, as for every other section."""
    with pytest.raises(ConfigError, match=message):
        parse_config(text, "x.yaml")


def test_the_table_alone_makes_the_section() -> None:
    """Without the line in the table the section is refused, and not in the schema."""
    with pytest.raises(ConfigError, match="pidsLimit: unknown key"):
        parse_config(ON, "x")
    assert NAME not in str(msgspec.json.schema(file_type()))
    with registered_handler(PIDS_LIMIT):
        assert NAME in str(msgspec.json.schema(file_type()))


@registered
def test_its_annotation_is_read_and_no_other_is() -> None:
    """The annotation wins over the file; an unknown key is still refused."""
    config = parse_config(ON, "x").engine
    pod = POD._replace(annotations={OURS: "7", "pids-most" + SUFFIX: "8"})
    decision = decide(pod, APP, NODE, config)
    assert decision.files["pids.max"] == "7"
    assert decision.why("pids.max").source == f"annotation {OURS}"
    assert refusals(decision) == {("annotations", "annotation"): 1}
    assert "pids-most" in decision.refused[0].text


def test_an_annotation_of_a_handler_that_is_off_is_not_a_mistake() -> None:
    """It is known by the table, and a note names the handler; else it is refused."""
    pod = POD._replace(annotations={OURS: "7"})
    config = parse_config("cpuBurst: {enabled: true}", "x").engine
    assert decide(pod, APP, NODE, config).refused
    with registered_handler(PIDS_LIMIT):
        config = parse_config("cpuBurst: {enabled: true}", "x").engine
        decision = decide(pod, APP, NODE, config)
    assert not decision.refused
    assert (f"annotation {OURS}", "pidsLimit: off") in decision.left


@registered
def test_its_failure_is_its_own() -> None:
    """A value that the kernel refuses stops only this handler, or fails the request."""
    pod = POD._replace(annotations={FOREIGN_KEY: "many"})
    decision = decide(pod, APP, NODE, parse_config(ON, "x").engine)
    assert refusals(decision) == {(NAME, "conversion"): 1}
    assert "cpu.max" in decision.files
    failing = parse_config(f"{ON[:-1]}, failurePolicy: fail}}", "x").engine
    with pytest.raises(HandlerFailed, match=r"pidsLimit: pids\.max"):
        decide(pod, APP, NODE, failing)


@registered
def test_explain_shows_it() -> None:
    """With its rule and the place that set the value."""
    document = {
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "app"}]},
    }
    [pod] = read_manifests([document]).pods
    [container] = explain_pod(pod, parse_config(ON, "x").engine).containers
    [file] = [one for one in container.files if one.handler == NAME]
    assert (file.file, file.value, file.rule) == ("pids.max", "100", "as given")
    assert file.source == "pidsLimit.most"


def test_the_decision_cache_keys_have_its_foreign_annotation() -> None:
    """Two pods that differ in it alone must not share a decision."""
    assert FOREIGN_KEY not in deciding_keys(DEFAULT_CONFIG).annotations
    with registered_handler(PIDS_LIMIT):
        assert FOREIGN_KEY in deciding_keys(DEFAULT_CONFIG).annotations


def through_nri(
    config: str, pods: list[Mapping[str, str]], _: Path
) -> list[dict[str, str]]:
    """Return the files of one container each in pods with these annotations."""
    plugin = plugin_on(NODE._replace(writable=False))
    configure(plugin, config)
    return [
        unified_of(
            plugin.create_container(creation(pod_at(annotations=pod), container_at()))
        )
        for pod in pods
    ]


def through_cri(
    config: str, pods: list[Mapping[str, str]], tmp_path: Path
) -> list[dict[str, str]]:
    """Return the files of one container each in pods with these annotations."""
    runtime = FakeRuntime(str(tmp_path / "runtime.sock"))
    runtime.start()
    proxy = str(tmp_path / "proxy.sock")
    try:
        with serving(runtime, proxy, NODE) as door, Client(proxy) as kubelet:
            door.apply(parse_config(config, "x"))
            for number, pod in enumerate(pods):
                sandbox = kubelet.run_pod(uid=f"u{number}", annotations=dict(pod))
                kubelet.create(sandbox, cpu_shares=512)
    finally:
        runtime.stop()
    created = runtime.requests(rpc("CreateContainer"), cri.CreateContainerRequest)
    return [dict(request.config.linux.resources.unified) for request in created]


@registered
@pytest.mark.parametrize("door", [through_nri, through_cri])
def test_both_doors_send_its_file(
    door: Callable[..., list[dict[str, str]]], tmp_path: Path
) -> None:
    """Pods that differ in its annotations alone get their own values, cached or not."""
    pods = [{}, {OURS: "7"}, {FOREIGN_KEY: "8"}, {}, {OURS: "7"}]
    files = door(ON, pods, tmp_path)
    assert [one.get("pids.max") for one in files] == ["100", "7", "8", "100", "7"]
    assert all("cpu.weight" in one for one in files)

"""kubelet's checkpoint of what it has allocated: every shape, and every wrong one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.checkpoints import checkpoint_text, enclosed, resources

from nriplugin.errors import ConfigError
from nriplugin.kube.allocations import MAX_BYTES, parse_allocations
from nriplugin.kube.quantity import MAX_INT64

MIB = 1 << 20
UID = "7b0f0a2e-5d6c-4c1f-9c39-1f5a2a0f4b11"
STATIC = "3c8d5c9a0b7e4f6d1a2b3c4d5e6f7081"


def test_requests_are_by_pod_and_container() -> None:
    """A container without a memory request has 0, and a static pod its hash."""
    text = checkpoint_text(
        {UID: {"app": "128Mi", "side": None}, STATIC: {"etcd": "104857600"}}
    )
    assert parse_allocations(text) == {
        UID: {"app": 128 * MIB, "side": 0},
        STATIC: {"etcd": 100 * MIB},
    }


@pytest.mark.parametrize(
    "data",
    [
        {"entries": {UID: {"ContainerResources": {"app": resources("64Mi")}}}},
        {"entries": {UID: {"app": resources("64Mi"), "PodLevelResources": None}}},
        {"allocationEntries": {UID: {"app": resources("64Mi")}}},
        {"entries": {UID: {"ContainerResources": {"app": resources("64Mi")}}}, "n": 1},
    ],
    ids=["1.33", "no level between", "1.32", "a field of the future"],
)
def test_the_shapes_of_all_versions_are_read(data: Any) -> None:
    """The name of the field and the level of the containers may differ."""
    assert parse_allocations(enclosed(data)) == {UID: {"app": 64 * MIB}}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, {}),
        ({"entries": None}, {}),
        ({"entries": {UID: {}}}, {UID: {}}),
        ({"entries": {UID: {"ContainerResources": None}}}, {UID: {}}),
        ({"entries": {UID: {"ContainerResources": {"a": {}}}}}, {UID: {"a": 0}}),
        ({"entries": {UID: {"a": {"requests": None}}}}, {UID: {"a": 0}}),
    ],
)
def test_what_is_absent_is_no_error(data: Any, expected: Any) -> None:
    """A node without pods has no entries, and BestEffort containers no requests."""
    assert parse_allocations(enclosed(data)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", "expected kubelet's checkpoint"),
        (b"not JSON", "malformed"),
        (checkpoint_text({UID: {"app": "1Gi"}})[:-40], "expected kubelet's checkpoint"),
        (b"[]", "Expected `object`"),
        (b'{"checksum": 1}', "missing required field `data`"),
        (b'{"data": {"entries": {}}}', "Expected `str`"),
        (b'{"data": "\\ud800"}', "expected kubelet's checkpoint"),
        (b'{"data": "\xff"}', "expected kubelet's checkpoint"),
        (enclosed([]), "Expected `object`"),
        (enclosed({"entries": {UID: []}}), "Expected `object`"),
        (enclosed({"entries": {UID: {"ContainerResources": []}}}), "got `array`"),
        (enclosed({"entries": {UID: {"app": {"requests": {"memory": 1}}}}}), "`int`"),
        (checkpoint_text({UID: {"app": "much"}}), "app: requests.memory: 'much'"),
        (checkpoint_text({UID: {"app": "-1"}}), "app: requests.memory: '-1'"),
        (b'{"data": ' + b"[" * 100_000, "expected kubelet's checkpoint"),
        (enclosed({})[:-1] + b" " * MAX_BYTES + b"}", f"more than {MAX_BYTES} bytes"),
    ],
)
def test_anything_else_is_one_error(text: bytes, expected: str) -> None:
    """Half a file, another shape, and a file that is too long are refused."""
    with pytest.raises(ConfigError) as caught:
        parse_allocations(text)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 400


def test_nesting_without_end_is_refused() -> None:
    """A text that nests deeper than any checkpoint does not end the process."""
    deep = '{"entries": {"a": {"b": ' + "[" * 200_000 + "]" * 200_000 + "}}}"
    with pytest.raises(ConfigError):
        parse_allocations(json.dumps({"data": deep}).encode())


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("0", 0),
        ("64Mi", 64 * MIB),
        ("0064Ki", 64 << 10),
        ("1.5Gi", 3 << 29),
        ("1500m", 2),
        ("1e3", 1000),
        ("3Ti", 3 << 40),
        ("9999999999Gi", MAX_INT64),
    ],
)
def test_every_quantity_is_read(memory: str, expected: int) -> None:
    """Those that kubelet writes mostly, and all others."""
    text = checkpoint_text({UID: {"app": memory}})
    assert parse_allocations(text) == {UID: {"app": expected}}


def test_no_request_is_above_what_kubernetes_counts() -> None:
    """Amounts end at 63 bits."""
    text = checkpoint_text({UID: {"app": "99999999999999999999"}})
    assert parse_allocations(text) == {UID: {"app": MAX_INT64}}

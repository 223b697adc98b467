from __future__ import annotations

from typing import Any

import pytest

from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
from nriplugin.kube.podspec import read_pod_spec
from nriplugin.kube.sent import Sent, sent_for

MI = 1 << 20


def sent(resources: dict[str, Any], pod: dict[str, Any] | None = None) -> Sent:
    container = {"name": "c", "resources": resources}
    spec = read_pod_spec({"containers": [container], "resources": pod}, "spec")
    return sent_for(spec.containers[0], spec, KubeletCapacitySettings())


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, Sent(2, 0, 100_000, 0)),
        ({"requests": {"cpu": "500m", "memory": "1Gi"}}, Sent(512, 0, 100_000, 0)),
        ({"limits": {"cpu": "1.5"}}, Sent(1536, 150_000, 100_000, 0)),
        ({"limits": {"cpu": "5m"}}, Sent(5, 1000, 100_000, 0)),
        ({"limits": {"memory": "64Mi"}}, Sent(2, 0, 100_000, 64 * MI)),
        (
            {"requests": {"cpu": 0}, "limits": {"cpu": 1}},
            Sent(2, 100_000, 100_000, 0),
        ),
        ({"limits": {"memory": "1500m"}}, Sent(2, 0, 100_000, 2)),
    ],
)
def test_what_the_kubelet_sends(resources: dict[str, Any], expected: Sent) -> None:
    """An absent request is the limit; a request of zero is zero."""
    assert sent(resources) == expected


def test_a_container_without_limits_has_those_of_its_pod() -> None:
    """Without a request, the shares are those of the pod's limit."""
    pod = {"limits": {"cpu": "2", "memory": "64Mi"}}
    assert sent({}, pod) == Sent(2048, 200_000, 100_000, 64 * MI)
    assert sent({"requests": {"cpu": "1"}}, pod).shares == 1024
    assert sent({"limits": {"cpu": "1"}}, pod) == Sent(1024, 100_000, 100_000, 64 * MI)
    assert sent({"limits": {"cpu": 0}}, pod).shares == 2

"""The curve of the node's runtime, recognised when a connection begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from doors.nri.messages import container_at, creation, existing, pod_at
from doors.nri.messages import unified_of as files_of
from doors.nri.nodes import FACTS, configure, plugin_on
from support.trees import POD, QOS

from nriplugin.api import nri_pb2 as nri
from nriplugin.convert import Curve
from nriplugin.convert.curves import weight_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.doors.nri.plugin import NodePlugin

OTHER_POD = f"{QOS}/pod11111111-2222-3333-4444-555555555555"

# A listed container: its pod's cgroup, shares, weight and `unified` values.
Listed = tuple[str, int, int, dict[str, str]]


def node_with(
    listed: Iterable[Listed], config: str = "", nri_version: str = "0.12.5"
) -> NodePlugin:
    """Return a plugin that was synchronized with containers that the node has."""
    kernel = Kernel(2, ("/kubepods", QOS, POD, OTHER_POD))
    apps: list[nri.Container] = []
    for number, (parent, shares, weight, unified) in enumerate(listed):
        path = f"{parent}/{number:064x}"
        kernel.add(path)
        kernel.files[f"{path}/cpu.weight"] = str(weight)
        apps.append(container_at(path, number, shares=shares, unified=unified))
    plugin = plugin_on(FACTS, kernel.tree)
    configure(plugin, config)
    plugin.configure(
        nri.ConfigureRequest(runtime_name="containerd", NRI_version=nri_version)
    )
    plugin.synchronize(*existing([pod_at()], apps))
    return plugin


def weight(plugin: NodePlugin, shares: int, uid: str = "new") -> str:
    """Return the weight that a new container gets."""
    request = creation(pod_at(uid=uid), container_at(number=99, shares=shares))
    return files_of(plugin.create_container(request))["cpu.weight"]


def by(curve: Curve, parent: str = POD) -> list[Listed]:
    """Return containers whose weights a runtime has computed by a curve."""
    return [(parent, shares, weight_of(shares, curve), {}) for shares in (512, 3000)]


@pytest.mark.parametrize("curve", [Curve.KEP, Curve.QUADRATIC])
def test_the_runtimes_own_curve_is_followed(
    curve: Curve, caplog: pytest.LogCaptureFixture
) -> None:
    """So weights of new and old containers compare as their shares do."""
    caplog.set_level("INFO")
    plugin = node_with(by(curve))
    assert plugin.plan.facts.curve is curve
    assert weight(plugin, 2048) == str(weight_of(2048, curve))
    assert f"curve: {curve} (2 of 2 containers" in caplog.text
    assert plugin.plan.numbers_only  # pods need not be read for it


def test_the_curve_outlives_a_reconnection() -> None:
    """Also if only containers with nriplugin's weights are left."""
    plugin = node_with(by(Curve.KEP))
    plugin.synchronize(*existing([pod_at()], []))
    assert plugin.plan.facts.curve is Curve.KEP
    assert "2 of 2 containers" in plugin.plan.facts.curve_evidence


def test_after_a_restart_the_curve_is_that_of_nriplugins_weights() -> None:
    """Another curve would change the ratio between siblings."""
    ours = [(POD, 1024, 39, {"cpu.weight": "39"}), (POD, 512, 20, {"cpu.weight": "20"})]
    assert node_with(ours).plan.facts.curve is Curve.KEP


def test_a_node_without_containers_follows_current_runtimes() -> None:
    """So does a node whose containers do not show a curve."""
    assert node_with([]).plan.facts.curve is Curve.QUADRATIC
    plugin = node_with([(POD, 512, 77, {}), ("/elsewhere", 512, 20, {})])
    assert plugin.plan.facts.curve is Curve.QUADRATIC
    assert "no container" in plugin.plan.facts.curve_evidence


def test_a_pod_that_differs_keeps_its_own_curve() -> None:
    """Weights compare siblings, and the pod's were computed by another curve."""
    listed = [
        *by(Curve.KEP, OTHER_POD),
        *by(Curve.KEP, OTHER_POD),
        *by(Curve.QUADRATIC),
    ]
    plugin = node_with(listed)
    assert plugin.plan.facts.curve is Curve.KEP
    (uid,) = plugin.plan.curves
    assert weight(plugin, 2048, uid) == str(weight_of(2048, Curve.QUADRATIC))
    assert weight(plugin, 2048) == str(weight_of(2048, Curve.KEP))
    assert uid == pod_at().uid


def test_a_configured_curve_takes_precedence() -> None:
    """The recognised curve counts again when the configuration names none."""
    listed = [
        *by(Curve.KEP, OTHER_POD),
        *by(Curve.KEP, OTHER_POD),
        *by(Curve.QUADRATIC),
    ]
    plugin = node_with(listed, "curve: proportional")
    proportional = str(weight_of(2048, Curve.PROPORTIONAL))
    for uid in ("new", pod_at().uid):
        assert weight(plugin, 2048, uid) == proportional
    assert plugin.plan.numbers_only
    configure(plugin, "")
    assert weight(plugin, 2048) == str(weight_of(2048, Curve.KEP))
    assert weight(plugin, 2048, pod_at().uid) == str(weight_of(2048, Curve.QUADRATIC))


def test_weights_set_by_nriplugin_prove_nothing() -> None:
    """Else nriplugin would follow its own curve for ever."""
    ours = [(p, s, w, {"cpu.weight": str(w)}) for p, s, w, _ in by(Curve.QUADRATIC)]
    plugin = node_with([*ours, *ours, *by(Curve.KEP)[:1]])
    assert plugin.plan.facts.curve is Curve.KEP
    assert "1 of 1 containers" in plugin.plan.facts.curve_evidence


def test_a_runtime_that_hides_unified_leaves_doubt() -> None:
    """Before NRI 0.10 nriplugin may have set a quadratic weight, but no other."""
    listed = [*by(Curve.QUADRATIC), *by(Curve.QUADRATIC), *by(Curve.KEP)[:1]]
    request = {"nri_version": "", "config": ""}
    plugin = node_with(listed, **request)
    assert plugin.plan.facts.curve is Curve.KEP


def test_the_number_of_containers_looked_at_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The runtime waits for the answer to Synchronize."""
    from nriplugin.state import learning

    monkeypatch.setattr(learning, "MAX_OBSERVED", 3)
    plugin = node_with([*by(Curve.KEP), *by(Curve.KEP), *by(Curve.QUADRATIC) * 4])
    assert "3 of 3 containers" in plugin.plan.facts.curve_evidence


def test_without_a_tree_there_is_nothing_to_recognise() -> None:
    """The facts stay as they were given."""
    plugin = plugin_on(FACTS._replace(curve=Curve.KEP))
    plugin.synchronize(*existing([pod_at()], [container_at()]))
    assert plugin.plan.facts.curve is Curve.KEP

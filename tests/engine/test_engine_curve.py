"""Recognising the curve of a node's runtime."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.convert import Curve
from nriplugin.convert.curves import weight_of
from nriplugin.engine.curve import (
    Observation,
    recognise_curve,
    recognise_or_continue,
)


@pytest.mark.parametrize(("weight", "curve"), [(39, Curve.KEP), (100, Curve.QUADRATIC)])
def test_one_container_of_one_cpu_tells(weight: int, curve: Curve) -> None:
    """1024 shares are 39 with an old runtime and 100 with a new one."""
    found = recognise_curve([Observation(1024, weight)])
    assert found.curve is curve
    assert found.certain
    assert found.evidence == (
        "1 of 1 containers of this node, such as one with 1024 shares and weight "
        f"{weight}"
    )


@given(
    st.sampled_from(Curve),
    st.lists(st.integers(1100, 100_000), min_size=1, max_size=20),
)
def test_every_curve_is_recognised(curve: Curve, shares: list[int]) -> None:
    """Containers that a runtime wrote by any curve show that curve."""
    seen = [Observation(one, weight_of(one, curve)) for one in shares]
    assert recognise_curve(seen).curve is curve


def test_siblings_come_first() -> None:
    """A pod's own containers count first, as weights compare siblings only."""
    seen = [
        Observation(1024, 39, "a"),
        *(Observation(1024, 100, "b") for _ in range(5)),
    ]
    assert recognise_curve(seen, "a").curve is Curve.KEP
    assert recognise_curve(seen, "c").curve is Curve.QUADRATIC
    assert recognise_curve(seen).curve is Curve.QUADRATIC


@pytest.mark.parametrize(
    "seen",
    [
        [],
        [Observation(1024, 39, made_by_us=True)],
        [Observation(2, 1)],  # on every curve
        [Observation(1024, 77)],  # on none
        [Observation(0, 100)],
    ],
)
def test_nothing_to_learn_from(seen: list[Observation]) -> None:
    """Without a container that shows a curve, it is quadratic, and not certain."""
    found = recognise_curve(seen)
    assert found.curve is Curve.QUADRATIC
    assert not found.certain
    assert "no container" in found.evidence


def test_a_mixture_is_not_certain() -> None:
    """The curve of most containers is taken, and it is not certain."""
    seen = [Observation(1024, 39)] * 3 + [Observation(1024, 100)]
    found = recognise_curve(seen)
    assert found.curve is Curve.KEP
    assert not found.certain
    assert found.evidence.startswith("3 of 4 containers")


def test_what_may_be_ours_counts_if_it_is_not_like_us() -> None:
    """A weight on another curve than nriplugin's fallback was not written by it."""
    found = recognise_curve([Observation(1024, 39, made_by_us=None)])
    assert found.curve is Curve.KEP
    assert found.certain
    assert "may be ours" not in found.evidence


def test_what_may_be_ours_and_is_like_us_counts_last() -> None:
    """Quadratic weights that nriplugin may have written count after all others."""
    doubtful = [Observation(1024, 100, "a", made_by_us=None)] * 5
    found = recognise_curve([*doubtful, Observation(1024, 39, "b")], "a")
    assert found.curve is Curve.KEP
    assert found.evidence.startswith("1 of 1 containers of this node")


def test_only_what_may_be_ours_is_not_certain() -> None:
    """Quadratic weights alone that nriplugin may have written leave it uncertain."""
    found = recognise_curve([Observation(1024, 100, made_by_us=None)] * 2)
    assert found.curve is Curve.QUADRATIC
    assert not found.certain
    assert found.evidence.startswith("2 of 2 containers of this node")
    assert found.evidence.endswith("weight 100, which nriplugin may have written")


def test_what_is_known_not_to_be_ours_outweighs_doubt() -> None:
    """One quadratic container that the runtime wrote makes the curve certain."""
    theirs = Observation(2048, weight_of(2048, Curve.QUADRATIC))
    found = recognise_curve([Observation(1024, 100, made_by_us=None), theirs])
    assert found.curve is Curve.QUADRATIC
    assert found.certain
    assert found.evidence.startswith("1 of 1")


def test_a_minority_of_old_containers_does_not_win() -> None:
    """After an upgrade of the runtime, a few containers still show the old curve."""
    seen = [Observation(512, 20), *[Observation(512, 59)] * 4]
    assert recognise_or_continue(seen).curve is Curve.QUADRATIC


def test_only_where_all_are_ours_do_ours_count() -> None:
    """One container that nriplugin did not write counts more than all that it did."""
    ours = [Observation(512, 20, made_by_us=True)] * 4
    assert recognise_or_continue(ours).curve is Curve.KEP
    theirs = Observation(1024, 100)
    assert recognise_or_continue([*ours, theirs]).curve is Curve.QUADRATIC
    silent = Observation(2, 1)  # on every curve
    assert recognise_or_continue([*ours, silent]).curve is Curve.KEP

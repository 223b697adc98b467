"""Which curve from shares to cpu.weight the node's runtime follows.

It is recognised from containers whose weight the runtime wrote by itself. A weight that
nriplugin wrote shows only which curve nriplugin followed, so it counts only if nothing
else does: then it is continued, to keep the ratio between siblings.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert import Curve
from nriplugin.convert.curves import weight_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# Several curves may fit; the one that current runtimes follow comes first.
_CANDIDATES = (Curve.QUADRATIC, Curve.KEP, Curve.PROPORTIONAL)


class Observation(NamedTuple):
    """The shares that a container was given, and the weight that it has."""

    shares: int
    weight: int
    pod_uid: str = ""
    # Whether nriplugin wrote the weight, which then proves nothing; None: not known.
    made_by_us: bool | None = False


class Recognised(NamedTuple):
    """A curve, the evidence for it, and whether the evidence is certain."""

    curve: Curve
    evidence: str
    certain: bool
    # Whether containers that nriplugin certainly did not write have shown it.
    native: bool = False


def recognise_curve(
    observations: Iterable[Observation], pod_uid: str | None = None
) -> Recognised:
    """Return the curve of a pod's own containers, else of the node's, else quadratic.

    Weights compare siblings only, so a pod's own containers count before all others.
    A quadratic weight that nriplugin may have written may come from nriplugin's own
    fallback, so it counts only if no other container shows a curve.
    """
    possible = [
        one for one in observations if not one.made_by_us and _distinguishes(one)
    ]
    telling = [one for one in possible if not _doubtful(one)] or possible
    if pod_uid is not None:
        siblings = [one for one in telling if one.pod_uid == pod_uid]
        if siblings:
            return _vote(siblings, "of this pod")
    if telling:
        return _vote(telling, "of this node")
    return Recognised(
        Curve.QUADRATIC,
        "no container to learn from: what current runtimes do",
        certain=False,
    )


def recognise_or_continue(observations: Iterable[Observation]) -> Recognised:
    """Return the runtime's curve, or the one that nriplugin followed before a restart.

    If nriplugin wrote the weights of all containers, none of them shows the runtime's
    curve. They show nriplugin's, and another one would change the ratio between
    siblings.
    """
    observations = list(observations)
    if any(not one.made_by_us and _distinguishes(one) for one in observations):
        return recognise_curve(observations)
    return recognise_curve([one._replace(made_by_us=None) for one in observations])


def curves_of_pods(
    observations: Iterable[Observation], node: Curve
) -> dict[str, Curve]:
    """Return, by pod UID, the curves that certainly differ from the node's."""
    observations = list(observations)
    curves: dict[str, Curve] = {}
    for uid in {one.pod_uid for one in observations}:
        of_pod = recognise_curve(observations, uid)
        if of_pod.certain and of_pod.curve is not node:
            curves[uid] = of_pod.curve
    return curves


def _fitting(one: Observation) -> list[Curve]:
    return [c for c in _CANDIDATES if weight_of(one.shares, c) == one.weight]


def _distinguishes(one: Observation) -> bool:
    """Return whether a weight fits some curves and not others."""
    return 0 < len(_fitting(one)) < len(_CANDIDATES)


def _doubtful(one: Observation) -> bool:
    return one.made_by_us is None and Curve.QUADRATIC in _fitting(one)


def _vote(telling: list[Observation], where: str) -> Recognised:
    votes: Counter[Curve] = Counter()
    for one in telling:
        votes.update(_fitting(one))
    curve = max(_CANDIDATES, key=lambda candidate: votes[candidate])
    example = next(one for one in telling if curve in _fitting(one))
    evidence = (
        f"{votes[curve]} of {len(telling)} containers {where}, such as one with "
        f"{example.shares} shares and weight {example.weight}"
    )
    if _doubtful(example):
        evidence += ", which nriplugin may have written"
    certain = votes[curve] == len(telling) and not _doubtful(example)
    native = certain and any(one.made_by_us is False for one in telling)
    return Recognised(curve, evidence, certain, native)

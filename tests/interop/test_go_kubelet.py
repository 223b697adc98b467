"""nriplugin's picture of a node's cgroups against kubelet's own functions."""

from __future__ import annotations

import json
import random
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from nriplugin.errors import ConfigError
from nriplugin.kube.capacity import node_capacity
from nriplugin.kube.capacity_levels import capacity_tree
from nriplugin.kube.kubelet import milli_cpu_to_quota, milli_cpu_to_shares
from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
from nriplugin.kube.manifests import read_manifests
from nriplugin.kube.quantity import milli, parse, value

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.kube.capacity_levels import CapacityCgroup
    from nriplugin.kube.cgroup_values import CgroupValues

# The program is built for the first test, which takes minutes.
pytestmark = [pytest.mark.needs_go, pytest.mark.timeout(3600)]

PODS = 5000
NODES = 200
QUANTITIES = 10_000
MEMORY = 64 << 30
PERIODS = (100_000, 100_000, 10_000, 1000, 1_000_000, 33_333)
# CPU as kubelet and people write it; memory in all sorts of units.
CPU = ("0", "1m", "2m", "7m", "33m", "250m", "0.5", "1", "1.5", "2", "46", "1e-1", "1u")
RAM = ("0", "1", "4096", "64Mi", "128Mi", "100M", "1Gi", "1.5Gi", "0.3Gi", "1e9", "3k")


def ask(program: Path, queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return kubelet's answers, one per query."""
    done = subprocess.run(
        [program],
        input="".join(json.dumps(query) + "\n" for query in queries),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(queries)
    return answers


def amounts(guess: random.Random, likely: float = 0.6) -> dict[str, str]:
    """Return amounts of CPU and memory, each of them or not."""
    found = {}
    for name, some in (("cpu", CPU), ("memory", RAM)):
        if guess.random() < likely:
            number = guess.randrange(1, 5000)
            other = f"{number}m" if name == "cpu" else f"{number}Ki"
            found[name] = guess.choice((guess.choice(some), other))
    return found


def resources(guess: random.Random) -> dict[str, Any]:
    """Return requests and limits that the API server would accept."""
    limits = amounts(guess)
    if guess.random() < 0.3:
        return {"limits": limits, "requests": dict(limits)}
    requests = {
        name: amount
        for name, amount in amounts(guess).items()
        if name not in limits or parse(amount) <= parse(limits[name])
    }
    return {"limits": limits, "requests": requests}


def container(guess: random.Random, name: str, **more: str) -> dict[str, Any]:
    given = {} if guess.random() < 0.1 else {"resources": resources(guess)}
    return {"name": name, **given, **more}


def random_pod(guess: random.Random, uid: str) -> dict[str, Any]:
    """Return a pod with init containers, sidecars, overhead and own resources."""
    spec: dict[str, Any] = {
        "containers": [
            container(guess, f"app{number}") for number in range(guess.randrange(1, 4))
        ]
    }
    if guess.random() < 0.5:
        spec["initContainers"] = [
            container(
                guess,
                f"init{number}",
                **({"restartPolicy": "Always"} if guess.random() < 0.5 else {}),
            )
            for number in range(guess.randrange(1, 4))
        ]
    if guess.random() < 0.3:
        spec["overhead"] = amounts(guess)
    if guess.random() < 0.3:
        spec["resources"] = {} if guess.random() < 0.1 else resources(guess)
    return {"kind": "Pod", "metadata": {"name": uid, "uid": uid}, "spec": spec}


def written(values: CgroupValues) -> dict[str, Any]:
    """Return the numbers of a cgroup in the program's words."""
    numbers = {
        "shares": values.shares,
        "quota": values.quota_us,
        "period": values.period_us,
        "memory": values.memory_limit_bytes,
        "unified": values.unified or None,
    }
    return {name: number for name, number in numbers.items() if number is not None}


def kubepods_of(
    pods: list[dict[str, Any]], settings: KubeletCapacitySettings
) -> CapacityCgroup:
    """Return nriplugin's picture of a node with pods."""
    node = node_capacity({"cpu": 64, "memory": MEMORY}, settings)
    tree = capacity_tree(node, settings, read_manifests(pods).pods)
    assert tree.kubepods is not None
    return tree.kubepods


def pod_in(kubepods: CapacityCgroup) -> CapacityCgroup:
    """Return the only pod of a node."""
    above = [kubepods, *(one for one in kubepods.children if one.level == "qos")]
    (pod,) = (one for level in above for one in level.children if one.level == "pod")
    return pod


def test_pods_have_the_numbers_of_kubelet(kubelet_values: Path) -> None:
    """A pod has kubelet's class, sums, shares, quota, limit and memory QoS."""
    guess = random.Random(4)
    queries: list[dict[str, Any]] = []
    settings = []
    for number in range(PODS):
        query: dict[str, Any] = {
            "pod": random_pod(guess, f"u{number}"),
            "period": guess.choice(PERIODS),
            "quota": guess.random() < 0.9,
            "tiered": guess.random() < 0.5,
            "factor": guess.choice((None, 0.9, 0.8, 0.33, 1.0)),
        }
        queries.append(query)
        settings.append(
            KubeletCapacitySettings(
                cpu_cfs_quota=query["quota"],
                cpu_cfs_quota_period_us=query["period"],
                memory_qos=True,
                memory_reservation_policy=(
                    "TieredReservation" if query["tiered"] else "None"
                ),
                memory_throttling_factor=query["factor"],
            )
        )
    answers = ask(kubelet_values, queries)
    for query, using, theirs in zip(queries, settings, answers, strict=True):
        pod = pod_in(kubepods_of([query["pod"]], using))
        ours = {
            "qos": pod.qos,
            "requests": dict(zip(("cpu", "memory"), pod.requests, strict=True)),
            "limits": dict(zip(("cpu", "memory"), pod.limits, strict=True)),
            "cgroup": written(pod.values),
        }
        assert ours == theirs, query
    assert {answer["qos"] for answer in answers} == {
        *("Guaranteed", "Burstable", "BestEffort")
    }


def test_classes_have_the_numbers_of_kubelet(kubelet_values: Path) -> None:
    """The cgroups of QoS classes have kubelet's shares, limits and protection."""
    guess = random.Random(40)
    queries, trees = [], []
    for number in range(NODES):
        pods = [random_pod(guess, f"u{number}-{n}") for n in range(guess.randrange(9))]
        percent = guess.choice((None, 0, 33, 50, 100))
        tiered = guess.random() < 0.5
        settings = KubeletCapacitySettings(
            memory_qos=True,
            memory_reservation_policy="TieredReservation" if tiered else "None",
            qos_reserved={} if percent is None else {"memory": percent},
            feature_gates={"QOSReserved": True},
        )
        trees.append(kubepods_of(pods, settings))
        query = {"pods": pods, "memory": MEMORY, "tiered": tiered, "percent": percent}
        queries.append(query)
    for query, kubepods, answer in zip(
        queries, trees, ask(kubelet_values, queries), strict=True
    ):
        theirs = answer["classes"]
        for one in kubepods.children:
            if one.level != "qos":
                continue
            ours = written(one.values)
            # kubelet writes protection once at its start where it is none, and leaves
            # it out on a machine with cgroup v1, which the one of this test may be.
            unified = ours.pop("unified", None)
            assert theirs[one.name].pop("unified", unified) == unified, query
            assert ours == theirs[one.name], query
        unified = kubepods.values.unified
        assert theirs["Guaranteed"].pop("unified", unified) == unified, query


def test_quantities_are_those_of_kubernetes(kubelet_values: Path) -> None:
    """A quantity has the thousandths and units that Kubernetes reads, or is refused."""
    guess = random.Random(400)
    suffixes = ("", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "E-2")
    texts = [*CPU, *RAM, "", "1.", ".5", "+1", "1K", "1 Gi", "0x1", "1e"]
    for _ in range(QUANTITIES):
        whole = str(guess.randrange(10 ** guess.randrange(1, 7)))
        tail = f".{guess.randrange(1000):03}" if guess.random() < 0.4 else ""
        texts.append(whole + tail + guess.choice(suffixes))
    answers = ask(kubelet_values, [{"quantity": text} for text in texts])
    for text, theirs in zip(texts, answers, strict=True):
        try:
            ours: dict[str, int] | None = {"milli": milli(text), "value": value(text)}
        except ConfigError:
            ours = None
        if ours is not None and max(ours.values()) >= 1 << 63:
            continue  # more than 64 bits, which nriplugin refuses in `resources`
        assert ours == (None if "error" in theirs else theirs), text


def test_shares_and_quotas_are_those_of_kubelet(kubelet_values: Path) -> None:
    """Thousandths of a CPU have kubelet's shares and quota, at every period."""
    millis = [*range(3000), 45_999, 46_000, 255_999, 256_000, 256_001, 1_000_000]
    queries = [
        {"milli": number, "period": period}
        for number in millis
        for period in set(PERIODS)
    ]
    for query, theirs in zip(queries, ask(kubelet_values, queries), strict=True):
        shares = milli_cpu_to_shares(query["milli"])
        quota = milli_cpu_to_quota(query["milli"], query["period"])
        assert {"shares": shares, "quota": quota} == theirs, query


def test_thresholds_are_those_of_kubelet(kubelet_values: Path) -> None:
    """A hard eviction threshold reserves kubelet's amount, as a share or as bytes."""
    guess = random.Random(4000)
    queries: list[dict[str, Any]] = []
    for _ in range(2000):
        share = f"{guess.choice((guess.randrange(1, 99), guess.uniform(0.1, 99))):.4g}%"
        memory = guess.randrange(1 << 30, 1 << guess.randrange(31, 43))
        given = guess.choice((share, f"{guess.randrange(1, 1000)}Mi"))
        queries.append({"threshold": given, "memory": memory})
    for query, theirs in zip(queries, ask(kubelet_values, queries), strict=True):
        settings = KubeletCapacitySettings(
            eviction_hard={"memory.available": query["threshold"]}
        )
        node = node_capacity({"memory": query["memory"]}, settings)
        assert node.eviction["memory"] == theirs["value"], query

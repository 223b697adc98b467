"""The node's part of a sample: the use of its CPUs, and its swap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgroup.kernels import Kernel

from nriplugin.engine.policies import Measure
from nriplugin.node.policy_samples import PolicySampler

if TYPE_CHECKING:
    from pathlib import Path

NEEDS = frozenset({Measure.NODE_CPU, Measure.SWAP})


def test_a_container_reads_its_own_proc_where_the_hosts_is_not_mounted(
    tmp_path: Path,
) -> None:
    """As in the DaemonSet, which mounts a few directories below /host and no /proc.

    Without these numbers no use of the node's CPUs would take back a burst.
    """
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    sampler = PolicySampler(Kernel().tree, str(tmp_path))
    ticks = sampler.cpu_ticks()
    assert ticks is not None
    assert 0 < ticks[0] < ticks[1]
    assert sampler.node(NEEDS).swap_bytes is not None


def test_the_hosts_proc_counts_where_it_is_mounted(tmp_path: Path) -> None:
    """It is the machine's, whatever covers the container's own."""
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "stat").write_text("cpu  100 0 100 700 100 0 0 0 50 0\n")
    (proc / "meminfo").write_text("SwapTotal: 2048 kB\n")
    sampler = PolicySampler(Kernel().tree, f"{tmp_path}/")
    assert sampler.node(NEEDS).cpu_share is None
    (proc / "stat").write_text("cpu  200 0 150 750 100 0 0 0 99 0\n")
    sample = sampler.node(NEEDS)
    assert (sample.cpu_share, sample.swap_bytes) == (0.75, 2 << 20)

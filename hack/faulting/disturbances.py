"""What goes wrong: one function each, named as it is reported.

A disturbance returns after it is over: processes run again, the disk is writable. Each
gets the node and a source of randomness.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from support.jumping_clock import DAY_S, set_ahead

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from faulting.played_node import PlayedNode

STOPPED_S = 3.0
STATE_SIZE = "8m"


class Disturbance(NamedTuple):
    """Something that goes wrong."""

    name: str
    act: Callable[[PlayedNode, Random], None]
    # How many times the connection between plugin and runtime ends: exactly so many,
    # or None if that depends on what is going on.
    cuts: int | None = 0
    new_process: bool = False  # of the plugin
    # Whether the new process has to say that the one before it was killed.
    killed: bool = False
    mount: bool = False  # needs the state directory to be a file system of its own


def _pause(random: Random) -> None:
    time.sleep(random.uniform(0, 1.5))


def kill_plugin(node: PlayedNode, random: Random) -> None:
    """The plugin is killed (-9) and started again."""
    assert node.plugin
    node.plugin.kill()
    _pause(random)
    node.start_plugin()


def end_plugin(node: PlayedNode, random: Random) -> None:
    """The plugin gets SIGTERM and is started again."""
    assert node.plugin
    if code := node.plugin.terminate():
        raise AssertionError(f"SIGTERM: exit code {code}")
    _pause(random)
    node.start_plugin()


def kill_runtime(node: PlayedNode, random: Random) -> None:
    """The runtime is killed (-9) and started again."""
    node.kill_runtime()
    _pause(random)
    node.start_runtime()


def kill_both(node: PlayedNode, random: Random) -> None:
    """Both are killed (-9), and started in either order."""
    assert node.plugin
    node.plugin.kill()
    node.kill_runtime()
    starts: list[Callable[[], object]] = [node.start_plugin, node.start_runtime]
    random.shuffle(starts)
    for start in starts:
        start()
        _pause(random)


def stop_plugin(node: PlayedNode, _: Random) -> None:
    """The plugin does not run for 3 s, longer than the runtime waits."""
    assert node.plugin
    node.plugin.process.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED_S)
    node.plugin.process.send_signal(signal.SIGCONT)


def remove_sockets(node: PlayedNode, random: Random) -> None:
    """The runtime dies, and the directory of its socket with it, for a while."""
    node.kill_runtime()
    shutil.rmtree(node.sockets)
    _pause(random)
    node.sockets.mkdir()
    node.start_runtime()


def drift(node: PlayedNode, random: Random) -> None:
    """Another program changes values of some containers, of each only once.

    A second time, the plugin would wait a minute before it repairs the file.
    """
    specs = [one for one in node.containers().values() if one["id"] not in node.drifted]
    for spec in random.sample(specs, min(5, len(specs))):
        node.drifted.add(spec["id"])
        cgroup = node.cgroups / spec["linux"]["cgroupsPath"].lstrip("/")
        # A container may be removed meanwhile; open() would make the file anew.
        for name, text in (("cpu.weight", "77\n"), ("cpu.max.burst", "1000\n")):
            try:
                fd = os.open(cgroup / name, os.O_WRONLY | os.O_TRUNC)
            except FileNotFoundError:
                continue
            with os.fdopen(fd, "w") as file:
                file.write(text)


def reload(node: PlayedNode, random: Random) -> None:
    """A wrong configuration is written, and then a right one."""
    good = node.config.read_text()
    _replace(node, "curve: [\n")
    _pause(random)
    _replace(node, good + "# reloaded\n")


def _replace(node: PlayedNode, text: str) -> None:
    new = node.config.with_suffix(".new")
    new.write_text(text)
    new.replace(node.config)


def corrupt_journal(node: PlayedNode, random: Random) -> None:
    """The plugin is killed, and garbage is where its journal was."""
    assert node.plugin
    node.plugin.kill()
    for path in sorted(node.state.glob("journal.db*")):
        path.write_bytes(random.randbytes(3000))
    node.start_plugin()


def read_only_state(node: PlayedNode, random: Random) -> None:
    """The plugin starts with a state directory that is read-only for a while."""
    assert node.plugin
    node.plugin.kill()  # which has files open for writing
    _mount(node, "remount,ro")
    try:
        node.start_plugin()
        time.sleep(STOPPED_S)
    finally:
        _mount(node, f"remount,rw,size={STATE_SIZE}")


def fill_disk(node: PlayedNode, random: Random) -> None:
    """The disk of the state directory is full for a while."""
    filler = node.state / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        pass
    _pause(random)
    filler.unlink()


def jump_clock(node: PlayedNode, random: Random) -> None:
    """The plugin's wall clock is set a day ahead, a day back, and right again."""
    for days in random.sample((1, -1), 2):
        set_ahead(node.clock, days * DAY_S)
        _pause(random)
    set_ahead(node.clock, 0)


def mount_state(node: PlayedNode) -> bool:
    """Make the state directory a small file system; return whether that is possible."""
    return _mount(node, f"size={STATE_SIZE}", check=False)


def _mount(node: PlayedNode, options: str, *, check: bool = True) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(node.state)]
    done = subprocess.run(command, check=check, capture_output=True)
    return not done.returncode


DISTURBANCES = (
    Disturbance("plugin killed", kill_plugin, new_process=True, killed=True),
    Disturbance("plugin ended", end_plugin, new_process=True),
    Disturbance("runtime killed", kill_runtime, cuts=1),
    Disturbance("both killed", kill_both, new_process=True, killed=True),
    Disturbance("plugin stopped 3 s", stop_plugin, cuts=None),
    Disturbance("socket directory", remove_sockets, cuts=1),
    Disturbance("drift", drift),
    Disturbance("reload", reload),
    Disturbance("clock jumps", jump_clock),
    Disturbance("corrupt journal", corrupt_journal, new_process=True, killed=True),
    Disturbance("state read-only", read_only_state, new_process=True, mount=True),
    Disturbance("disk full", fill_disk, mount=True),
)

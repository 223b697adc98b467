"""kubelet's checkpoint: what it adds to a request, and what reading it costs.

request    CreateContainer in this process with memoryQoS on, without a checkpoint and
           with one, for containers that are all alike and for containers of pods that
           all have another request
file       the parser, which holds the interpreter lock, and the time from a rename
           until the requests are published, which a thread of its own takes

Every figure is a median.
"""

from __future__ import annotations

import argparse
import queue
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import TYPE_CHECKING

from benches.tables import add_output_options, print_result
from doors.nri.messages import container_at, creation, pod_at
from engine.cases import NODE
from support.checkpoints import checkpoint_text

from nriplugin.config import parse_config
from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.checkpoint_watch import REST_S, CheckpointWatch
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.doors.nri.responses import adjustment
from nriplugin.kube.allocations import parse_allocations
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable

PODS = 500
TURNS = 40
TITLES = {
    "request": f"CreateContainer, memoryQoS on, {PODS} pods; microseconds",
    "file": f"a checkpoint of {PODS} pods with two containers each; milliseconds",
}
NAME = "/allocated_pods_state"


def uid_of(number: int) -> str:
    """Return the UID of a pod."""
    return f"7b0f0a2e-5d6c-4c1f-9c39-{number:012x}"


def text_of(shift: int, *, alike: bool) -> bytes:
    """Return a checkpoint, in which all pods or none have the same request."""
    return checkpoint_text(
        {
            uid_of(number): dict.fromkeys(
                ("app", "side"), f"{64 + shift + (0 if alike else number)}Mi"
            )
            for number in range(PODS)
        }
    )


def requests_us(*, with_checkpoint: bool, alike: bool) -> float:
    """Return the time of a CreateContainer."""
    facts = NODE._replace(writable=False)
    plugin = NodePlugin(Lifecycle(BackgroundThread(), facts, render=adjustment))
    plugin.lifecycle.requests.watch = lambda path: None
    plugin.apply(parse_config("memoryQoS: {enabled: true}", "bench"))
    if with_checkpoint:
        plugin.lifecycle.requests.publish(parse_allocations(text_of(0, alike=alike)))
    app = container_at(oom_score=999)
    requests = [
        creation(pod_at(id=f"p{number}", uid=uid_of(number)), app)
        for number in range(PODS)
    ]
    found = []
    for _ in range(TURNS):
        plugin.lifecycle.inventory.replace({}, {})
        begin = perf_counter()
        for request in requests:
            plugin.create_container(request)
        found.append((perf_counter() - begin) / PODS * 1e6)
    return median(found)


def timed_ms(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    begin = perf_counter()
    work()
    return (perf_counter() - begin) * 1e3


def parse_ms() -> float:
    """Return how long the parser takes."""
    text = text_of(0, alike=False)
    return median(timed_ms(lambda: parse_allocations(text)) for _ in range(TURNS))


def publish_ms() -> float:
    """Return how long after its rename a checkpoint is published."""
    published: queue.SimpleQueue[float] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory() as directory:
        # The moment is taken by the thread that publishes: on a busy machine, this one
        # may go on only later.
        watch = CheckpointWatch(directory, lambda _: published.put(perf_counter()))
        watch.configure(NAME)
        published.get()  # that there is none
        found = []
        for turn in range(TURNS):
            written, path = Path(f"{directory}{NAME}.new"), Path(directory + NAME)
            written.write_bytes(text_of(turn + 1, alike=False))
            sleep(2 * REST_S)  # the thread rests after each look
            began = perf_counter()
            written.replace(path)
            found.append((published.get() - began) * 1000)
        watch.stop()
    return median(found)


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(
        prog="hack/bench checkpoint",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_output_options(parser)
    args = parser.parse_args()
    rows = {
        "without": {"us": requests_us(with_checkpoint=False, alike=True)},
        "alike": {"us": requests_us(with_checkpoint=True, alike=True)},
        "different": {"us": requests_us(with_checkpoint=True, alike=False)},
    }
    file = {"parse": {"ms": parse_ms()}, "rename to published": {"ms": publish_ms()}}
    print_result({"request": rows, "file": file}, TITLES, args.output, (22, 12))


if __name__ == "__main__":
    main()

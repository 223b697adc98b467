"""Makes, updates and removes containers by crictl in the guest, while things break.

usage: guest_faults.py POD_ID CONTAINER_CONFIG POD_CONFIG SIZES_JSON

A line `pause` on standard input is answered by one line of JSON, when nothing is half
done: the size of each container by its ID, how many calls there were, and what failed
although the runtime answered. `many N`, during a pause, makes so many containers at the
same time, and is answered alike. A line `go` is answered by `null`, and the stream goes
on. What fails because the runtime is gone is done again, or cleaned up.
"""

from __future__ import annotations

import json
import queue
import random
import subprocess
import sys
import threading
import time

MOST = 4
# What crictl says if there is no runtime, or if it ends during the call.
GONE = (
    *("connection refused", "no such file", "connection error", "error reading from"),
    *("transport", "EOF", "Unavailable", "connection reset", "validate service"),
)


class RuntimeGone(Exception):
    """The runtime did not answer."""


class Stream:
    """The containers there are, and their sizes."""

    def __init__(self, pod: str, config: str, pod_config: str, sizes: str) -> None:
        self.pod, self.pod_config = pod, pod_config
        with open(config, encoding="utf-8") as file:
            self.config = json.load(file)
        self.sizes: list[dict[str, int]] = json.loads(sizes)
        self.random = random.Random(1)
        self.number = self.calls = 0
        self.wanted: dict[str, int] = {}
        self.failed: list[str] = []

    def crictl(self, *args: str) -> str:
        """Run crictl; a failure that the runtime reports is kept.

        Raises:
            RuntimeGone: there was no answer.
        """
        self.calls += 1
        done = subprocess.run(
            ["crictl", *args], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return done.stdout.strip()
        if any(text in done.stderr for text in GONE):
            raise RuntimeGone(done.stderr)
        self.failed.append(f"{args[0]}: {done.stderr.strip()}")
        return ""

    def step(self) -> None:
        """Make, update or remove one container."""
        choice = self.random.random()
        size = self.random.randrange(len(self.sizes))
        if not self.wanted or (choice < 0.5 and len(self.wanted) < MOST):
            self.make(size)
            return
        name = self.random.choice(list(self.wanted))
        if choice < 0.8:
            self.update(name, size)
        else:
            self.remove(name)

    def make(self, size: int) -> None:
        """Create and start a container; one that is half made is removed."""
        self.start(size, *self.configured(size))

    def make_many(self, count: int) -> None:
        """Create and start so many containers at the same time."""
        threads = []
        for _ in range(count):
            size = self.random.randrange(len(self.sizes))
            arguments = (size, *self.configured(size))
            threads.append(threading.Thread(target=self.start, args=arguments))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def configured(self, size: int) -> tuple[str, str]:
        """Write what crictl reads about a new container; return its name and path."""
        self.number += 1
        name = f"stream-{self.number}"
        self.config["metadata"]["name"] = name
        self.config["linux"]["resources"].update(self.sizes[size])
        path = f"/tmp/{name}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.config, file)
        return name, path

    def start(self, size: int, name: str, path: str) -> None:
        """Create and start a configured container; one that is half made is removed."""
        try:
            made = self.crictl("create", "--no-pull", self.pod, path, self.pod_config)
            if made and self.crictl("start", made):
                self.wanted[made] = size
        except RuntimeGone:
            listed = self.again("ps", "-a", "-q", "--name", f"^{name}$")
            for found in listed.split():
                self.again("rm", "-f", found)

    def update(self, container: str, size: int) -> None:
        """Update a container, until the runtime has answered."""
        numbers = self.sizes[size]
        self.wanted[container] = size
        self.again(
            "update",
            *("--cpu-share", str(numbers["cpu_shares"])),
            *("--cpu-quota", str(numbers["cpu_quota"])),
            *("--cpu-period", str(numbers["cpu_period"])),
            *("--memory", str(numbers["memory_limit_in_bytes"]), container),
        )

    def remove(self, container: str) -> None:
        """Remove a container, until the runtime has answered."""
        del self.wanted[container]
        self.again("rm", "-f", container)

    def again(self, *args: str) -> str:
        """Run crictl until the runtime answers."""
        while True:
            try:
                return self.crictl(*args)
            except RuntimeGone:
                time.sleep(0.5)


def main() -> None:
    """Go on until standard input ends."""
    stream = Stream(*sys.argv[1:])
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line.strip())
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    paused = False
    while True:
        try:
            line = lines.get(block=paused)
        except queue.Empty:
            stream.step()
            continue
        if not line:
            return
        paused = line != "go"
        if line.startswith("many "):
            stream.make_many(int(line.split()[1]))
        state = {
            "wanted": stream.wanted,
            "calls": stream.calls,
            "failed": stream.failed,
        }
        print(json.dumps(state if paused else None), flush=True)


if __name__ == "__main__":
    main()

"""When a pool's threads are all held by jobs that do not come back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from support.harness import wait_until

from nriplugin.doors.cri.overdue import OverdueJobs


def test_a_pool_is_stuck_when_its_last_thread_is() -> None:
    """Jobs that wait in the queue hold no thread; a job that ends frees one."""
    now, let_go = 100.0, [threading.Event() for _ in range(3)]
    overdue = OverdueJobs(2, lambda: now)
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(event.wait, 60) for event in let_go]
        wait_until(lambda: jobs[0].running() and jobs[1].running())
        overdue.add(jobs[0])
        now = 110.0
        overdue.add(jobs[2])
        assert overdue.occupied_s == 0
        overdue.add(jobs[1])
        now = 115.0
        assert overdue.occupied_s == 5
        let_go[0].set()  # its thread goes on with the job in the queue
        wait_until(lambda: jobs[2].running())
        assert overdue.occupied_s == 5
        let_go[1].set()
        wait_until(lambda: jobs[1].done())
        assert overdue.occupied_s == 0
        let_go[2].set()

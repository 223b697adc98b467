from __future__ import annotations

import signal
import sys
import threading
import time

from support.harness import PATIENCE_S

from nriplugin.stopping import StopFlag, stopping_on_signals


def test_a_signal_that_another_thread_receives_ends_the_wait() -> None:
    """The kernel may choose any thread, and the main thread is not interrupted then."""
    flag = StopFlag()
    found: list[bool] = []

    def interrupt() -> None:
        main = threading.main_thread().ident
        assert main is not None
        while sys._current_frames()[main].f_code is not StopFlag.wait.__code__:
            time.sleep(0.005)
        time.sleep(0.1)  # until the main thread is blocked, which no frame shows
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        while not flag.is_set() and time.monotonic() < deadline:
            time.sleep(0.005)
        found.append(flag.is_set())
        flag.set()

    with stopping_on_signals(flag.set):
        thread = threading.Thread(target=interrupt)
        thread.start()
        assert flag.wait()
        thread.join()
    assert found == [True]


def test_nothing_is_left_of_the_listening_thread() -> None:
    """The thread, its socket and the handlers are gone at the end."""
    before = signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1)
    with stopping_on_signals(lambda: None):
        pass
    assert (signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1)) == before
    assert "signals" not in [thread.name for thread in threading.enumerate()]

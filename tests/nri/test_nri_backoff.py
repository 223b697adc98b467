from __future__ import annotations

from nriplugin.nri.backoff import FIRST_S, GOOD_S, LAST_S, SHORT_CONNECTIONS, Backoff


def test_waits_double_up_to_a_limit_and_jitter() -> None:
    """Each wait is at least half of the doubled wait, and never above the limit."""
    backoff = Backoff()
    for attempt in range(1, 100):
        longest = min(FIRST_S * 2**attempt, LAST_S)
        assert longest / 2 <= backoff.next_delay_s(None) <= longest


def test_a_good_connection_starts_over() -> None:
    """After a connection that lasted, the first wait is short again."""
    backoff = Backoff()
    for _ in range(10):
        backoff.next_delay_s(None)
    assert backoff.next_delay_s(GOOD_S) <= FIRST_S


def test_connections_that_keep_ending_at_once_wait_longer() -> None:
    """Short connections cost the runtime a Synchronize each, so the waits grow."""
    backoff = Backoff()
    for _ in range(SHORT_CONNECTIONS):
        assert backoff.next_delay_s(0.1) <= FIRST_S
    delays = [backoff.next_delay_s(0.1) for _ in range(10)]
    assert delays[-1] >= LAST_S / 2
    assert backoff.next_delay_s(GOOD_S) <= FIRST_S

"""When a member is idle: by its own intervals between polls."""

from __future__ import annotations

from sharegroup.gateway.sessions.poll_rhythm import PollRhythm

LEAST, MOST = 500, 10_000


def polled(*pauses_ms: int, records: int = 50) -> tuple[PollRhythm, int]:
    """A member that was away for each of these times in turn; and when it left for the last time."""
    rhythm, now_ms = PollRhythm(), 0
    for pause_ms in (*pauses_ms, 0):
        rhythm.came(now_ms)
        rhythm.went(records, now_ms)
        now_ms += pause_ms
    return rhythm, now_ms


def idle_after(rhythm: PollRhythm, now_ms: int) -> int:
    """How long it may be away."""
    return next(ms for ms in range(MOST + 1) if rhythm.is_idle(now_ms + ms, LEAST, MOST))


def test_nobody_is_idle_who_has_not_left() -> None:
    rhythm = PollRhythm()
    assert not rhythm.is_idle(10**9, LEAST, MOST)
    rhythm.came(0)
    assert not rhythm.is_idle(10**9, LEAST, MOST)
    rhythm.came(1)
    rhythm.went(50, 2)
    assert not rhythm.is_idle(10**9, LEAST, MOST)
    rhythm.went(50, 3)
    assert rhythm.is_idle(10**9, LEAST, MOST)


def test_several_of_its_own_intervals() -> None:
    assert idle_after(*polled()) == MOST
    assert idle_after(*polled(1, 1, 1)) == LEAST
    assert idle_after(*polled(1_000)) == 4_000
    assert idle_after(*polled(5_000, 5_000)) == MOST


def test_one_longer_pause_counts_at_once_and_is_forgotten_slowly() -> None:
    assert idle_after(*polled(200, 200, 200, 2_000)) == 8_000
    assert idle_after(*polled(200, 200, 200, 2_000, 200)) == 4_400
    assert idle_after(*polled(200, 200, 200, 2_000, 200, 200, 200)) == 1_700


def test_who_got_nothing_comes_back_at_once_which_says_nothing() -> None:
    rhythm, now_ms = polled(1_000)
    now_ms += 1_000
    for records in (*[0] * 20, 50):
        rhythm.came(now_ms)
        rhythm.went(records, now_ms)
    assert idle_after(rhythm, now_ms) == 4_000


def test_more_records_than_before_may_take_as_much_longer() -> None:
    rhythm, now_ms = polled(1_000)
    rhythm.came(now_ms + 1_000)
    rhythm.went(100, now_ms + 1_000)
    assert idle_after(rhythm, now_ms + 1_000) == 8_000

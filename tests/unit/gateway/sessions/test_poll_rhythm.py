"""Detection of idle members by their usual intervals between polls."""

from __future__ import annotations

from sharegroup.gateway.sessions.poll_rhythm import PollRhythm

LEAST, MOST = 500, 10_000


def polled(*pauses_ms: int, records: int = 50) -> tuple[PollRhythm, int]:
    """Return a member that was away for each of these times in turn, and when it left last."""
    rhythm, now_ms = PollRhythm(), 0
    for pause_ms in (*pauses_ms, 0):
        rhythm.begin_fetch(now_ms)
        rhythm.end_fetch(records, now_ms)
        now_ms += pause_ms
    return rhythm, now_ms


def idle_after(rhythm: PollRhythm, now_ms: int) -> int:
    """Return how long the member may be away."""
    return next(ms for ms in range(MOST + 1) if rhythm.is_idle(now_ms + ms, LEAST, MOST))


def test_member_with_an_open_fetch_is_not_idle() -> None:
    rhythm = PollRhythm()
    assert not rhythm.is_idle(10**9, LEAST, MOST)
    rhythm.begin_fetch(0)
    assert not rhythm.is_idle(10**9, LEAST, MOST)
    rhythm.begin_fetch(1)
    rhythm.end_fetch(50, 2)
    assert not rhythm.is_idle(10**9, LEAST, MOST)
    rhythm.end_fetch(50, 3)
    assert rhythm.is_idle(10**9, LEAST, MOST)


def test_member_is_idle_after_several_usual_intervals() -> None:
    assert idle_after(*polled()) == MOST
    assert idle_after(*polled(1, 1, 1)) == LEAST
    assert idle_after(*polled(1_000)) == 4_000
    assert idle_after(*polled(5_000, 5_000)) == MOST


def test_longer_pause_counts_immediately_and_decays_slowly() -> None:
    assert idle_after(*polled(200, 200, 200, 2_000)) == 8_000
    assert idle_after(*polled(200, 200, 200, 2_000, 200)) == 4_400
    assert idle_after(*polled(200, 200, 200, 2_000, 200, 200, 200)) == 1_700


def test_pause_after_an_empty_response_is_not_counted() -> None:
    rhythm, now_ms = polled(1_000)
    now_ms += 1_000
    for records in (*[0] * 20, 50):
        rhythm.begin_fetch(now_ms)
        rhythm.end_fetch(records, now_ms)
    assert idle_after(rhythm, now_ms) == 4_000


def test_more_records_may_take_longer_in_proportion() -> None:
    rhythm, now_ms = polled(1_000)
    rhythm.begin_fetch(now_ms + 1_000)
    rhythm.end_fetch(100, now_ms + 1_000)
    assert idle_after(rhythm, now_ms + 1_000) == 8_000

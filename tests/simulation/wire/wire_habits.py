"""The behaviour of share consumers: what they do with records, for how long, and how they end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.simulation.wire.wire_session import FetchSize

#: The usual fetch size.
FIFTY = FetchSize(50, 30_000, False)


@dataclass(frozen=True)
class Habit:
    """The behaviour of one consumer. Chances are of each acquired range; all other ranges are accepted. Times in ms.

    `work_ms`: minimum and maximum duration of each poll's work. `work_locks`: the same in lock durations, added with
    chance `stumbles`. `renew_after`: locks are renewed repeatedly after this part of their duration; 0: never.
    `explicit`: chance that acknowledgements are sent immediately by themselves, and waited for (commitSync); otherwise
    the next fetch contains them. `forgets`: chance that a range is never acknowledged. `rests_ms`: minimum and maximum
    time between polls. `moves_ms`, `ends_ms`: mean time until it moves to another gateway, and until its end (0:
    never); `dies`: chance that it ends without notice.
    """

    name: str
    work_ms: tuple[float, float] = (20, 400)
    work_locks: tuple[float, float] = (0, 0)
    stumbles: float = 1.0
    rests_ms: tuple[float, float] = (0, 3_000)
    size: FetchSize = FIFTY
    release: float = 0.0
    reject: float = 0.0
    forgets: float = 0.0
    renew_after: float = 0.0
    explicit: float = 0.3
    moves_ms: float = 0.0
    ends_ms: float = 0.0
    dies: float = 0.5


HABITS = {
    habit.name: habit
    for habit in (
        Habit("fast"),
        Habit("strict", size=FetchSize(7, 30_000, True)),
        Habit("slow", work_ms=(1_000, 10_000), rests_ms=(0, 0)),
        Habit("slow_beyond_lock", work_locks=(0.7, 1.4), size=FetchSize(10, 2_000, False), explicit=0.5),
        Habit(
            "stumbling", work_ms=(5, 50), rests_ms=(0, 0), work_locks=(0.8, 1.3), stumbles=0.1,
            size=FetchSize(5, 30_000, False), explicit=0.5,
        ),
        Habit(
            "at_lock_end",
            work_ms=(5, 50),
            rests_ms=(0, 0),
            work_locks=(1.0, 1.05),
            stumbles=0.3,
            size=FetchSize(5, 30_000, False),
            explicit=0.5,
        ),
        Habit("releasing", release=0.3, size=FetchSize(20, 30_000, False)),
        Habit("returning", work_ms=(5, 100), rests_ms=(0, 0), release=0.5, size=FetchSize(5, 30_000, False)),
        Habit("rejecting", reject=0.2, release=0.1),
        Habit("renewing", work_locks=(0.3, 2.5), renew_after=0.4, explicit=0.7, size=FetchSize(20, 30_000, False)),
        Habit("forgetful", forgets=0.2),
    )
}  # fmt: skip


def habit_of(random: Random, slow: bool = True, ends: bool = True, moves: bool = True) -> Habit:
    """Return one of the habits, for some with an end or a move."""
    names = [
        name for name in HABITS if slow or name not in ("slow_beyond_lock", "stumbling", "at_lock_end", "renewing")
    ]
    habit = HABITS[random.choice(names)]
    if ends and random.random() < 0.5:
        habit = replace(habit, ends_ms=random.choice((60_000, 600_000)), dies=random.choice((0.0, 0.5, 1.0)))
    if moves and random.random() < 0.4:
        habit = replace(habit, moves_ms=random.choice((30_000, 300_000)))
    return habit

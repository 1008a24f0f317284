"""The log throttle."""

from __future__ import annotations

from sharegroup.gateway.clients.accepting.log_throttle import LogThrottle


def test_one_line_a_minute_with_the_number_of_suppressed_lines() -> None:
    seldom = LogThrottle()
    assert [seldom.next_suffix(now) for now in (0, 1, 59, 60, 61, 300)] == [
        "",
        None,
        None,
        " (2 more since the last such line)",
        None,
        " (1 more since the last such line)",
    ]

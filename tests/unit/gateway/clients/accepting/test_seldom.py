"""Lines that come once a minute."""

from __future__ import annotations

from sharegroup.gateway.clients.accepting.seldom import Seldom


def test_a_line_a_minute_says_how_many_were_left_out() -> None:
    seldom = Seldom()
    assert [seldom.due(now) for now in (0, 1, 59, 60, 61, 300)] == [
        "",
        None,
        None,
        " (and 2 times more since the last such line)",
        None,
        " (and 1 times more since the last such line)",
    ]

"""A member's leave waits for the acknowledgements that it sent before."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.gateway.sessions import open_acknowledgements
from sharegroup.gateway.sessions.open_acknowledgements import OpenAcknowledgements
from sharegroup.protocol.share_session import SessionKey
from tests.harness.event_loop import advance, settle

M, OTHER = SessionKey("g", "m"), SessionKey("g", "other")


async def test_wait_ends_when_every_outcome_of_the_member_is_known() -> None:
    acknowledgements, loop = OpenAcknowledgements(), asyncio.get_running_loop()
    first, second, others = loop.create_future(), loop.create_future(), loop.create_future()
    acknowledgements.add(M, [first, second])
    acknowledgements.add(OTHER, [others])
    waiting = asyncio.ensure_future(acknowledgements.wait(M))
    first.set_exception(RuntimeError("refused"))
    await settle()
    assert not waiting.done()
    second.cancel()
    await waiting
    assert isinstance(first.exception(), RuntimeError)


async def test_leave_waits_for_acknowledgements_that_have_not_arrived() -> None:
    """They were sent at the same time on another connection."""
    holding = {M}
    acknowledgements = OpenAcknowledgements(holding.__contains__)
    await acknowledgements.wait(OTHER)
    waiting = asyncio.ensure_future(acknowledgements.wait(M))
    await settle()
    outcome = asyncio.get_running_loop().create_future()
    acknowledgements.add(M, [outcome])
    holding.clear()
    await settle()
    assert not waiting.done()
    outcome.set_result(0)
    await waiting


async def test_leave_continues_when_the_member_has_closed_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the end of the session wakes the leave; it does not poll."""
    monkeypatch.setattr(open_acknowledgements, "GRACE_S", 3_600)
    looks: list[SessionKey] = []
    holding = {M, OTHER}

    def holds(process: SessionKey) -> bool:
        looks.append(process)
        return process in holding

    acknowledgements = OpenAcknowledgements(holds)
    waiting = asyncio.ensure_future(acknowledgements.wait(M))
    await settle()
    advance(open_acknowledgements.GRACE_S / 2)
    acknowledgements.notify_change(OTHER)
    await settle()
    assert (waiting.done(), looks) == (False, [M])
    holding.clear()
    acknowledgements.notify_change(M)
    await waiting
    await settle()
    assert M not in acknowledgements._changes


async def test_both_of_two_leaves_of_a_member_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that gets no response sends its leave again."""
    monkeypatch.setattr(open_acknowledgements, "GRACE_S", 3_600)
    holding = {M}
    acknowledgements = OpenAcknowledgements(holding.__contains__)
    waiting = [asyncio.ensure_future(acknowledgements.wait(M)) for _ in range(2)]
    await settle()
    acknowledgements.notify_change(M)  # it still holds records of another session
    await settle()
    holding.clear()
    acknowledgements.notify_change(M)
    await asyncio.gather(*waiting)


def test_member_that_acknowledges_nothing_leaves_after_the_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_acknowledgements, "GRACE_S", 0.01)
    asyncio.run(OpenAcknowledgements(lambda _: True).wait(M))


async def test_no_outcome_is_kept_after_it_is_known() -> None:
    acknowledgements, outcome = OpenAcknowledgements(), asyncio.get_running_loop().create_future()
    outcome.set_result(0)
    acknowledgements.add(M, [outcome])
    assert acknowledgements._open._open == {}
    later = asyncio.get_running_loop().create_future()
    acknowledgements.add(M, [later])
    later.set_result(0)
    await acknowledgements.wait(M)
    assert acknowledgements._open._open == {}

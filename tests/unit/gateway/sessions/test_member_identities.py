"""The member of each client incarnation at a gateway: by the id that it sends, or by its client id."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from sharegroup.config import Config
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.sessions import member_identities
from sharegroup.gateway.sessions.member_identities import Identity, MemberIdentities
from sharegroup.protocol.share_session import SessionKey

P1, P2 = SessionKey("named", "p1"), SessionKey("named", "p2")


def identities() -> MemberIdentities:
    """Return the identities of a gateway where the group `named` uses client ids as instance ids."""
    config = Config().group_config("g")
    named: Any = SimpleNamespace(
        group_config=lambda group_id: dataclasses.replace(config, client_id_as_instance_id=group_id == "named")
    )
    return MemberIdentities(named)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


@pytest.mark.parametrize(
    ("group_id", "client_id", "name"),
    [("named", "worker-1", "worker-1"), ("named", "", None), ("named", " ", None), ("other", "worker-1", None)],
)
def test_client_id_is_the_instance_id_if_the_group_is_configured_so(
    group_id: str, client_id: str, name: str | None
) -> None:
    assert identities().instance_id_for(group_id, client_id) == name


def test_two_incarnations_may_be_one_member() -> None:
    known = identities()
    known.add(P1, "stored")
    known.add(P2, "stored")
    assert (known.get(P1), known.get(P2)) == (Identity("stored", "p1"), Identity("stored", "p2"))
    known.remove(P1)
    assert (known.get(P1), known.get(P1).is_static, known.get(P2).is_static) == (Identity("p1"), False, True)


async def test_fetch_waits_for_the_heartbeat_with_the_member_id() -> None:
    known = identities()
    waiting = asyncio.ensure_future(known.wait_until_known(P1, "worker-1", 120))
    await asyncio.sleep(0)
    known.add(P2, "another")
    await asyncio.sleep(0)
    assert not waiting.done()
    known.add(P1, "stored")
    await waiting
    await known.wait_until_known(P1, "worker-1", 0)


async def test_session_requires_a_heartbeat() -> None:
    with pytest.raises(
        RequestError, match="static member worker-1 has sent no heartbeat as p1 to this gateway"
    ) as refused:
        await identities().wait_until_known(P1, "worker-1", 0.001)
    assert refused.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_dynamic_member_needs_no_stored_identity() -> None:
    await identities().wait_until_known(P1, "", 0)
    await identities().wait_until_known(SessionKey("other", "p1"), "worker-1", 0)


def test_number_of_identities_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_identities, "MAX_KEPT", 2)
    known = identities()
    for process in ("p1", "p2", "p1", "p3"):
        known.add(SessionKey("named", process), "stored")
    assert [known.get(SessionKey("named", process)).is_static for process in ("p1", "p2", "p3")] == [True, False, True]

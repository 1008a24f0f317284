"""The living gateways, their order, and the addresses that each client is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.gateway.fleet.client_view import ClientView, standby_for
from sharegroup.gateway.fleet.fleet import LIVES_MS, MOVE_MS, Fleet
from sharegroup.gateway.fleet.known_gateways import KnownGateways, next_gateway, previous_gateway
from sharegroup.gateway.job_client.row_appender import JobUnavailableError
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.protocol.rows.gateway_rows import GatewayAddress, GatewayRow
from sharegroup.security.caller import Caller

ADDRESSES = st.builds(GatewayAddress, st.sampled_from("abcdef"), st.integers(1, 3))
OWN_CLIENT, OTHERS_CLIENT = Caller(1, 1, ""), Caller(2, 1, "", is_standby=True)


def standby(name: str) -> GatewayAddress:
    return GatewayAddress(name, 9191)


def row(name: str, lives_ms: int = LIVES_MS) -> GatewayRow:
    """Return the row of a gateway for the brokers 1 and 2."""
    brokers = {1: GatewayAddress(name, 9193), 2: GatewayAddress(name, 9194)}
    return GatewayRow(standby(name), brokers, lives_ms)


def view(name: str, next_one: str | None = None, *, moved: bool = False) -> ClientView:
    """Return the addresses for clients of that gateway, who may have moved to it."""
    return ClientView(row(name).brokers, None if next_one is None else standby_for(standby(next_one)), moved)


# -- the ring ----------------------------------------------------------------------------------------------------------


@given(st.sets(ADDRESSES), ADDRESSES)
def test_next_and_previous_gateway_are_inverse(gateways: set[GatewayAddress], place: GatewayAddress) -> None:
    gateways.add(place)
    following = next_gateway(gateways, place)
    if len(gateways) == 1:
        assert following is None
        assert previous_gateway(gateways, place) is None
    else:
        assert following != place
        assert following is not None
        assert previous_gateway(gateways, following) == place


@given(st.sets(ADDRESSES, min_size=1))
def test_ring_contains_all_gateways(gateways: set[GatewayAddress]) -> None:
    place = min(gateways)
    seen = [place]
    while (following := next_gateway(gateways, seen[-1])) not in (None, place):
        assert following is not None
        seen.append(following)
    assert seen == sorted(gateways)


@given(st.sets(ADDRESSES, min_size=1), ADDRESSES)
def test_address_without_a_gateway_has_neighbours(gateways: set[GatewayAddress], place: GatewayAddress) -> None:
    others = gateways - {place}
    assert (next_gateway(gateways, place) in others) == bool(others)
    assert (previous_gateway(gateways, place) in others) == bool(others)


@given(st.sets(ADDRESSES))
def test_standby_ids_are_between_broker_and_coordinator_ids(
    gateways: set[GatewayAddress],
) -> None:
    assert all(2**30 <= standby_for(gateway).node_id < 2**30 + 2**28 for gateway in gateways)
    assert standby_for(standby("a")).node_id != standby_for(standby("b")).node_id


# -- known gateways ----------------------------------------------------------------------------------------------------


def test_gateway_lives_while_its_newest_row_is_valid() -> None:
    known = KnownGateways()
    assert known.apply_row(row("a"), 1_000, 1_010)
    assert not known.apply_row(row("a"), 3_000, 3_010)
    assert known.living(3_000 + LIVES_MS - 1) == {standby("a"): row("a")}
    assert known.living(3_000 + LIVES_MS) == {}


def test_newest_row_has_the_broker_addresses() -> None:
    known = KnownGateways()
    grown = replace(row("a"), brokers=row("a").brokers | {3: GatewayAddress("a", 9195)})
    known.apply_row(row("a"), 1_000, 1_000)
    known.apply_row(grown, 2_000, 2_000)
    known.apply_row(row("a"), 1_999, 2_010)  # from another cell, whose topic is read late
    assert known.living(2_010) == {standby("a"): grown}


def test_stopped_gateway_is_gone_despite_older_rows() -> None:
    known = KnownGateways()
    known.apply_row(row("a"), 1_000, 1_000)
    assert known.apply_row(row("a", lives_ms=0), 2_000, 2_000)
    assert not known.apply_row(row("a"), 1_990, 2_010)
    assert known.living(2_010) == {}
    assert known.apply_row(row("a"), 5_000, 5_000)  # restarted
    assert known.living(5_000) == {standby("a"): row("a")}


def test_unreachable_gateway_is_gone_until_its_next_row() -> None:
    known = KnownGateways()
    known.apply_row(row("a"), 1_000, 1_000)
    known.mark_lost(standby("a"), 1_500)
    known.mark_lost(standby("never heard of"), 1_500)
    assert known.living(1_500) == {}
    assert not known.apply_row(row("a"), 1_400, 1_510)  # an older row that is read late
    assert known.living(1_510) == {}
    assert known.apply_row(row("a"), 3_000, 3_000)


def test_outdated_row_changes_nothing() -> None:
    known = KnownGateways()
    assert not known.apply_row(row("a"), 1_000, 1_000 + LIVES_MS)
    assert known.living(1_000 + LIVES_MS) == {}


# -- addresses for clients ---------------------------------------------------------------------------------------------


class Rows:
    """The channel to the job: it records announcements and delivers those of others."""

    def __init__(self) -> None:
        self.announced: list[GatewayRow] = []
        self.time_ms, self.is_there, self.is_durable = 1_000, True, True
        self._hear: Callable[[GatewayRow, int], None]

    def announce(self, said: GatewayRow) -> Sequence[asyncio.Future[int]]:
        if not self.is_there:
            raise JobUnavailableError("no topics")
        self.announced.append(said)
        sent: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self.is_durable:
            sent.set_result(self.time_ms)
        return [sent]

    def on_gateway(self, callback: Callable[[GatewayRow, int], None]) -> None:
        self._hear = callback

    def now_ms(self) -> int:
        return self.time_ms

    def hear(self, *said: GatewayRow) -> None:
        """Append these rows and deliver them immediately."""
        for each in said:
            self._hear(each, self.time_ms)


class Gateways:
    """The gateway `b` among others; the `unreachable` ones have died without an announcement."""

    def __init__(self, is_open: bool = True) -> None:
        self.rows, self.unreachable = Rows(), set[str]()
        self.looked_at: list[str] = []
        self.listeners = Listeners("b")
        self.listeners.add(1, 9193)
        self.listeners.add(2, 9194)
        if is_open:
            self.listeners.add_standby(9191)
        self.fleet = Fleet(self.rows, self.listeners, self._is_reachable)

    async def _is_reachable(self, address: GatewayAddress) -> bool:
        self.looked_at.append(address.host)
        return address.host not in self.unreachable

    async def told(self) -> tuple[ClientView, ClientView]:
        """Return the addresses for our clients, and for those of the previous gateway."""
        return await self.fleet.view_for(OWN_CLIENT), await self.fleet.view_for(OTHERS_CLIENT)


async def test_single_gateway_has_no_standby() -> None:
    assert await Gateways().told() == (view("b"), view("b", "b", moved=True))
    assert await Gateways(is_open=False).told() == (view("b"), view("b"))


async def test_gateway_with_another_listener_is_no_standby() -> None:
    """Its clients may use TLS while ours do not, or another network."""
    gateways = Gateways()
    gateways.rows.hear(replace(row("a"), listener="SASL_SSL"), row("c"), replace(row("d"), listener="outside"))
    assert await gateways.told() == (view("b", "c"), view("c", "b"))


async def test_clients_are_sent_the_next_gateway_as_standby() -> None:
    gateways = Gateways()
    gateways.rows.hear(row("a"), row("b"), row("c"))
    assert await gateways.told() == (view("b", "c"), view("a", "b"))


async def test_two_gateways_are_standbys_of_each_other() -> None:
    gateways = Gateways()
    gateways.rows.hear(row("a"))
    assert await gateways.told() == (view("b", "a"), view("a", "b"))


async def test_clients_of_a_dead_gateway_are_sent_our_addresses() -> None:
    gateways = Gateways()
    gateways.rows.hear(row("a"))
    gateways.unreachable.add("a")
    assert await gateways.fleet.view_for(OTHERS_CLIENT) == view("b", "b", moved=True)  # it keeps its connection
    assert await gateways.told() == (view("b", moved=True), view("b", "b", moved=True))
    assert gateways.looked_at == ["a"]
    gateways.unreachable.clear()
    gateways.rows.time_ms += 2_000
    gateways.rows.hear(row("a"))
    assert await gateways.told() == (view("b", "a", moved=True), view("a", "b"))
    gateways.rows.time_ms += MOVE_MS
    gateways.rows.hear(row("a"))
    assert await gateways.told() == (view("b", "a"), view("a", "b"))


async def test_clients_of_a_gateway_that_stopped_may_have_moved_here() -> None:
    gateways = Gateways()
    gateways.rows.hear(row("a"), row("a", lives_ms=0))
    assert await gateways.told() == (view("b", moved=True), view("b", "b", moved=True))


async def test_clients_of_a_dead_gateway_go_to_one_of_the_others() -> None:
    """The clients of the previous gateway move here too with their next request; all are sent the same."""
    gateways = Gateways()
    gateways.rows.hear(row("a"), row("c"))
    gateways.unreachable.add("a")
    for _ in range(2):
        assert await gateways.fleet.view_for(OTHERS_CLIENT) == view("c", "b")


async def test_gateway_without_recent_rows_is_not_sent_to_clients() -> None:
    gateways = Gateways()
    gateways.rows.hear(row("a"))
    gateways.rows.time_ms += LIVES_MS
    assert await gateways.told() == (view("b"), view("b", "b", moved=True))
    assert gateways.looked_at == []


async def test_stopping_gateway_sends_its_clients_to_the_next_one() -> None:
    gateways = Gateways()
    gateways.rows.hear(row("a"), row("c"), row("d"))
    gateways.unreachable.add("c")
    await gateways.fleet.leave(lambda _: False)
    assert gateways.rows.announced == [row("b", lives_ms=0)]
    assert await gateways.told() == (view("d", "d"), view("a", "b"))
    gateways.fleet.upkeep()
    assert len(gateways.rows.announced) == 1


async def test_client_with_held_records_stays_with_a_stopping_gateway() -> None:
    gateways = Gateways()
    gateways.rows.hear(row("a"))
    await gateways.fleet.leave(lambda connection_id: connection_id == OWN_CLIENT.connection_id)
    assert await gateways.told() == (view("b", "a"), view("a", "b"))


async def test_last_gateway_keeps_its_clients_while_stopping() -> None:
    gateways = Gateways()
    gateways.rows.is_there = False
    await gateways.fleet.leave(lambda _: False)
    assert await gateways.told() == (view("b"), view("b", "b", moved=True))


# -- announcements -----------------------------------------------------------------------------------------------------


async def test_gateway_announces_itself_with_open_ports_and_to_new_ones() -> None:
    gateways = Gateways(is_open=False)
    gateways.fleet.upkeep()
    assert gateways.rows.announced == []
    gateways.listeners.add_standby(9191)
    for _ in range(3):
        gateways.fleet.upkeep()
    assert gateways.rows.announced == [row("b")]
    gateways.rows.hear(row("b"))
    gateways.fleet.upkeep()
    assert len(gateways.rows.announced) == 1
    gateways.rows.hear(row("a"))
    gateways.fleet.upkeep()
    assert gateways.rows.announced == [row("b"), row("b")]


async def test_announcement_waits_for_the_last_row_and_is_retried() -> None:
    gateways = Gateways()
    gateways.rows.is_there = False
    gateways.fleet.upkeep()
    gateways.rows.is_there, gateways.rows.is_durable = True, False
    gateways.fleet.upkeep()
    gateways.rows.hear(row("a"))
    gateways.fleet.upkeep()
    assert gateways.rows.announced == [row("b")]

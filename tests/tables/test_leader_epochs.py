"""What the source sends after leader elections: the leader's epoch, and the offset from which later leaders wrote."""

from __future__ import annotations

from tests.tables.source_world import OLD, World, row


def led(epoch: int) -> World:
    world = World(row(OLD))
    world.epochs["orders"] = epoch
    world.read()
    return world


def logs(world: World) -> list[list[object]]:
    """Return what one poll of all logs sends about the log."""
    return [body for _, kind, body in world.read(6_000) if kind == "log"]


def test_the_start_of_the_first_leader_is_not_requested() -> None:
    assert led(0).epochs_asked == []


def test_without_earlier_offsets_the_last_leaders_start_is_requested() -> None:
    world = World(row(OLD))
    world.epochs["orders"], world.epoch_ends_of["orders"] = 3, {2: 40}
    loads = [body for _, kind, body in world.read() if kind == "load"]
    assert loads[0][0]["log"] == [0, 100, None, True, 3, 40]
    assert world.epochs_asked == [("orders", 2)]


def test_after_an_election_the_log_is_compared_with_the_known_leader() -> None:
    world = led(0)
    world.epochs["orders"], world.epoch_ends_of["orders"] = 2, {0: 60}
    assert logs(world) == [[[0, 0, 100, None, True, 2, 60]]]
    assert logs(world) == [], "sent once"
    assert world.epochs_asked == [("orders", 0)]


def test_the_query_is_repeated_until_there_is_a_response() -> None:
    world = led(0)
    world.epochs["orders"] = 2
    assert logs(world) == []
    world.epoch_ends_of["orders"] = {0: 60}
    assert logs(world) == [[[0, 0, 100, None, True, 2, 60]]]


def test_a_response_of_an_earlier_leader_is_ignored() -> None:
    world = led(0)
    world.epochs["orders"], world.epoch_ends_of["orders"] = 2, {0: 100}
    world.topics["orders"] = ("old", (0, 120, 120))
    assert logs(world) == [[[0, 0, 120, None, True, 2, 100]]]
    world.epochs["orders"], world.topics["orders"] = 0, ("old", (0, 100, 100))
    assert logs(world) == []

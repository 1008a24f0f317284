"""Records that arrive one by one while members wait at two gateways that reserve: each gateway delivers its share.

A gateway holds a slice of the next offsets, and the slice of the other one lies behind it. So a member that waits all
the time receives a record again after at most a few slices.
"""

from __future__ import annotations

import dataclasses
import itertools

from sharegroup.gateway.reservations.partition_reservation import MIN_SLICE
from tests.simulation.gateway.gateway_fleet import GatewayFleet
from tests.simulation.judges.judge import Key
from tests.simulation.wire.wire_habits import Habit
from tests.simulation.wire.wire_member import WireMember
from tests.simulation.wire.wire_session import FetchSize
from tests.simulation.world import RESERVATIONS, World

TOPIC = GROUP = "fair"
#: The maximum number of successive records of which a member that waits gets none.
MAX_MISSED = 3 * MIN_SLICE
#: Faults that stop no gateway, and that delay neither the job nor this group.
_HARMLESS = frozenset(
    (
        RESERVATIONS, "slow_members", "dying_members", "leaving_members", "alter_configs",
        "alter_offsets", "delete_offsets", "delete_group",
    )
)  # fmt: skip
_HABIT = Habit("fair", work_ms=(1, 5), rests_ms=(0, 20), explicit=0.0, size=FetchSize(50, 2_000, False))
#: When the records begin, their interval and their number. The first ones are not judged: the members may not be ready.
_BEGIN_MS, _EVERY_MS, _RECORDS, _UNJUDGED = 30_000, 250, 400, 100
_END_MS = 60_000


class FairnessWatch:
    """A group with a member at each of two gateways, in runs with reservations in which nothing stops a gateway."""

    def __init__(self, world: World, fleet: GatewayFleet | None) -> None:
        self._world, self._clock, self._fleet = world, world.clock, fleet

    def start(self) -> None:
        """Start the members and the records."""
        faults, fleet = self._world.faults, self._fleet
        if RESERVATIONS not in faults or faults - _HARMLESS or fleet is None or len(fleet.gateways) < 2:
            return
        topic = self._world.kafka.create_topic(TOPIC, 1)
        names = [f"{GROUP}-{number}" for number in (1, 2)]
        for name, gateway in zip(names, fleet.gateways, strict=False):
            side = dataclasses.replace(fleet.side, gateways=[gateway])
            WireMember(self._world, side, name, GROUP, (TOPIC,), _HABIT).start()
        for number in range(_RECORDS):
            self._clock.after(_BEGIN_MS + number * _EVERY_MS, self._append)
        key = Key(GROUP, TOPIC, topic.topic_id, 0)
        self._clock.after(_BEGIN_MS + _RECORDS * _EVERY_MS + _END_MS, lambda: self._check(key, names))

    def _append(self) -> None:
        self._world.kafka.append(TOPIC, 0, [(None, b"record")])

    def _check(self, key: Key, names: list[str]) -> None:
        receivers = [self._world.judge.first_receiver(key, offset) for offset in range(_UNJUDGED, _RECORDS)]
        for name in names:
            of_others = (not (receiver or "").startswith(f"{name}.") for receiver in receivers)
            missed = max((len(list(run)) for is_other, run in itertools.groupby(of_others) if is_other), default=0)
            if missed > MAX_MISSED:
                text = f"{name} waits, and gets none of {missed} successive records"
                self._world.judge.violate("gateways take turns", text, key)

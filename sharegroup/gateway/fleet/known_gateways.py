"""The other gateways, as their announcements describe them, and the order of all gateways. No clock, no I/O.

The gateways form a ring in the order of their standby addresses, so that all of them use the same order. Each gateway
sends its clients the standby port of its successor. If its predecessor fails, it takes over the predecessor's clients.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from sharegroup.protocol.rows.gateway_rows import GatewayAddress, GatewayRow

#: How long the last row of a gateway is kept after its validity has ended. This is needed to ignore an older row that
#: arrives late from the topic of another cell (another job).
_KEPT_MS = 60_000


@dataclass(slots=True)
class _Entry:
    """The newest row of a gateway, when it was appended and until when it is valid (both in ms since the epoch)."""

    row: GatewayRow
    append_ms: int
    until_ms: int


class KnownGateways:
    """The other gateways, stored by their standby addresses. Times are in ms since the epoch, by the brokers' clock."""

    def __init__(self) -> None:
        self._entries: dict[GatewayAddress, _Entry] = {}

    def apply_row(self, row: GatewayRow, append_ms: int, now_ms: int) -> bool:
        """Store a gateway's row, which was appended at `append_ms`. Ignore it if a newer row of the gateway is known.

        Return whether the row adds or removes a living gateway.
        """
        before = self._entries.get(row.standby)
        if before is not None and append_ms < before.append_ms:
            return False
        was_there = before is not None and now_ms < before.until_ms
        found = self._entries[row.standby] = _Entry(row, append_ms, append_ms + row.lives_ms)
        self._entries = {key: heard for key, heard in self._entries.items() if now_ms < heard.until_ms + _KEPT_MS}
        return was_there != (now_ms < found.until_ms)

    def mark_lost(self, standby: GatewayAddress, now_ms: int) -> None:
        """Mark a gateway as unreachable, until a row of it arrives that was appended at `now_ms` or later."""
        if standby in self._entries:
            heard = self._entries[standby]
            heard.until_ms, heard.append_ms = now_ms, max(now_ms, heard.append_ms)

    def living(self, now_ms: int) -> dict[GatewayAddress, GatewayRow]:
        """Return {standby address: newest row} of the living gateways.

        A gateway is living while its newest row is valid and it has not been marked as lost since.
        """
        return {standby: heard.row for standby, heard in self._entries.items() if now_ms < heard.until_ms}


def next_gateway(gateways: Iterable[GatewayAddress], place: GatewayAddress) -> GatewayAddress | None:
    """Return the gateway after the standby address `place` in the ring; None if there is no other gateway.

    `gateways` are standby addresses. They need not contain `place`.
    """
    others = sorted(gateway for gateway in gateways if gateway != place)
    return others[bisect_right(others, place) % len(others)] if others else None


def previous_gateway(gateways: Iterable[GatewayAddress], place: GatewayAddress) -> GatewayAddress | None:
    """Return the gateway before the standby address `place` in the ring; None if there is no other gateway.

    `gateways` are standby addresses. They need not contain `place`.
    """
    others = sorted(gateway for gateway in gateways if gateway != place)
    return others[bisect_left(others, place) - 1] if others else None

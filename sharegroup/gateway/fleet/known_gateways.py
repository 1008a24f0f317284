"""The other gateways, by what they announce. PURE: no clock, no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from sharegroup.protocol.rows.gateway_rows import GatewayAddress, GatewayRow

#: So long what a gateway said is remembered after it has ended: an older row of it may still come, by another cell.
_REMEMBERED_MS = 60_000


@dataclass(slots=True)
class _Heard:
    """The newest row of a gateway, when it was appended and until when it counts (milliseconds since the epoch)."""

    row: GatewayRow
    append_ms: int
    until_ms: int


class KnownGateways:
    """A gateway is known by its standby address; times are milliseconds since the epoch, by the brokers' clock."""

    def __init__(self) -> None:
        self._heard: dict[GatewayAddress, _Heard] = {}

    def heard(self, row: GatewayRow, append_ms: int, now_ms: int) -> bool:
        """Take in a row that was appended at `append_ms`. Whether it changes which gateways there are."""
        before = self._heard.get(row.standby)
        if before is not None and append_ms < before.append_ms:
            return False
        was_there = before is not None and now_ms < before.until_ms
        found = self._heard[row.standby] = _Heard(row, append_ms, append_ms + row.lives_ms)
        self._heard = {key: heard for key, heard in self._heard.items() if now_ms < heard.until_ms + _REMEMBERED_MS}
        return was_there != (now_ms < found.until_ms)

    def lost(self, standby: GatewayAddress, now_ms: int) -> None:
        """The gateway cannot be reached: it is gone until it announces itself again, later than now."""
        if standby in self._heard:
            heard = self._heard[standby]
            heard.until_ms, heard.append_ms = now_ms, max(now_ms, heard.append_ms)

    def living(self, now_ms: int) -> dict[GatewayAddress, GatewayRow]:
        """The newest row of each gateway that is there."""
        return {standby: heard.row for standby, heard in self._heard.items() if now_ms < heard.until_ms}

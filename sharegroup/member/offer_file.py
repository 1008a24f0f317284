"""The next batch on its way from the member to the source: two processes, one file, and a rename decides who has it."""

from __future__ import annotations

import json
import time
from pathlib import Path

from sharegroup.member.ranges import OfferedBatch

_OFFER, _SCRATCH, _CLAIMED, _WITHDRAWN, _CLOSED = "offer.json", "offer.new", "claimed.json", "withdrawn.json", "closed"
_POLL_S = 0.01


class OfferFile:
    """The member's side: at most one offer is there; `directory` is local to the driver."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def put(self, batch: OfferedBatch) -> None:
        """Offer a batch; the one before must have been claimed or withdrawn."""
        scratch = self._directory / _SCRATCH
        scratch.write_text(json.dumps(batch.to_json(), separators=(",", ":")))
        scratch.replace(self._directory / _OFFER)

    def is_claimed(self) -> bool:
        """Whether the last offer was claimed (or withdrawn: the caller knows which)."""
        return not (self._directory / _OFFER).exists()

    def withdraw(self) -> bool:
        """Take the offer back; False: too late, it was claimed."""
        return _rename(self._directory / _OFFER, self._directory / _WITHDRAWN)

    def close(self) -> None:
        """There will be no offer any more: nobody needs to wait for one."""
        (self._directory / _CLOSED).touch()


class OfferReader:
    """The source's side: it claims what is on offer, and may wait for it."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def claim(self, wait_s: float = 0) -> OfferedBatch | None:
        """The batch on offer, from now on the caller's; None if none comes within `wait_s`."""
        offer, claimed = self._directory / _OFFER, self._directory / _CLAIMED
        deadline = time.monotonic() + wait_s
        while not (offer.exists() and _rename(offer, claimed)):
            if time.monotonic() >= deadline or (self._directory / _CLOSED).exists():
                return None
            time.sleep(_POLL_S)  # a file of another process: a look costs microseconds
        return OfferedBatch.from_json(json.loads(claimed.read_text()))


def _rename(source: Path, target: Path) -> bool:
    try:
        source.replace(target)
    except FileNotFoundError:
        return False
    return True

"""The file that passes the next batch from the member to the source, another process; a rename decides its owner."""

import json
import time
from pathlib import Path

from sharegroup.member.ranges import OfferedBatch

_OFFER, _SCRATCH, _CLAIMED, _WITHDRAWN, _CLOSED = "offer.json", "offer.new", "claimed.json", "withdrawn.json", "closed"
_POLL_S = 0.01


class OfferFile:
    """The member's side, with at most one offer at a time; `directory` is local to the driver."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def put(self, batch: OfferedBatch) -> None:
        """Offer a batch; the previous one must have been claimed or withdrawn."""
        scratch = self._directory / _SCRATCH
        scratch.write_text(json.dumps(batch.to_json(), separators=(",", ":")))
        scratch.replace(self._directory / _OFFER)

    def is_claimed(self) -> bool:
        """Return whether the last offer was claimed, or withdrawn by the caller."""
        return not (self._directory / _OFFER).exists()

    def withdraw(self) -> bool:
        """Withdraw the offer; return False if it was already claimed."""
        return _rename(self._directory / _OFFER, self._directory / _WITHDRAWN)

    def close(self) -> None:
        """Announce that no further offer follows, so that no reader waits for one."""
        (self._directory / _CLOSED).touch()


class OfferReader:
    """The source's side: it claims the offered batch and can wait for it."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def claim(self, wait_s: float = 0) -> OfferedBatch | None:
        """Claim and return the offered batch; None if there is none within `wait_s`."""
        offer, claimed = self._directory / _OFFER, self._directory / _CLAIMED
        deadline = time.monotonic() + wait_s
        while not (offer.exists() and _rename(offer, claimed)):
            if time.monotonic() >= deadline or (self._directory / _CLOSED).exists():
                return None
            time.sleep(_POLL_S)  # a file of another process; each check costs microseconds
        return OfferedBatch.from_json(json.loads(claimed.read_text()))


def _rename(source: Path, target: Path) -> bool:
    try:
        source.replace(target)
    except FileNotFoundError:
        return False
    return True

"""The file with which a member offers the next batch to the Python source of its Spark query.

The source runs in another process. It claims the offer by renaming the file, and the member withdraws the offer by
renaming the file. Only one of them succeeds.
"""

import json
import time
from pathlib import Path

from sharegroup.member.ranges import OfferedBatch

_OFFER, _SCRATCH, _CLAIMED, _WITHDRAWN, _CLOSED = "offer.json", "offer.new", "claimed.json", "withdrawn.json", "closed"
_POLL_S = 0.01


class OfferFile:
    """The member's side of the offer file: offers batches to the source, one at a time, and withdraws them.

    `directory` contains the file, on the driver's local disk.
    """

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def put(self, batch: OfferedBatch) -> None:
        """Offer a batch. The previous one must have been claimed or withdrawn."""
        scratch = self._directory / _SCRATCH
        scratch.write_text(json.dumps(batch.to_json(), separators=(",", ":")))
        scratch.replace(self._directory / _OFFER)

    def is_claimed(self) -> bool:
        """Return whether the source has claimed the last offer. After `withdraw`, the result is also True."""
        return not (self._directory / _OFFER).exists()

    def withdraw(self) -> bool:
        """Withdraw the offer and return True. Return False if the source has already claimed it."""
        return _rename(self._directory / _OFFER, self._directory / _WITHDRAWN)

    def close(self) -> None:
        """Announce that no further offer follows, so that `OfferReader.claim` no longer waits for one."""
        (self._directory / _CLOSED).touch()


class OfferReader:
    """The source's side of the offer file: waits for an offered batch and claims it."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def claim(self, wait_s: float = 0) -> OfferedBatch | None:
        """Claim and return the offered batch.

        Return None if no batch is offered within `wait_s` seconds, or if the member has closed its side of the file.
        """
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

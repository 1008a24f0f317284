"""Token bucket that limits a rate. By default, bursts of up to the tokens of one second are allowed. No I/O.

A caller may spend more tokens than the bucket has, because some amounts are not known in advance. An example is the
size of a response. The bucket then has a debt. `spend` returns how long the caller must wait until the debt is paid.
"""


class TokenBucket:
    """A bucket that gains `rate` tokens per second, and holds up to `burst` tokens. `burst` defaults to `rate`."""

    def __init__(self, rate: float, now_ms: float, burst: float | None = None) -> None:
        self._rate, self._burst = rate, max(rate if burst is None else burst, 1.0)
        self._tokens, self._seen_ms = self._burst, now_ms

    def spend(self, tokens: float, now_ms: float) -> int:
        """Spend `tokens`, even if the bucket has fewer and gets a debt.

        Return the time in ms (rounded up) until the debt is paid; 0 if there is no debt.
        """
        self._refill(now_ms)
        self._tokens -= tokens
        return 0 if self._tokens >= 0 else -int(self._tokens * 1000 // self._rate)

    def try_spend(self, now_ms: float) -> bool:
        """Spend one token if the bucket has one. Return whether it had one."""
        self._refill(now_ms)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def is_full(self, now_ms: float) -> bool:
        """Return whether the bucket is full. A full bucket may be deleted, because a new bucket is full too."""
        self._refill(now_ms)
        return self._tokens >= self._burst

    def _refill(self, now_ms: float) -> None:
        came = max(0.0, now_ms - self._seen_ms) * self._rate / 1000
        self._tokens = min(self._burst, self._tokens + came)
        self._seen_ms = max(self._seen_ms, now_ms)

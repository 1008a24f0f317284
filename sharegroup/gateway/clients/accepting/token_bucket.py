"""So much a second, and no more than a second's worth at once (Kafka: `TokenBucket`, without its samples). PURE.

Whoever spends more than there is goes into debt, and is told how long it takes until the debt is paid: so what is
spent need not be known before, as the size of a response is not.
"""

from __future__ import annotations


class TokenBucket:
    """`rate`: tokens a second. The bucket holds `burst` of them (a second's worth, unless another number is given)."""

    def __init__(self, rate: float, now_ms: float, burst: float | None = None) -> None:
        self._rate, self._burst = rate, max(rate if burst is None else burst, 1.0)
        self._tokens, self._seen_ms = self._burst, now_ms

    def spend(self, tokens: float, now_ms: float) -> int:
        """Take so many; how long (milliseconds, rounded up) until there is no debt, 0 for none."""
        self._refill(now_ms)
        self._tokens -= tokens
        return 0 if self._tokens >= 0 else -int(self._tokens * 1000 // self._rate)

    def take(self, now_ms: float) -> bool:
        """Take one, if there is one."""
        self._refill(now_ms)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def is_full(self, now_ms: float) -> bool:
        """Whether it is as a new one would be."""
        self._refill(now_ms)
        return self._tokens >= self._burst

    def _refill(self, now_ms: float) -> None:
        came = max(0.0, now_ms - self._seen_ms) * self._rate / 1000
        self._tokens = min(self._burst, self._tokens + came)
        self._seen_ms = max(self._seen_ms, now_ms)

"""Errors of the share consumer. Errors of brokers are RequestError, with Kafka's error code."""

from __future__ import annotations

from sharegroup.errors import ErrorCode, RequestError, ShareGroupError
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError

__all__ = [
    "ConcurrentUseError",
    "IllegalStateError",
    "InvalidSettingError",
    "RequestError",
    "ShareGroupsUnsupportedError",
    "UpstreamUnavailableError",
    "WakeupError",
]


class InvalidSettingError(ShareGroupError, ValueError):
    """The caller passed an unknown setting, or an invalid value of a setting."""


class IllegalStateError(ShareGroupError):
    """The consumer is in a state that does not allow the call (like Java's IllegalStateException)."""


class ConcurrentUseError(ShareGroupError):
    """The consumer was called while another call was in progress (Java: ConcurrentModificationException)."""


class WakeupError(ShareGroupError):
    """`wakeup` interrupted a poll or commit."""


class ShareGroupsUnsupportedError(RequestError):
    """The broker does not support share groups (UNSUPPORTED_VERSION)."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, message)

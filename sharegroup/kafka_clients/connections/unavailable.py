"""Errors of requests to upstream brokers."""

from sharegroup.errors import ShareGroupError


class UpstreamUnavailableError(ShareGroupError):
    """The upstream broker is unavailable, or did not respond in time."""


class UpstreamLoginRejectedError(UpstreamUnavailableError):
    """The upstream broker rejected the login."""

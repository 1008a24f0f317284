"""All of the gateway's security, as its configuration asks for it."""

from __future__ import annotations

import ipaddress
import ssl
from functools import partial

from sharegroup.config.gateway import GatewayConfig
from sharegroup.errors import InvalidConfigError
from sharegroup.gateway.security.acl import Acl, load_acl
from sharegroup.gateway.security.authorization import Authorization
from sharegroup.gateway.security.kept import Kept, KeptFiles
from sharegroup.gateway.security.mechanisms import LoginMechanisms
from sharegroup.gateway.security.tls import listener_context


class Security(Authorization):
    """What callers may do is in `Authorization`; here is how they come to be known, and what is read again."""

    def __init__(self, tls: Kept[ssl.SSLContext | None], logins: LoginMechanisms, acl: Kept[Acl] | None) -> None:
        super().__init__(None if acl is None else acl.value)
        self._tls, self.logins, self._acl_file = tls, logins, acl

    @classmethod
    def of(cls, config: GatewayConfig) -> Security:
        """Read the files that the configuration names. Raises InvalidConfigError, also for a door left open."""
        _check_listener(config)
        pems = config.tls_certificate, config.tls_key, config.tls_client_ca
        acls = KeptFiles(partial(load_acl, config.acls), [config.acls]) if config.acls else None
        return cls(KeptFiles(partial(listener_context, *pems), pems), LoginMechanisms(config), acls)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The listener's context for the next connection, None for plain ones."""
        return self._tls.value

    def look(self) -> None:
        """Read again what has changed: certificates, users, keys of tokens, the list. Blocks; for every second."""
        self._tls.look()
        self.logins.look()
        if self._acl_file is not None and self._acl_file.look():
            self.use(self._acl_file.value)


def _check_listener(config: GatewayConfig) -> None:
    """Without TLS and SASL nobody but this machine is served, unless that is what the configuration says."""
    is_secured = config.tls_certificate or config.sasl_users or config.token_keys
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

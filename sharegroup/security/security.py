"""The gateway's security as configured: TLS, login mechanisms and authorization."""

import ssl
from collections.abc import Iterable
from functools import partial
from typing import Self

from sharegroup.config.keys.gateway import GatewayConfig
from sharegroup.security.acl import Acl, load_acl
from sharegroup.security.authentication.mechanisms import LoginMechanisms
from sharegroup.security.authorization import Authorization
from sharegroup.security.listener import check_listener
from sharegroup.security.reloading import Reloading, ReloadingFiles
from sharegroup.security.tls import listener_context


class Security(Authorization):
    """The gateway's authentication and authorization, from the files that the configuration names.

    `reload` reads files that have changed.
    """

    def __init__(
        self,
        tls: Reloading[ssl.SSLContext | None],
        logins: LoginMechanisms,
        acl: Reloading[Acl] | None,
        hidden_topics: Iterable[str] = (),
    ) -> None:
        super().__init__(None if acl is None else acl.value, hidden_topics)
        self._tls, self.logins, self._acl_file = tls, logins, acl

    @classmethod
    def from_config(cls, config: GatewayConfig, hidden_topics: Iterable[str] = ()) -> Self:
        """Return the security that a configuration describes, with the content of the files that it names.

        `hidden_topics` are the job's internal topics. Raises InvalidConfigError if a file or the login configuration is
        invalid (`LoginMechanisms`), or if the listener is not protected (`check_listener`).
        """
        check_listener(config, "gateway.listener.host", config.listener_host, takes_tokens=True)
        pems = config.tls_certificate, config.tls_key, config.tls_client_ca
        acls = ReloadingFiles(partial(load_acl, config.acls), [config.acls]) if config.acls else None
        return cls(ReloadingFiles(partial(listener_context, *pems), pems), LoginMechanisms(config), acls, hidden_topics)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """Return the listener's TLS context for new connections, None without TLS."""
        return self._tls.value

    def reload(self) -> None:
        """Reload certificates, users, token keys and access control list if they have changed.

        Blocks. Must be called about every second.
        """
        self._tls.check()
        self.logins.check()
        if self._acl_file is not None and self._acl_file.check():
            self.replace_list(self._acl_file.value)

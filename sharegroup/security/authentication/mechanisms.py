"""The SASL mechanisms that clients may use, with the users and keys that verify logins."""

import secrets
import time
from collections.abc import Callable
from functools import partial

from sharegroup.config.keys.gateway import GatewayConfig, UpstreamIdentity
from sharegroup.config.keys.login_names import MECHANISMS, PASSWORD_MECHANISMS
from sharegroup.errors import InvalidConfigError
from sharegroup.security.authentication.credentials import SCRAM_MECHANISMS, Credentials, load_credentials
from sharegroup.security.authentication.oauth_bearer import OAUTHBEARER, OAuthBearerExchange, parse_message
from sharegroup.security.authentication.password_exchanges import PLAIN, PlainExchange, ScramExchange
from sharegroup.security.authentication.sasl_exchange import Exchange, LoginRejectedError, Mechanisms
from sharegroup.security.authentication.token_check import TokenCheck
from sharegroup.security.authentication.token_keys import TokenKeys, fetch_keys, keys_path, read_keys
from sharegroup.security.reloading import Reloading, ReloadingFiles, ReloadingResponse

#: Minimum time in seconds between two requests for token keys. It also applies when clients send tokens with unknown
#: keys.
KEYS_PAUSE_S = 10.0


class LoginMechanisms:
    """The SASL mechanisms that clients may use to log in, with the current users and token keys.

    By default, all mechanisms are enabled for which users or token keys are configured. If the brokers verify the
    logins (`gateway.upstream.identity: client`), no mechanism is enabled here.

    The constructor raises InvalidConfigError if an enabled mechanism has no users or token keys, if the file of users
    or keys is invalid, or if token keys are configured without the issuer and audience of tokens.
    """

    def __init__(self, config: GatewayConfig) -> None:
        self._users = _users(config)
        self._keys = _keys(config)
        self._tokens = None if self._keys is None else _token_check(config, self._keys)
        usable = (*(PASSWORD_MECHANISMS if self._users else ()), *((OAUTHBEARER,) if self._tokens else ()))
        enabled = () if config.upstream_identity is UpstreamIdentity.CLIENT else config.sasl_mechanisms or usable
        if problems := [_missing(name) for name in enabled if name not in usable]:
            raise InvalidConfigError("gateway", problems)
        #: {mechanism: function that creates the exchange for one login}
        self.enabled: Mechanisms = {name: self._exchange(name) for name in MECHANISMS if name in enabled}

    def __bool__(self) -> bool:
        """Return whether any mechanism is enabled. If none is enabled, the gateway itself verifies no SASL logins."""
        return bool(self.enabled)

    def check(self) -> None:
        """Reload the users and the token keys if they have changed. Blocks."""
        for reloading in (self._users, self._keys):
            if reloading is not None:
                reloading.check()

    def has_unknown_key(self, message: bytes) -> bool:
        """Return whether the token in a client's first OAUTHBEARER message is signed by an unknown key.

        Returns False if the message is malformed, or if the gateway accepts no tokens.
        """
        if self._tokens is None:
            return False
        try:
            _, token = parse_message(message.decode())
        except (LoginRejectedError, UnicodeDecodeError):
            return False
        return self._tokens.has_unknown_key(token)

    def reload_keys(self) -> None:
        """Reload the token keys without waiting for the next `check`. Blocks.

        A file is read if it has changed. A server is queried, unless its last query is less than `KEYS_PAUSE_S` seconds
        ago.
        """
        if self._keys is not None:
            self._keys.reload_now()

    def _exchange(self, name: str) -> Callable[[], Exchange]:
        if self._tokens is not None and name == OAUTHBEARER:
            return partial(OAuthBearerExchange, self._tokens)
        users = self._users
        assert users is not None
        if name == PLAIN:
            return lambda: PlainExchange(users.value)
        assert name in SCRAM_MECHANISMS
        return lambda: ScramExchange(name, users.value, secrets.token_hex(16))


def _missing(mechanism: str) -> str:
    needed = "oauthbearer.jwks.endpoint.url" if mechanism == OAUTHBEARER else "users.location"
    return f"gateway.sasl.enabled.mechanisms: {mechanism} needs gateway.sasl.{needed}"


def _users(config: GatewayConfig) -> Reloading[Credentials] | None:
    if not config.sasl_users:
        return None
    return ReloadingFiles(partial(load_credentials, config.sasl_users, secrets.token_bytes(32)), [config.sasl_users])


def _keys(config: GatewayConfig) -> Reloading[TokenKeys] | None:
    """Return the token keys from the configured file or server, None if neither is configured.

    Raises InvalidConfigError if the URL is invalid, or if a file is missing or invalid. A server is not queried here.
    There are no keys until the first successful query.
    """
    if not config.token_keys:
        return None
    path = keys_path(config.token_keys)
    if path is not None:
        return ReloadingFiles(partial(read_keys, path), [path])
    refresh_s = config.token_keys_refresh_ms / 1000
    return ReloadingResponse(
        partial(fetch_keys, config.token_keys), TokenKeys({}), refresh_s, KEYS_PAUSE_S, time.monotonic
    )


def _token_check(config: GatewayConfig, keys: Reloading[TokenKeys]) -> TokenCheck:
    needed = {"issuer": config.token_issuer, "audience": config.token_audiences}
    if missing := [name for name, value in needed.items() if not value]:
        names = ", ".join(f"gateway.sasl.oauthbearer.expected.{name}" for name in missing)
        raise InvalidConfigError(
            "gateway", [f"{names}: required; otherwise tokens for other services would be accepted"]
        )
    return TokenCheck(
        keys,
        config.token_issuer,
        config.token_audiences,
        config.token_claim,
        config.token_algorithms,
        config.token_clock_skew_s,
    )

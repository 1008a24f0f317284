"""The name of the gateway's listener, and the check of its address.

An address that other machines can reach requires authentication and an access control list.
"""

import ipaddress

from sharegroup.config.keys.gateway import GatewayConfig, UpstreamIdentity
from sharegroup.errors import InvalidConfigError


def check_listener(config: GatewayConfig, key: str, host: str, takes_tokens: bool = False) -> None:
    """Raise InvalidConfigError if other machines can reach `host`, unless access is authenticated and restricted.

    Authentication and an access control list must both be configured. Without a list, every user may do everything.

    `host` is the value of config `key`. `takes_tokens` is True for the gateway's listener and False for the web page.
    Both accept passwords and client certificates, and the gateway also accepts tokens.

    The check is skipped with `gateway.allow.everyone`. For the gateway, it is also skipped if clients use their own
    identity at the brokers, because the brokers then authenticate and authorize them.
    """
    if config.allow_everyone or is_loopback(host):
        return
    if takes_tokens and config.upstream_identity is UpstreamIdentity.CLIENT:
        return  # the brokers authenticate and authorize the clients
    missing = []
    ways = {
        "gateway.sasl.users.location": config.sasl_users,
        "gateway.ssl.client.ca.location": config.tls_client_ca,
    }
    if takes_tokens:
        ways["gateway.sasl.oauthbearer.jwks.endpoint.url"] = config.token_keys
    if not any(ways.values()):
        missing.append(f"authentication ({' or '.join(ways)})")
    if not config.acls:
        missing.append("an access control list (gateway.acls.location)")
    if missing:
        problem = f"{key}: other machines can reach {host}, without {' and without '.join(missing)}"
        raise InvalidConfigError("gateway", [f"{problem}; set gateway.allow.everyone: true if this is intended"])


def listener_name(config: GatewayConfig) -> str:
    """Return the listener's configured name. By default, as in Kafka, this is the name of its security protocol."""
    if config.listener_name:
        return config.listener_name
    has_sasl = config.sasl_users or config.token_keys or config.upstream_identity is UpstreamIdentity.CLIENT
    transport = "SSL" if config.tls_certificate else "PLAINTEXT"
    return f"SASL_{transport}" if has_sasl else transport


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address. Of host names, only localhost is recognised."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"

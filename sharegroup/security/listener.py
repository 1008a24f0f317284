"""The name of the gateway's listener, and the check of its address.

An address that other machines can reach requires authentication and an access control list.
"""

import ipaddress

from sharegroup.config.keys.gateway import GatewayConfig, UpstreamIdentity
from sharegroup.errors import InvalidConfigError


def check_listener(config: GatewayConfig, key: str, host: str, takes_tokens: bool = False) -> None:
    """Raise InvalidConfigError if other machines can reach the address `host` of config `key` without protection.

    Protection means authentication, by SASL or client certificates, and an access control list, because without a list
    every user may do everything. The server's certificate does not authenticate clients. With `takes_tokens`, clients
    may also authenticate with tokens.
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
    """Return the configured name of the listener, by default the name of its security protocol, as in Kafka."""
    if config.listener_name:
        return config.listener_name
    has_sasl = config.sasl_users or config.token_keys or config.upstream_identity is UpstreamIdentity.CLIENT
    transport = "SSL" if config.tls_certificate else "PLAINTEXT"
    return f"SASL_{transport}" if has_sasl else transport


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address. Names are not resolved, except localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"

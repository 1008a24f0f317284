"""A gateway's listener: its name, and whom its address may be open to.

To others than this machine only where they prove who they are, and have a list.
"""

from __future__ import annotations

import ipaddress

from sharegroup.config.keys.gateway import GatewayConfig, UpstreamIdentity
from sharegroup.errors import InvalidConfigError


def check_listener(config: GatewayConfig, key: str, host: str, takes_tokens: bool = False) -> None:
    """Check the address `host` of configuration key `key`, where tokens may be shown. Raises InvalidConfigError.

    Others need authentication, by SASL or by certificates of their own, and an access control list: without a list any
    user may do everything. The server's certificate says who the gateway is, and nothing of who comes.
    """
    if config.allow_everyone or is_loopback(host):
        return
    if takes_tokens and config.upstream_identity is UpstreamIdentity.CLIENT:
        return  # the brokers say who comes in, and what for
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
        problem = f"{key}: {host} is open to others, without {' and without '.join(missing)}"
        raise InvalidConfigError("gateway", [f"{problem}; gateway.allow.everyone: true if that is meant"])


def listener_name(config: GatewayConfig) -> str:
    """The listener's own name, or that of its security protocol, as Kafka's listeners have it."""
    if config.listener_name:
        return config.listener_name
    has_sasl = config.sasl_users or config.token_keys or config.upstream_identity is UpstreamIdentity.CLIENT
    transport = "SSL" if config.tls_certificate else "PLAINTEXT"
    return f"SASL_{transport}" if has_sasl else transport


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. Names are not looked up: but for localhost, they are not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"

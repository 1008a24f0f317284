"""Section `gateway`: the server that speaks Kafka's wire protocol (Kafka has no counterpart for most of these keys)."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import AfterValidator

from sharegroup.config.family import ConfigFamily, Flag, Whole, key
from sharegroup.config.keys.advertised_listeners import AdvertisedListeners
from sharegroup.config.keys.connection_limits import ALLOWED, check_overrides
from sharegroup.config.keys.login_names import ALGORITHMS, MECHANISMS, Algorithms, Audiences, Mechanisms


class UpstreamIdentity(str, Enum):
    """In whose name what passes through the gateway comes to the brokers."""

    GATEWAY = "gateway"
    CLIENT = "client"


def _advertised(text: str) -> str:
    AdvertisedListeners.parse(text)
    return text


class GatewayConfig(ConfigFamily):
    """Keys of the section `gateway`. An empty path means off; what files hold is read again when they change."""

    listener_host: str = key("gateway.listener.host", "127.0.0.1", "Address to listen on.", min_length=1)
    listener_port: Whole = key(
        "gateway.listener.port",
        9192,
        "Bootstrap port. Port + n serves broker n, port - 1 clients of other gateways. 0: any free ports.",
        ge=0,
        le=65535,
    )
    listener_name: str = key(
        "gateway.listener.name",
        "",
        "Gateways of one name stand in for each other; empty: the security protocol's, such as SASL_SSL.",
    )
    advertised_host: str = key(
        "gateway.advertised.host", "", "Host that clients are told; empty: gateway.listener.host."
    )
    advertised_listeners: Annotated[str, AfterValidator(_advertised)] = key(
        "gateway.advertised.listeners",
        "",
        "Addresses that clients are told, where they are others (docs/gateways.md); empty: the host above.",
        allowed="[BROKER=]HOST:PORT, ..., with {broker}, {port}, {hostname}",
    )
    allow_everyone: Flag = key(
        "gateway.allow.everyone",
        False,
        "Listen on other addresses than loopback without authentication or without an access control list.",
    )
    max_connections: Whole = key("gateway.max.connections", 5_000, "Most client connections of this gateway.", ge=1)
    max_connections_per_ip: Whole = key(
        "gateway.max.connections.per.ip", 2_500, "Most connections of one address.", ge=0
    )
    max_connections_per_ip_overrides: Annotated[str, AfterValidator(check_overrides)] = key(
        "gateway.max.connections.per.ip.overrides",
        "",
        "Most connections of these addresses, in place of the limit and the rate for any.",
        allowed=ALLOWED,
    )
    max_connection_creation_rate_per_ip: Whole = key(
        "gateway.max.connection.creation.rate.per.ip",
        0,
        "Most new connections a second of one address. 0: any number.",
        ge=0,
    )
    connections_max_idle_ms: Whole = key(
        "gateway.connections.max.idle.ms", 600_000, "A connection without a request for so long is closed.", ge=1_000
    )
    tcp_keepalive_ms: Whole = key(
        "gateway.tcp.keepalive.ms",
        45_000,
        "A client whose machine answers nothing to TCP for so long is gone. 0: left to TCP.",
        ge=0,
        le=3_600_000,
    )
    first_request_timeout_ms: Whole = key(
        "gateway.first.request.timeout.ms",
        10_000,
        "A new connection has to send its first request (and to authenticate) within this time.",
        ge=100,
    )
    failed_authentication_delay_ms: Whole = key(
        "gateway.connection.failed.authentication.delay.ms",
        100,
        "After a failed login its answer, and other logins of its address, wait so long.",
        ge=0,
        le=10_000,
    )
    request_max_bytes: Whole = key(
        "gateway.request.max.bytes",
        104_857_600,
        "Largest request that passes through; those that do not are limited to 1 MiB.",
        ge=1_024,
        le=2_147_483_647,
    )
    queued_max_request_bytes: Whole = key(
        "gateway.queued.max.request.bytes",
        134_217_728,
        "Memory for requests above 64 KiB, of all connections, while they are read and handled.",
        ge=1_048_576,
    )
    request_stall_timeout_ms: Whole = key(
        "gateway.request.stall.timeout.ms",
        10_000,
        "A connection that holds some of this memory has to send 64 KiB more within this time.",
        ge=100,
    )
    drain_timeout_ms: Whole = key(
        "gateway.drain.timeout.ms",
        10_000,
        "How long a gateway that is told to end waits for its clients to finish what they hold, and to go.",
        ge=0,
    )
    job_timeout_ms: Whole = key(
        "gateway.job.timeout.ms",
        20_000,
        "How long a request waits for the job before it is answered with a retriable error.",
        ge=100,
    )
    ack_margin_ms: Whole = key(
        "gateway.ack.margin.ms",
        5_000,
        "Lock time that must be left for an acknowledgement to be answered before the job has run it.",
        ge=0,
    )
    read_ahead_min_records: Whole = key(
        "gateway.read.ahead.min.records",
        0,
        "Least records acquired at a time for a member; 0: as many as its fetch asks for.",
        ge=0,
    )
    read_ahead_max_records: Whole = key(
        "gateway.read.ahead.max.records",
        200_000,
        "Most records acquired ahead for one member of one share-partition.",
        ge=1,
    )
    read_ahead_linger_ms: Whole = key(
        "gateway.read.ahead.linger.ms",
        0,
        "How long asking ahead may wait for others at the job; more is read ahead for it.",
        ge=0,
        le=5_000,
    )
    read_ahead_idle_ms: Whole = key(
        "gateway.read.ahead.idle.ms",
        500,
        "Records acquired ahead go back when the member is away this long, and four of its usual pauses.",
        ge=1,
    )
    batch_cache_max_bytes: Whole = key(
        "gateway.batch.cache.max.bytes", 67_108_864, "Memory for record batches read from the brokers.", ge=1
    )
    metrics_host: str = key("gateway.metrics.host", "127.0.0.1", "Address to show metrics at.", min_length=1)
    metrics_port: Whole = key(
        "gateway.metrics.port", 0, "Port of /metrics, /healthz and /readyz. 0: off.", ge=0, le=65535
    )
    ui_host: str = key("gateway.ui.host", "127.0.0.1", "Address to show the page at.", min_length=1)
    ui_port: Whole = key(
        "gateway.ui.port", 0, "Port of the page, in a process of its own beside the gateway. 0: off.", ge=0, le=65535
    )
    ui_allow_changes: Flag = key(
        "gateway.ui.allow.changes",
        False,
        "Users of the page may reset offsets, remove members and alter configs (experimental).",
    )
    max_share_sessions: Whole = key(
        "group.share.max.share.sessions", 2_000, "Most share sessions of each upstream broker.", ge=1
    )
    tls_certificate: str = key("gateway.ssl.certificate.location", "", "Certificate chain (PEM); set: TLS only.")
    tls_key: str = key("gateway.ssl.key.location", "", "Private key (PEM).")
    tls_client_ca: str = key(
        "gateway.ssl.client.ca.location",
        "",
        "Certificate authorities (PEM) of clients; set: clients must have a certificate.",
    )
    sasl_users: str = key(
        "gateway.sasl.users.location",
        "",
        "Users and their credentials (YAML); set: clients authenticate, by PLAIN or SCRAM.",
    )
    sasl_mechanisms: Mechanisms = key(
        "gateway.sasl.enabled.mechanisms",
        (),
        "How clients may authenticate; empty: by all for which there are users or keys of tokens.",
        allowed=f"a list of {', '.join(MECHANISMS)}",
    )
    max_reauth_ms: Whole = key(
        "gateway.connections.max.reauth.ms",
        0,
        "Clients have to authenticate again after this time (KIP-368). 0: only when their token ends.",
        ge=0,
    )
    token_keys: str = key(
        "gateway.sasl.oauthbearer.jwks.endpoint.url",
        "",
        "Keys of tokens, a JWKS (file: or https:); set: clients may authenticate by OAUTHBEARER.",
    )
    token_keys_refresh_ms: Whole = key(
        "gateway.sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "How often keys are asked for by https. A file is read again when it changes.",
        ge=10_000,
    )
    token_issuer: str = key("gateway.sasl.oauthbearer.expected.issuer", "", "Who has to have issued a token (`iss`).")
    token_audiences: Audiences = key(
        "gateway.sasl.oauthbearer.expected.audience",
        (),
        "For whom a token has to be (`aud`): one of these.",
        allowed="a list of texts",
    )
    token_claim: str = key(
        "gateway.sasl.oauthbearer.sub.claim.name", "sub", "The claim of a token that has the user's name.", min_length=1
    )
    token_algorithms: Algorithms = key(
        "gateway.sasl.oauthbearer.algorithms",
        ALGORITHMS,
        "How tokens may be signed.",
        min_length=1,
        allowed=f"a list of {', '.join(ALGORITHMS)}",
    )
    token_clock_skew_s: Whole = key(
        "gateway.sasl.oauthbearer.clock.skew.seconds",
        30,
        "How far the clock of a token's issuer may be off.",
        ge=0,
        le=300,
    )
    upstream_identity: UpstreamIdentity = key(
        "gateway.upstream.identity",
        UpstreamIdentity.GATEWAY,
        "Who acts at the brokers: the gateway, or (experimental) each client, so that its own rights hold.",
    )
    acls: str = key("gateway.acls.location", "", "Access control list (YAML); set: what it does not allow is denied.")
    quotas: str = key(
        "gateway.quota.location",
        "",
        "Quotas of users and client ids (YAML); what they do not say is as the next two keys say.",
    )
    quota_consumer_byte_rate: Whole = key(
        "gateway.quota.consumer.byte.rate",
        0,
        "Bytes a second of a client's ShareFetch responses, before it is throttled. 0: any number.",
        ge=0,
    )
    quota_request_rate: Whole = key(
        "gateway.quota.request.rate",
        0,
        "Requests a second of a client that the gateway answers, before it is throttled. 0: any number.",
        ge=0,
    )

"""Section `gateway`: the server that speaks Kafka's wire protocol (Kafka has no counterpart for most of these keys)."""

from enum import Enum
from typing import Annotated

from pydantic import AfterValidator

from sharegroup.config.family import ConfigFamily, Flag, Whole, key
from sharegroup.config.keys.advertised_listeners import AdvertisedListeners
from sharegroup.config.keys.connection_limits import ALLOWED, check_overrides
from sharegroup.config.keys.login_names import ALGORITHMS, MECHANISMS, Algorithms, Audiences, Mechanisms


class UpstreamIdentity(str, Enum):
    """The identity with which requests are forwarded to the brokers: the gateway's own, or that of each client."""

    GATEWAY = "gateway"
    CLIENT = "client"


def _advertised(text: str) -> str:
    AdvertisedListeners.parse(text)
    return text


class GatewayConfig(ConfigFamily):
    """Keys of the section `gateway`. A feature that needs a file is off if the path of the file is empty.

    A running gateway reloads changed files of certificates, users, token keys and ACLs.
    """

    listener_host: str = key("gateway.listener.host", "127.0.0.1", "Address that the gateway listens on.", min_length=1)
    listener_port: Whole = key(
        "gateway.listener.port",
        9192,
        "Bootstrap port. Port + n serves broker n; port - 1 serves clients of other gateways. 0: any free ports.",
        ge=0,
        le=65535,
    )
    listener_name: str = key(
        "gateway.listener.name",
        "",
        "Listener name. Clients of a failed gateway move to gateways with the same name. Empty: the security "
        "protocol, such as SASL_SSL.",
    )
    advertised_host: str = key(
        "gateway.advertised.host", "", "Host that clients connect to. Empty: gateway.listener.host."
    )
    advertised_listeners: Annotated[str, AfterValidator(_advertised)] = key(
        "gateway.advertised.listeners",
        "",
        "Addresses that clients connect to, if they differ from the host and ports above (docs/gateways.md).",
        allowed="[BROKER=]HOST:PORT, ..., with {broker}, {port}, {hostname}",
    )
    allow_everyone: Flag = key(
        "gateway.allow.everyone",
        False,
        "Whether the gateway may listen on other addresses than loopback without authentication or without an access "
        "control list.",
    )
    max_connections: Whole = key(
        "gateway.max.connections", 5_000, "Maximum number of client connections of this gateway.", ge=1
    )
    max_connections_per_ip: Whole = key(
        "gateway.max.connections.per.ip", 2_500, "Maximum number of connections from one IP address.", ge=0
    )
    max_connections_per_ip_overrides: Annotated[str, AfterValidator(check_overrides)] = key(
        "gateway.max.connections.per.ip.overrides",
        "",
        "Maximum number of connections of the listed IP addresses. The limit and the rate for other addresses do not "
        "apply to them.",
        allowed=ALLOWED,
    )
    max_connection_creation_rate_per_ip: Whole = key(
        "gateway.max.connection.creation.rate.per.ip",
        0,
        "Maximum number of new connections per second from one IP address. 0: unlimited.",
        ge=0,
    )
    connections_max_idle_ms: Whole = key(
        "gateway.connections.max.idle.ms",
        600_000,
        "Time without a request after which a connection is closed.",
        ge=1_000,
    )
    tcp_keepalive_ms: Whole = key(
        "gateway.tcp.keepalive.ms",
        45_000,
        "Time without a response to TCP keepalive probes after which a connection is closed. 0: the operating "
        "system's setting.",
        ge=0,
        le=3_600_000,
    )
    first_request_timeout_ms: Whole = key(
        "gateway.first.request.timeout.ms",
        10_000,
        "Time within which a new connection must send its first request and authenticate.",
        ge=100,
    )
    failed_authentication_delay_ms: Whole = key(
        "gateway.connection.failed.authentication.delay.ms",
        100,
        "Delay of the response to a failed login, and of other logins from the same IP address.",
        ge=0,
        le=10_000,
    )
    request_max_bytes: Whole = key(
        "gateway.request.max.bytes",
        104_857_600,
        "Maximum size of a request that is forwarded to a broker. Other requests are limited to 1 MiB.",
        ge=1_024,
        le=2_147_483_647,
    )
    queued_max_request_bytes: Whole = key(
        "gateway.queued.max.request.bytes",
        134_217_728,
        "Maximum memory that all connections together use for requests above 64 KiB, while these are read and handled.",
        ge=1_048_576,
    )
    request_stall_timeout_ms: Whole = key(
        "gateway.request.stall.timeout.ms",
        10_000,
        "Time within which a client that sends a request above 64 KiB must send the next 64 KiB of it.",
        ge=100,
    )
    drain_timeout_ms: Whole = key(
        "gateway.drain.timeout.ms",
        10_000,
        "Time that a stopping gateway gives its clients to finish their acquired records and to disconnect.",
        ge=0,
    )
    job_timeout_ms: Whole = key(
        "gateway.job.timeout.ms",
        20_000,
        "Time that a request waits for the job before the gateway responds with a retriable error.",
        ge=100,
    )
    ack_margin_ms: Whole = key(
        "gateway.ack.margin.ms",
        5_000,
        "The gateway responds to an acknowledgement before the job has processed it if the record's lock lasts for at "
        "least this time.",
        ge=0,
    )
    read_ahead_min_records: Whole = key(
        "gateway.read.ahead.min.records",
        0,
        "Minimum number of records to acquire at a time for a member. 0: the number that its fetch requests.",
        ge=0,
    )
    read_ahead_max_records: Whole = key(
        "gateway.read.ahead.max.records",
        200_000,
        "Maximum number of records to acquire for a member in one share-partition before the member fetches them.",
        ge=1,
    )
    read_ahead_linger_ms: Whole = key(
        "gateway.read.ahead.linger.ms",
        0,
        "Maximum delay of a request that acquires records ahead, so that requests share a micro-batch. More records "
        "are acquired ahead to compensate for the delay.",
        ge=0,
        le=5_000,
    )
    read_ahead_idle_ms: Whole = key(
        "gateway.read.ahead.idle.ms",
        500,
        "Minimum time without a fetch after which records acquired ahead for a member are released. At least four "
        "times the member's usual pause between fetches must have passed as well.",
        ge=1,
    )
    reserves: Flag = key(
        "gateway.reservations.enable",
        True,
        "Whether the gateway reserves the next records for members that wait, and delivers them without waiting for a "
        "micro-batch.",
    )
    batch_cache_max_bytes: Whole = key(
        "gateway.batch.cache.max.bytes", 67_108_864, "Maximum size of the cache of record batches.", ge=1
    )
    metrics_host: str = key("gateway.metrics.host", "127.0.0.1", "Address of the metrics server.", min_length=1)
    metrics_port: Whole = key(
        "gateway.metrics.port", 0, "Port of /metrics, /healthz and /readyz. 0: disabled.", ge=0, le=65535
    )
    ui_host: str = key("gateway.ui.host", "127.0.0.1", "Address of the web page.", min_length=1)
    ui_port: Whole = key(
        "gateway.ui.port",
        0,
        "Port of the web page, which runs in its own process beside the gateway. 0: disabled.",
        ge=0,
        le=65535,
    )
    ui_allow_changes: Flag = key(
        "gateway.ui.allow.changes",
        False,
        "Whether users of the web page may reset offsets, remove members and alter configs (experimental).",
    )
    max_share_sessions: Whole = key(
        "group.share.max.share.sessions", 2_000, "Maximum number of share sessions for each upstream broker.", ge=1
    )
    tls_certificate: str = key(
        "gateway.ssl.certificate.location", "", "Certificate chain (PEM). If set, clients must use TLS."
    )
    tls_key: str = key("gateway.ssl.key.location", "", "Private key of the certificate (PEM).")
    tls_client_ca: str = key(
        "gateway.ssl.client.ca.location",
        "",
        "Certificate authorities of client certificates (PEM). If set, clients must have a certificate.",
    )
    sasl_users: str = key(
        "gateway.sasl.users.location",
        "",
        "Users and their credentials (YAML). If set, clients must authenticate with PLAIN or SCRAM.",
    )
    sasl_mechanisms: Mechanisms = key(
        "gateway.sasl.enabled.mechanisms",
        (),
        "SASL mechanisms that clients may use. Empty: all for which there are users or token keys.",
        allowed=f"list of {', '.join(MECHANISMS)}",
    )
    max_reauth_ms: Whole = key(
        "gateway.connections.max.reauth.ms",
        0,
        "Time after which clients must authenticate again (KIP-368). 0: only when their token expires.",
        ge=0,
    )
    token_keys: str = key(
        "gateway.sasl.oauthbearer.jwks.endpoint.url",
        "",
        "JWKS with the keys of tokens (file: or https: URL). If set, clients may authenticate with OAUTHBEARER.",
    )
    token_keys_refresh_ms: Whole = key(
        "gateway.sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "Interval at which an https: JWKS is fetched. A file: JWKS is read again when it changes.",
        ge=10_000,
    )
    token_issuer: str = key(
        "gateway.sasl.oauthbearer.expected.issuer",
        "",
        "Required issuer of a token (claim `iss`). Must be set if there is a JWKS.",
    )
    token_audiences: Audiences = key(
        "gateway.sasl.oauthbearer.expected.audience",
        (),
        "Accepted audiences of a token (claim `aud`). One of them is sufficient. Must be set if there is a JWKS.",
        allowed="list of strings",
    )
    token_claim: str = key(
        "gateway.sasl.oauthbearer.sub.claim.name", "sub", "Claim of a token that has the user name.", min_length=1
    )
    token_algorithms: Algorithms = key(
        "gateway.sasl.oauthbearer.algorithms",
        ALGORITHMS,
        "Accepted signature algorithms of tokens.",
        min_length=1,
        allowed=f"list of {', '.join(ALGORITHMS)}",
    )
    token_clock_skew_s: Whole = key(
        "gateway.sasl.oauthbearer.clock.skew.seconds",
        30,
        "Maximum difference to the clock of a token's issuer.",
        ge=0,
        le=300,
    )
    upstream_identity: UpstreamIdentity = key(
        "gateway.upstream.identity",
        UpstreamIdentity.GATEWAY,
        "Identity at the brokers: that of the gateway, or (experimental) that of each client, whose own rights at the "
        "brokers then apply.",
    )
    acls: str = key(
        "gateway.acls.location", "", "Access control list (YAML). If set, anything it does not allow is denied."
    )
    quotas: str = key(
        "gateway.quota.location",
        "",
        "Quotas of users and client ids (YAML). Clients without an entry have gateway.quota.consumer.byte.rate and "
        "gateway.quota.request.rate.",
    )
    quota_consumer_byte_rate: Whole = key(
        "gateway.quota.consumer.byte.rate",
        0,
        "Bytes per second of ShareFetch responses above which a client is throttled. 0: unlimited.",
        ge=0,
    )
    quota_request_rate: Whole = key(
        "gateway.quota.request.rate",
        0,
        "Requests per second above which a client is throttled. Requests that are forwarded to brokers do not count. "
        "0: unlimited.",
        ge=0,
    )

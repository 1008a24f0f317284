"""Section `gateway`: the server that speaks Kafka's wire protocol (Kafka has no counterpart for most of these keys)."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import AfterValidator, Field

from sharegroup.config.advertised_listeners import AdvertisedListeners
from sharegroup.config.connection_limits import ALLOWED, check_overrides
from sharegroup.config.family import ConfigFamily, Flag, Whole
from sharegroup.config.login_names import ALGORITHMS, MECHANISMS, Algorithms, Audiences, Mechanisms

__all__ = ["GatewayConfig", "UpstreamIdentity"]


class UpstreamIdentity(str, Enum):
    """In whose name what passes through the gateway comes to the brokers."""

    GATEWAY = "gateway"
    CLIENT = "client"


def _advertised(text: str) -> str:
    AdvertisedListeners.parse(text)
    return text


class GatewayConfig(ConfigFamily):
    """Keys of the section `gateway`. An empty path means off; what files hold is read again when they change."""

    listener_host: str = Field(
        default="127.0.0.1", alias="gateway.listener.host", min_length=1, description="Address to listen on."
    )
    listener_port: Whole = Field(
        default=9192,
        alias="gateway.listener.port",
        ge=0,
        le=65535,
        description="Bootstrap port. Port + n serves broker n, port - 1 clients of other gateways. 0: any free ports.",
    )
    listener_name: str = Field(
        default="",
        alias="gateway.listener.name",
        description="Gateways of one name stand in for each other; empty: the security protocol's, such as SASL_SSL.",
    )
    advertised_host: str = Field(
        default="",
        alias="gateway.advertised.host",
        description="Host that clients are told; empty: gateway.listener.host.",
    )
    advertised_listeners: Annotated[str, AfterValidator(_advertised)] = Field(
        default="",
        alias="gateway.advertised.listeners",
        description="Addresses that clients are told, where they are others (docs/gateways.md); empty: the host above.",
        json_schema_extra={"allowed": "[BROKER=]HOST:PORT, ..., with {broker}, {port}, {hostname}"},
    )
    allow_everyone: Flag = Field(
        default=False,
        alias="gateway.allow.everyone",
        description="Listen on other addresses than loopback without authentication or without an access control list.",
    )
    max_connections: Whole = Field(
        default=5_000, alias="gateway.max.connections", ge=1, description="Most client connections of this gateway."
    )
    max_connections_per_ip: Whole = Field(
        default=2_500,
        alias="gateway.max.connections.per.ip",
        ge=0,
        description="Most connections of one address.",
    )
    max_connections_per_ip_overrides: Annotated[str, AfterValidator(check_overrides)] = Field(
        default="",
        alias="gateway.max.connections.per.ip.overrides",
        description="Most connections of these addresses, in place of the limit and the rate for any.",
        json_schema_extra={"allowed": ALLOWED},
    )
    max_connection_creation_rate_per_ip: Whole = Field(
        default=0,
        alias="gateway.max.connection.creation.rate.per.ip",
        ge=0,
        description="Most new connections a second of one address. 0: any number.",
    )
    connections_max_idle_ms: Whole = Field(
        default=600_000,
        alias="gateway.connections.max.idle.ms",
        ge=1_000,
        description="A connection without a request for so long is closed.",
    )
    tcp_keepalive_ms: Whole = Field(
        default=45_000,
        alias="gateway.tcp.keepalive.ms",
        ge=0,
        le=3_600_000,
        description="A client whose machine answers nothing to TCP for so long is gone. 0: left to TCP.",
    )
    first_request_timeout_ms: Whole = Field(
        default=10_000,
        alias="gateway.first.request.timeout.ms",
        ge=100,
        description="A new connection has to send its first request (and to authenticate) within this time.",
    )
    failed_authentication_delay_ms: Whole = Field(
        default=100,
        alias="gateway.connection.failed.authentication.delay.ms",
        ge=0,
        le=10_000,
        description="After a failed login its answer, and other logins of its address, wait so long.",
    )
    request_max_bytes: Whole = Field(
        default=104_857_600,
        alias="gateway.request.max.bytes",
        ge=1_024,
        le=2_147_483_647,
        description="Largest request that passes through; those that do not are limited to 1 MiB.",
    )
    queued_max_request_bytes: Whole = Field(
        default=134_217_728,
        alias="gateway.queued.max.request.bytes",
        ge=1_048_576,
        description="Memory for requests above 64 KiB, of all connections, while they are read and handled.",
    )
    request_stall_timeout_ms: Whole = Field(
        default=10_000,
        alias="gateway.request.stall.timeout.ms",
        ge=100,
        description="A connection that holds some of this memory has to send 64 KiB more within this time.",
    )
    drain_timeout_ms: Whole = Field(
        default=10_000,
        alias="gateway.drain.timeout.ms",
        ge=0,
        description="How long a gateway that is told to end waits for its clients to finish what they hold, and to go.",
    )
    job_timeout_ms: Whole = Field(
        default=20_000,
        alias="gateway.job.timeout.ms",
        ge=100,
        description="How long a request waits for the job before it is answered with a retriable error.",
    )
    ack_margin_ms: Whole = Field(
        default=5_000,
        alias="gateway.ack.margin.ms",
        ge=0,
        description="Lock time that must be left for an acknowledgement to be answered before the job has run it.",
    )
    demand_wait_ms: Whole = Field(
        default=300_000,
        alias="gateway.demand.wait.ms",
        ge=1_000,
        description="How long a member's demand for records stands at the job before it is renewed.",
    )
    read_ahead_min_records: Whole = Field(
        default=0,
        alias="gateway.read.ahead.min.records",
        ge=0,
        description="Least records acquired at a time for a member; 0: as many as its fetch asks for.",
    )
    read_ahead_max_records: Whole = Field(
        default=200_000,
        alias="gateway.read.ahead.max.records",
        ge=1,
        description="Most records acquired ahead for one member of one share-partition.",
    )
    read_ahead_linger_ms: Whole = Field(
        default=0,
        alias="gateway.read.ahead.linger.ms",
        ge=0,
        le=5_000,
        description="How long asking ahead may wait for others at the job; more is read ahead for it.",
    )
    read_ahead_idle_ms: Whole = Field(
        default=500,
        alias="gateway.read.ahead.idle.ms",
        ge=1,
        description="Records acquired ahead go back when the member is away this long, and four of its usual pauses.",
    )
    batch_cache_max_bytes: Whole = Field(
        default=67_108_864,
        alias="gateway.batch.cache.max.bytes",
        ge=1,
        description="Memory for record batches read from the brokers.",
    )
    metrics_host: str = Field(
        default="127.0.0.1", alias="gateway.metrics.host", min_length=1, description="Address to show metrics at."
    )
    metrics_port: Whole = Field(
        default=0,
        alias="gateway.metrics.port",
        ge=0,
        le=65535,
        description="Port of /metrics, /healthz and /readyz. 0: off.",
    )
    ui_host: str = Field(
        default="127.0.0.1", alias="gateway.ui.host", min_length=1, description="Address to show the page at."
    )
    ui_port: Whole = Field(
        default=0,
        alias="gateway.ui.port",
        ge=0,
        le=65535,
        description="Port of the page, in a process of its own beside the gateway. 0: off.",
    )
    ui_allow_changes: Flag = Field(
        default=False,
        alias="gateway.ui.allow.changes",
        description="Users of the page may reset offsets, remove members and alter configs (experimental).",
    )
    max_share_sessions: Whole = Field(
        default=2_000,
        alias="group.share.max.share.sessions",
        ge=1,
        description="Most share sessions of each upstream broker.",
    )
    tls_certificate: str = Field(
        default="", alias="gateway.ssl.certificate.location", description="Certificate chain (PEM); set: TLS only."
    )
    tls_key: str = Field(default="", alias="gateway.ssl.key.location", description="Private key (PEM).")
    tls_client_ca: str = Field(
        default="",
        alias="gateway.ssl.client.ca.location",
        description="Certificate authorities (PEM) of clients; set: clients must have a certificate.",
    )
    sasl_users: str = Field(
        default="",
        alias="gateway.sasl.users.location",
        description="Users and their credentials (YAML); set: clients authenticate, by PLAIN or SCRAM.",
    )
    sasl_mechanisms: Mechanisms = Field(
        default=(),
        alias="gateway.sasl.enabled.mechanisms",
        description="How clients may authenticate; empty: by all for which there are users or keys of tokens.",
        json_schema_extra={"allowed": f"a list of {', '.join(MECHANISMS)}"},
    )
    max_reauth_ms: Whole = Field(
        default=0,
        alias="gateway.connections.max.reauth.ms",
        ge=0,
        description="Clients have to authenticate again after this time (KIP-368). 0: only when their token ends.",
    )
    token_keys: str = Field(
        default="",
        alias="gateway.sasl.oauthbearer.jwks.endpoint.url",
        description="Keys of tokens, a JWKS (file: or https:); set: clients may authenticate by OAUTHBEARER.",
    )
    token_keys_refresh_ms: Whole = Field(
        default=3_600_000,
        alias="gateway.sasl.oauthbearer.jwks.endpoint.refresh.ms",
        ge=10_000,
        description="How often keys are asked for by https. A file is read again when it changes.",
    )
    token_issuer: str = Field(
        default="",
        alias="gateway.sasl.oauthbearer.expected.issuer",
        description="Who has to have issued a token (`iss`).",
    )
    token_audiences: Audiences = Field(
        default=(),
        alias="gateway.sasl.oauthbearer.expected.audience",
        description="For whom a token has to be (`aud`): one of these.",
        json_schema_extra={"allowed": "a list of texts"},
    )
    token_claim: str = Field(
        default="sub",
        alias="gateway.sasl.oauthbearer.sub.claim.name",
        min_length=1,
        description="The claim of a token that has the user's name.",
    )
    token_algorithms: Algorithms = Field(
        default=ALGORITHMS,
        alias="gateway.sasl.oauthbearer.algorithms",
        min_length=1,
        description="How tokens may be signed.",
        json_schema_extra={"allowed": f"a list of {', '.join(ALGORITHMS)}"},
    )
    token_clock_skew_s: Whole = Field(
        default=30,
        alias="gateway.sasl.oauthbearer.clock.skew.seconds",
        ge=0,
        le=300,
        description="How far the clock of a token's issuer may be off.",
    )
    upstream_identity: UpstreamIdentity = Field(
        default=UpstreamIdentity.GATEWAY,
        alias="gateway.upstream.identity",
        description="Who acts at the brokers: the gateway, or (experimental) each client, so that its own rights hold.",
    )
    acls: str = Field(
        default="",
        alias="gateway.acls.location",
        description="Access control list (YAML); set: what it does not allow is denied.",
    )
    quotas: str = Field(
        default="",
        alias="gateway.quota.location",
        description="Quotas of users and client ids (YAML); what they do not say is as the next two keys say.",
    )
    quota_consumer_byte_rate: Whole = Field(
        default=0,
        alias="gateway.quota.consumer.byte.rate",
        ge=0,
        description="Bytes a second of a client's ShareFetch responses, before it is throttled. 0: any number.",
    )
    quota_request_rate: Whole = Field(
        default=0,
        alias="gateway.quota.request.rate",
        ge=0,
        description="Requests a second of a client that the gateway answers, before it is throttled. 0: any number.",
    )

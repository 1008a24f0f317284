"""Section `gateway`: the server that speaks Kafka's wire protocol (Kafka has no counterpart for most of these keys)."""

from __future__ import annotations

from pydantic import Field

from sharegroup.config.family import ConfigFamily, Flag, Whole

__all__ = ["GatewayConfig"]


class GatewayConfig(ConfigFamily):
    """Keys of the section `gateway`. Paths are read at start; an empty path means off."""

    listener_host: str = Field(
        default="127.0.0.1", alias="gateway.listener.host", min_length=1, description="Address to listen on."
    )
    listener_port: Whole = Field(
        default=9192,
        alias="gateway.listener.port",
        ge=0,
        le=65535,
        description="Port of the first upstream broker; the next ones follow. 0: any free ports.",
    )
    advertised_host: str = Field(
        default="",
        alias="gateway.advertised.host",
        description="Host that clients are told; empty: gateway.listener.host.",
    )
    allow_everyone: Flag = Field(
        default=False,
        alias="gateway.allow.everyone",
        description="Listen on other addresses than loopback without authentication or without an access control list.",
    )
    max_connections: Whole = Field(
        default=5_000, alias="gateway.max.connections", ge=1, description="Most client connections of this gateway."
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
        default=30_000,
        alias="gateway.first.request.timeout.ms",
        ge=100,
        description="A new connection has to send its first request (and to authenticate) within this time.",
    )
    request_max_bytes: Whole = Field(
        default=104_857_600,
        alias="gateway.request.max.bytes",
        ge=1_024,
        le=2_147_483_647,
        description="Largest request.",
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
    read_ahead_idle_ms: Whole = Field(
        default=500,
        alias="gateway.read.ahead.idle.ms",
        ge=1,
        description="Records acquired ahead go back when the member is away this long, and four of its usual pauses.",
    )
    batch_cache_max_bytes: Whole = Field(
        default=134_217_728,
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
        description="Users of the page may reset offsets, remove members and alter configs.",
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
        description="Users and their credentials (YAML); set: clients authenticate by PLAIN or SCRAM-SHA-512.",
    )
    acls: str = Field(
        default="",
        alias="gateway.acls.location",
        description="Access control list (YAML); set: what it does not allow is denied.",
    )

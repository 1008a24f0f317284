"""The settings of a share consumer. As in kafka-python, they have Kafka's names with underscores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sharegroup.client.errors import InvalidSettingError
from sharegroup.config.nearest_name import nearest_hint

AcknowledgementMode = Literal["implicit", "explicit"]
AcquireMode = Literal["batch_optimized", "record_limit"]
OnUndecodable = Literal["reject", "release", "raw"]
#: A function that converts bytes, or an object with kafka-python's method `deserialize(topic, headers, data)`.
Deserializer = Callable[[bytes], Any] | Any

#: Consumer settings that are not allowed, because they do not exist for share groups or are group configs (KIP-932).
REFUSED = frozenset(
    {
        "auto_offset_reset",
        "enable_auto_commit",
        "group_instance_id",
        "group_protocol",
        "group_remote_assignor",
        "heartbeat_interval_ms",
        "interceptor_classes",
        "isolation_level",
        "partition_assignment_strategy",
        "session_timeout_ms",
    }
)
#: kafka-python's settings of connections, which are also allowed.
CONNECTION_SETTINGS = frozenset(
    {
        "security_protocol",
        "ssl_cafile",
        "ssl_certfile",
        "ssl_check_hostname",
        "ssl_keyfile",
        "ssl_password",
        "sasl_kerberos_domain_name",
        "sasl_kerberos_name",
        "sasl_kerberos_service_name",
        "sasl_mechanism",
        "sasl_oauth_token_provider",
        "sasl_plain_password",
        "sasl_plain_username",
    }
)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class ConsumerSettings:
    """The settings of a share consumer, with Kafka's defaults.

    `connection` contains the settings from CONNECTION_SETTINGS that the caller has passed. `on_undecodable` is not a
    setting of Kafka: it determines what happens to a record that cannot be deserialized.
    """

    bootstrap_servers: Sequence[str]
    group_id: str
    client_id: str = "sharegroup-client"
    client_rack: str = ""
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    share_acknowledgement_mode: AcknowledgementMode = "implicit"
    share_acquire_mode: AcquireMode = "batch_optimized"
    on_undecodable: OnUndecodable = "reject"
    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    check_crcs: bool = True
    default_api_timeout_ms: int = 60_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    connection: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def is_explicit(self) -> bool:
        """Whether the application must acknowledge each record itself (explicit mode)."""
        return self.share_acknowledgement_mode == "explicit"

    @property
    def has_deserializers(self) -> bool:
        """Whether the application has set a deserializer for keys or values."""
        return self.key_deserializer is not None or self.value_deserializer is not None

    @property
    def is_record_limit(self) -> bool:
        """Whether a poll must never return more than `max_poll_records` records (KIP-1206)."""
        return self.share_acquire_mode == "record_limit"


_FIELDS = {field.name: field for field in dataclasses.fields(ConsumerSettings) if field.name != "connection"}
#: The names of all allowed settings.
KNOWN_SETTINGS = frozenset(_FIELDS) | CONNECTION_SETTINGS
_CHOICES: dict[str, tuple[str, ...]] = {
    "share_acknowledgement_mode": get_args(AcknowledgementMode),
    "share_acquire_mode": get_args(AcquireMode),
    "on_undecodable": get_args(OnUndecodable),
    "security_protocol": _PROTOCOLS,
}
_AT_LEAST_ONE = ("max_poll_records", "max_poll_interval_ms", "request_timeout_ms", "default_api_timeout_ms")


def parse_settings(settings: Mapping[str, Any]) -> ConsumerSettings:
    """Check settings and return them as ConsumerSettings. Raises InvalidSettingError if one is unknown or invalid.

    Names may contain dots instead of underscores, as in Java.
    """
    named = {name.replace(".", "_"): value for name, value in settings.items()}
    _check_names(named)
    if not str(named.get("group_id") or "").strip():
        raise InvalidSettingError("group_id is not set; it must be the name of the share group")
    named["bootstrap_servers"] = _servers(named.get("bootstrap_servers", ()))
    for name, value in named.items():
        _check_value(name, value)
    own = {name: value for name, value in named.items() if name in _FIELDS}
    connection = {name: value for name, value in named.items() if name in CONNECTION_SETTINGS}
    return ConsumerSettings(**own, connection=connection)


def _check_names(named: Mapping[str, Any]) -> None:
    refused = sorted(REFUSED & named.keys())
    if refused:
        raise InvalidSettingError(f"{', '.join(refused)} cannot be set when using a share group")
    for name in named:
        if name not in KNOWN_SETTINGS:
            raise InvalidSettingError(f"unknown setting {name}{nearest_hint(name, KNOWN_SETTINGS)}")


def _check_value(name: str, value: Any) -> None:
    choices = _CHOICES.get(name)
    if choices and value not in choices:
        raise InvalidSettingError(f"{name} is {value!r}; it must be one of: {', '.join(choices)}")
    if name in _FIELDS and _FIELDS[name].type == "int":
        least = 1 if name in _AT_LEAST_ONE else 0
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidSettingError(f"{name} is {value!r}; it must be a whole number of at least {least}")


def _servers(value: str | Sequence[str]) -> tuple[str, ...]:
    servers = tuple(part.strip() for part in (value.split(",") if isinstance(value, str) else value) if part.strip())
    if not servers:
        raise InvalidSettingError("bootstrap_servers is not set; it must be host:port of one or more brokers")
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit():
            raise InvalidSettingError(f"bootstrap_servers has {server!r}; it must be host:port")
    return servers

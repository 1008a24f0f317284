"""Section `job`: where things are, and the job's own keys (Kafka has no counterpart for these)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from sharegroup.config.client_properties import property_problems
from sharegroup.config.family import ConfigFamily, Flag, Whole
from sharegroup.config.storage_options import checked_options, delta_options
from sharegroup.types import is_topic_name

__all__ = ["JobConfig"]

_DAY_MS = 86_400_000
#: Of retentions: a hundred years, which dates can still be reckoned with.
_FOR_EVER_MS = 36_500 * _DAY_MS


def _client_properties(value: object) -> object:
    """Kafka client properties are texts; YAML's numbers and booleans are written the way Kafka reads them."""
    if not isinstance(value, Mapping):
        raise ValueError("Not a mapping of Kafka client properties")
    properties = {str(name): _property_text(str(name), text) for name, text in value.items()}
    if problems := property_problems(properties):
        raise ValueError("; ".join(problems))
    return properties


def _property_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError(f"Property {name} is not a text")


def _topic_name(name: str) -> str:
    if not is_topic_name(name):
        raise ValueError("Not a name that a topic can have")
    return name


def _replication_factor(number: int) -> int:
    if number == 0:
        raise ValueError("A topic has at least one replica")
    return number


def _without_values(texts: Mapping[str, str]) -> dict[str, str]:
    """What a dump of the configuration shows: passwords are among the values."""
    return dict.fromkeys(texts, "[hidden]")


ClientProperties = Annotated[dict[str, str], BeforeValidator(_client_properties), PlainSerializer(_without_values)]
StorageOptions = Annotated[dict[str, str], BeforeValidator(checked_options), PlainSerializer(_without_values)]
TopicName = Annotated[str, AfterValidator(_topic_name)]
ReplicationFactor = Annotated[Whole, AfterValidator(_replication_factor)]


class JobConfig(ConfigFamily):
    """Keys of the section `job`. Paths may be relative; the job makes them absolute."""

    bootstrap_servers: str = Field(
        default="localhost:9092",
        alias="bootstrap.servers",
        min_length=1,
        description="Kafka brokers as host:port, with commas.",
    )
    tables_path: str = Field(
        default="./data/tables",
        alias="tables.path",
        min_length=1,
        description="Directory of the Delta tables (public API).",
    )
    checkpoint_path: str = Field(
        default="./data/checkpoint",
        alias="checkpoint.path",
        min_length=1,
        description="Directory of the queries' checkpoints.",
    )
    tables_storage_options: StorageOptions = Field(
        default={},
        alias="tables.storage.options",
        repr=False,
        description="How both are reached on an object store (AWS_ENDPOINT_URL, ...; fs.*: for Spark alone).",
        json_schema_extra={"allowed": "mapping of texts"},
    )
    kafka: ClientProperties = Field(
        default={},
        alias="kafka",
        repr=False,
        description="Properties for every Kafka client (security.protocol, sasl.*, ...).",
        json_schema_extra={"allowed": "mapping of texts"},
    )
    operator_shards: Whole = Field(
        default=1,
        alias="operator.shards",
        ge=1,
        le=1024,
        description="Operator keys per (group, topic): partition % shards.",
    )
    shuffle_partitions: Whole = Field(
        default=0,
        alias="shuffle.partitions",
        ge=0,
        le=10_000,
        description="Tasks of a micro-batch, which its checkpoint pins; 0: what that has, or one a core, 8 at most.",
    )
    trigger_interval_ms: Whole = Field(
        default=0,
        alias="trigger.interval.ms",
        ge=0,
        description="Least time between the starts of two micro-batches; an idle query waits for news anyway.",
    )
    max_requests_per_batch: Whole = Field(
        default=20_000,
        alias="max.requests.per.batch",
        ge=1,
        description="Most request rows of a micro-batch (maxOffsetsPerTrigger).",
    )
    log_poll_interval_ms: Whole = Field(
        default=200,
        alias="log.poll.interval.ms",
        ge=1,
        description="How often log offsets are polled while members wait.",
    )
    log_idle_poll_interval_ms: Whole = Field(
        default=5_000,
        alias="log.idle.poll.interval.ms",
        ge=1,
        description="How often log offsets are polled otherwise.",
    )
    request_linger_ms: Whole = Field(
        default=500,
        alias="request.linger.ms",
        ge=0,
        le=5_000,
        description="How long requests that nobody waits for wait for others, which spares micro-batches.",
    )
    topic_deletion_grace_ms: Whole = Field(
        default=30_000,
        alias="topic.deletion.grace.ms",
        ge=0,
        description="A topic that the brokers have not known for so long is deleted, and its states with it.",
    )
    request_topic_partitions: Whole = Field(
        default=4,
        alias="request.topic.partitions",
        ge=1,
        description="Partitions of the request topics, if the job creates them.",
    )
    request_topic_replication_factor: ReplicationFactor = Field(
        default=-1,
        alias="request.topic.replication.factor",
        ge=-1,
        le=32767,
        description="Replicas of the topics that the job creates; -1: 3, or as many as there are brokers. With 3 or "
        "more their min.insync.replicas is 2.",
        json_schema_extra={"allowed": "-1, 1..32767"},
    )
    request_topic_retention_ms: Whole = Field(
        default=_DAY_MS,
        alias="request.topic.retention.ms",
        ge=1,
        description="Retention of the request and response topics.",
    )
    group_requests_topic: TopicName = Field(
        default="__share_group_requests",
        alias="share.group.requests.topic",
        description="Topic of the requests to the group coordinator.",
    )
    partition_requests_topic: TopicName = Field(
        default="__share_partition_requests",
        alias="share.partition.requests.topic",
        description="Topic of the requests to the share-partitions.",
    )
    responses_topic: TopicName = Field(
        default="__share_group_responses",
        alias="share.group.responses.topic",
        description="Topic of the responses to both.",
    )
    upkeep_interval_commits: Whole = Field(
        default=100,
        alias="upkeep.interval.commits",
        ge=1,
        description="Commits to a table between two upkeeps (compact, prune).",
    )
    tables_retention_ms: Whole = Field(
        default=_DAY_MS,
        alias="tables.retention.ms",
        ge=_DAY_MS,
        le=_FOR_EVER_MS,
        description="How long old versions of the tables are kept (on a local disk, see tables.local.versions).",
    )
    tables_local_versions: Whole = Field(
        default=1_000,
        alias="tables.local.versions",
        ge=100,
        description="Versions that stay on a local disk, where each commit lists them all (4 ms for 1,000).",
    )
    tables_local_sync: Flag = Field(
        default=True,
        alias="tables.local.sync",
        description="Whether a commit waits until it is on the disk, where the tables are on a local one. If not, a "
        "power loss may take the last seconds of what was answered.",
    )
    delivery_log_retention_ms: Whole = Field(
        default=7 * _DAY_MS,
        alias="delivery.log.retention.ms",
        ge=1,
        le=_FOR_EVER_MS,
        description="How long rows of delivery_log are kept.",
    )
    state_min_batches_to_retain: Whole = Field(
        default=20,
        alias="state.min.batches.to.retain",
        ge=2,
        description="Batches kept in the state store for a restart.",
    )

    metrics_host: str = Field(
        default="127.0.0.1", alias="metrics.host", min_length=1, description="Address to show metrics at."
    )
    metrics_port: Whole = Field(
        default=0,
        alias="metrics.port",
        ge=0,
        le=65535,
        description="Port of /metrics, /healthz and /readyz; of cells the first one's, the next ones follow. 0: off.",
    )
    metrics_max_groups: Whole = Field(
        default=100,
        alias="metrics.max.groups",
        ge=0,
        le=10_000,
        description="Most groups with metrics of their own; the others are added up.",
    )
    metrics_max_partitions: Whole = Field(
        default=0,
        alias="metrics.max.partitions",
        ge=0,
        le=100_000,
        description="Most share-partitions with metrics of their own, beside their group's. 0: none.",
    )

    @property
    def delta_options(self) -> dict[str, str]:
        """Of the storage's options those that delta-rs takes, for whatever opens a table."""
        return delta_options(self.tables_storage_options, self.tables_path)

    @property
    def topics(self) -> tuple[str, str, str]:
        """The names of the three topics: requests to the group coordinator and to the share-partitions, responses."""
        return self.group_requests_topic, self.partition_requests_topic, self.responses_topic

"""Section `job`: where things are, and the job's own keys (Kafka has no counterpart for these)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from sharegroup.config.family import ConfigFamily, Flag, Whole, key
from sharegroup.config.keys.client_properties import property_problems
from sharegroup.config.keys.storage_options import checked_options, delta_options
from sharegroup.types import is_topic_name

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

    bootstrap_servers: str = key(
        "bootstrap.servers", "localhost:9092", "Kafka brokers as host:port, with commas.", min_length=1
    )
    tables_path: str = key("tables.path", "./data/tables", "Directory of the Delta tables (public API).", min_length=1)
    checkpoint_path: str = key(
        "checkpoint.path", "./data/checkpoint", "Directory of the queries' checkpoints.", min_length=1
    )
    tables_storage_options: StorageOptions = key(
        "tables.storage.options",
        {},
        "How both are reached on an object store (AWS_ENDPOINT_URL, ...; fs.*: for Spark alone).",
        repr=False,
        allowed="mapping of texts",
    )
    kafka: ClientProperties = key(
        "kafka",
        {},
        "Properties for every Kafka client (security.protocol, sasl.*, ...).",
        repr=False,
        allowed="mapping of texts",
    )
    operator_shards: Whole = key(
        "operator.shards", 1, "Operator keys per (group, topic): partition % shards.", ge=1, le=1024
    )
    shuffle_partitions: Whole = key(
        "shuffle.partitions",
        0,
        "Tasks of a micro-batch, which its checkpoint pins; 0: what that has, or one a core, 8 at most.",
        ge=0,
        le=10_000,
    )
    trigger_interval_ms: Whole = key(
        "trigger.interval.ms",
        0,
        "Least time between the starts of two micro-batches; an idle query waits for news anyway.",
        ge=0,
    )
    max_requests_per_batch: Whole = key(
        "max.requests.per.batch", 20_000, "Most request rows of a micro-batch (maxOffsetsPerTrigger).", ge=1
    )
    log_poll_interval_ms: Whole = key(
        "log.poll.interval.ms", 200, "How often log offsets are polled while members wait.", ge=1
    )
    log_idle_poll_interval_ms: Whole = key(
        "log.idle.poll.interval.ms", 5_000, "How often log offsets are polled otherwise.", ge=1
    )
    request_linger_ms: Whole = key(
        "request.linger.ms",
        500,
        "How long requests that nobody waits for wait for others, which spares micro-batches.",
        ge=0,
        le=5_000,
    )
    topic_deletion_grace_ms: Whole = key(
        "topic.deletion.grace.ms",
        30_000,
        "A topic that the brokers have not known for so long is deleted, and its states with it.",
        ge=0,
    )
    request_topic_partitions: Whole = key(
        "request.topic.partitions", 4, "Partitions of the request topics, if the job creates them.", ge=1
    )
    request_topic_replication_factor: ReplicationFactor = key(
        "request.topic.replication.factor",
        -1,
        "Replicas of the topics that the job creates; -1: 3, or as many as there are brokers. With 3 or "
        "more their min.insync.replicas is 2.",
        ge=-1,
        le=32767,
        allowed="-1, 1..32767",
    )
    request_topic_retention_ms: Whole = key(
        "request.topic.retention.ms", _DAY_MS, "Retention of the request and response topics.", ge=1
    )
    group_requests_topic: TopicName = key(
        "share.group.requests.topic", "__share_group_requests", "Topic of the requests to the group coordinator."
    )
    partition_requests_topic: TopicName = key(
        "share.partition.requests.topic", "__share_partition_requests", "Topic of the requests to the share-partitions."
    )
    responses_topic: TopicName = key(
        "share.group.responses.topic", "__share_group_responses", "Topic of the responses to both."
    )
    upkeep_interval_commits: Whole = key(
        "upkeep.interval.commits", 100, "Commits to a table between two upkeeps (compact, prune).", ge=1
    )
    tables_retention_ms: Whole = key(
        "tables.retention.ms",
        _DAY_MS,
        "How long old versions of the tables are kept (on a local disk, see tables.local.versions).",
        ge=_DAY_MS,
        le=_FOR_EVER_MS,
    )
    tables_local_versions: Whole = key(
        "tables.local.versions",
        1_000,
        "Versions that stay on a local disk, where each commit lists them all (4 ms for 1,000).",
        ge=100,
    )
    tables_local_sync: Flag = key(
        "tables.local.sync",
        True,
        "Whether a commit waits until it is on the disk, where the tables are on a local one. If not, a "
        "power loss may take the last seconds of what was answered.",
    )
    delivery_log_retention_ms: Whole = key(
        "delivery.log.retention.ms", 7 * _DAY_MS, "How long rows of delivery_log are kept.", ge=1, le=_FOR_EVER_MS
    )

    metrics_host: str = key("metrics.host", "127.0.0.1", "Address to show metrics at.", min_length=1)
    metrics_port: Whole = key(
        "metrics.port",
        0,
        "Port of /metrics, /healthz and /readyz; of cells the first one's, the next ones follow. 0: off.",
        ge=0,
        le=65535,
    )
    metrics_max_groups: Whole = key(
        "metrics.max.groups", 100, "Most groups with metrics of their own; the others are added up.", ge=0, le=10_000
    )
    metrics_max_partitions: Whole = key(
        "metrics.max.partitions",
        0,
        "Most share-partitions with metrics of their own, beside their group's. 0: none.",
        ge=0,
        le=100_000,
    )

    @property
    def delta_options(self) -> dict[str, str]:
        """Of the storage's options those that delta-rs takes, for whatever opens a table."""
        return delta_options(self.tables_storage_options, self.tables_path)

    @property
    def topics(self) -> tuple[str, str, str]:
        """The names of the three topics: requests to the group coordinator and to the share-partitions, responses."""
        return self.group_requests_topic, self.partition_requests_topic, self.responses_topic

"""Section `job`: addresses, paths and settings of the job (Kafka has no counterpart for these keys)."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from sharegroup.config.family import ConfigFamily, Flag, Whole, key
from sharegroup.config.keys.client_properties import property_problems
from sharegroup.config.keys.storage_options import checked_options, delta_options
from sharegroup.types import is_topic_name

_DAY_MS = 86_400_000
#: The maximum retention, a hundred years. The date that long ago is still valid in Python.
_MAX_RETENTION_MS = 36_500 * _DAY_MS


def _client_properties(value: object) -> object:
    """Parse Kafka client properties. YAML's numbers and booleans become strings in Kafka's format."""
    if not isinstance(value, Mapping):
        raise ValueError("Not a mapping of Kafka client properties")
    properties = {str(name): _property_text(str(name), raw) for name, raw in value.items()}
    if problems := property_problems(properties):
        raise ValueError("; ".join(problems))
    return properties


def _property_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError(f"Property {name} is not a string")


def _topic_name(name: str) -> str:
    if not is_topic_name(name):
        raise ValueError("Not a valid topic name")
    return name


def _replication_factor(number: int) -> int:
    if number == 0:
        raise ValueError("A topic must have at least one replica")
    return number


def _without_values(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the names with "[hidden]" as each value, for dumps of the configuration. Some values are passwords."""
    return dict.fromkeys(texts, "[hidden]")


ClientProperties = Annotated[dict[str, str], BeforeValidator(_client_properties), PlainSerializer(_without_values)]
StorageOptions = Annotated[dict[str, str], BeforeValidator(checked_options), PlainSerializer(_without_values)]
TopicName = Annotated[str, AfterValidator(_topic_name)]
ReplicationFactor = Annotated[Whole, AfterValidator(_replication_factor)]


class JobConfig(ConfigFamily):
    """Keys of the section `job`. Relative paths start at the working directory of the job."""

    bootstrap_servers: str = key(
        "bootstrap.servers", "localhost:9092", "Kafka brokers as host:port, separated by commas.", min_length=1
    )
    tables_path: str = key("tables.path", "./data/tables", "Directory of the Delta tables (public API).", min_length=1)
    checkpoint_path: str = key(
        "checkpoint.path", "./data/checkpoint", "Directory of the checkpoints of the streaming queries.", min_length=1
    )
    tables_storage_options: StorageOptions = key(
        "tables.storage.options",
        {},
        "Options of the object store that has tables and checkpoints (AWS_ENDPOINT_URL, ...). Options fs.* are only "
        "for Spark.",
        repr=False,
        allowed="mapping of strings",
    )
    kafka: ClientProperties = key(
        "kafka",
        {},
        "Properties of all Kafka clients (security.protocol, sasl.*, ...).",
        repr=False,
        allowed="mapping of strings",
    )
    operator_shards: Whole = key(
        "operator.shards",
        1,
        "Number of shards (keys of the share-partition operator) for each group and topic. Partition p is in shard "
        "p % operator.shards. If it changes, the job starts a new checkpoint from the tables.",
        ge=1,
        le=1024,
    )
    shuffle_partitions: Whole = key(
        "shuffle.partitions",
        0,
        "Number of tasks of a micro-batch. A checkpoint keeps the number it was created with. 0: the number of the "
        "checkpoint; for a new one, one for each core, at most 8.",
        ge=0,
        le=10_000,
    )
    trigger_interval_ms: Whole = key(
        "trigger.interval.ms",
        0,
        "Minimum time between the starts of two micro-batches. An idle query starts none in any case.",
        ge=0,
    )
    max_requests_per_batch: Whole = key(
        "max.requests.per.batch",
        20_000,
        "Maximum number of request rows in a micro-batch (maxOffsetsPerTrigger).",
        ge=1,
    )
    log_poll_interval_ms: Whole = key(
        "log.poll.interval.ms", 200, "Interval at which log offsets are polled while members wait for records.", ge=1
    )
    log_idle_poll_interval_ms: Whole = key(
        "log.idle.poll.interval.ms", 5_000, "Interval at which log offsets are polled while no member waits.", ge=1
    )
    request_linger_ms: Whole = key(
        "request.linger.ms",
        500,
        "Maximum delay of requests that no client waits for. They then share a micro-batch with others.",
        ge=0,
        le=5_000,
    )
    topic_deletion_grace_ms: Whole = key(
        "topic.deletion.grace.ms",
        30_000,
        "Time that a topic must be unknown to the brokers before its states are deleted.",
        ge=0,
    )
    request_topic_partitions: Whole = key(
        "request.topic.partitions", 4, "Number of partitions of the request topics that the job creates.", ge=1
    )
    request_topic_replication_factor: ReplicationFactor = key(
        "request.topic.replication.factor",
        -1,
        "Replication factor of the topics that the job creates. -1: 3, or the number of brokers if lower. With 3 or "
        "more, min.insync.replicas is 2.",
        ge=-1,
        le=32767,
        allowed="-1, 1..32767",
    )
    request_topic_retention_ms: Whole = key(
        "request.topic.retention.ms", _DAY_MS, "Retention of the request and response topics.", ge=1
    )
    group_requests_topic: TopicName = key(
        "share.group.requests.topic", "__share_group_requests", "Topic of requests to the group coordinator."
    )
    partition_requests_topic: TopicName = key(
        "share.partition.requests.topic", "__share_partition_requests", "Topic of requests to share-partitions."
    )
    responses_topic: TopicName = key(
        "share.group.responses.topic", "__share_group_responses", "Topic of the responses to both kinds of requests."
    )
    upkeep_interval_commits: Whole = key(
        "upkeep.interval.commits", 100, "Number of commits to a table after which it is compacted and pruned.", ge=1
    )
    tables_retention_ms: Whole = key(
        "tables.retention.ms",
        _DAY_MS,
        "Time that old versions of the tables are kept. On a local disk, tables.local.versions applies as well.",
        ge=_DAY_MS,
        le=_MAX_RETENTION_MS,
    )
    tables_local_versions: Whole = key(
        "tables.local.versions",
        1_000,
        "Number of table versions that are kept on a local disk. Each commit lists them all (4 ms for 1,000).",
        ge=100,
    )
    tables_local_sync: Flag = key(
        "tables.local.sync",
        True,
        "Whether a commit to tables on a local disk waits for fsync. If not, a power loss may undo requests of the "
        "last seconds, although their responses were sent.",
    )
    delivery_log_retention_ms: Whole = key(
        "delivery.log.retention.ms", 7 * _DAY_MS, "Time that rows of delivery_log are kept.", ge=1, le=_MAX_RETENTION_MS
    )

    metrics_host: str = key("metrics.host", "127.0.0.1", "Address of the metrics server.", min_length=1)
    metrics_port: Whole = key(
        "metrics.port",
        0,
        "Port of /metrics, /healthz and /readyz. With cells, the port of the first; the others use the next ones. 0: "
        "disabled.",
        ge=0,
        le=65535,
    )
    metrics_max_groups: Whole = key(
        "metrics.max.groups",
        100,
        "Maximum number of groups with their own metrics. The metrics of the other groups are added up.",
        ge=0,
        le=10_000,
    )
    metrics_max_partitions: Whole = key(
        "metrics.max.partitions",
        0,
        "Maximum number of share-partitions with their own metrics, in addition to those of their group. 0: none.",
        ge=0,
        le=100_000,
    )

    @property
    def delta_options(self) -> dict[str, str]:
        """The storage options with which delta-rs opens the tables."""
        return delta_options(self.tables_storage_options, self.tables_path)

    @property
    def topics(self) -> tuple[str, str, str]:
        """The topics of requests to the group coordinator, requests to the share-partitions, and responses."""
        return self.group_requests_topic, self.partition_requests_topic, self.responses_topic

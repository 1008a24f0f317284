"""Creates the job's three topics if they are missing, and checks the configs of existing topics."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import InvalidReplicationFactorError, KafkaError, PolicyViolationError, TopicAlreadyExistsError

from sharegroup.errors import ShareGroupError
from sharegroup.kafka_clients.cluster_description import describe_cluster
from sharegroup.kafka_clients.kafka_clients import KafkaUnavailableError
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: A value of `replication` in `create_topics`: as many replicas as the cluster supports, up to `MOST_REPLICAS`.
CLUSTER_MAXIMUM = -1
MOST_REPLICAS = 3
#: The replication factor in CreateTopics that selects the broker's `default.replication.factor` (KIP-464, since 2.4).
_BROKERS_DEFAULT = -1
_TIMESTAMP_TYPE, _CLEANUP_POLICY = "message.timestamp.type", "cleanup.policy"
_MIN_INSYNC_REPLICAS = "min.insync.replicas"
#: {topic: {config name: value}}. A topic whose configs this client may not describe has no entries.
TopicConfigs = Mapping[str, Mapping[str, str]]
_BROKERS_CLOCK = "LogAppendTime"
_TOPIC_CONFIGS = f"{_TIMESTAMP_TYPE}={_BROKERS_CLOCK} and {_CLEANUP_POLICY}=delete"


class UnfitTopicsError(ShareGroupError):
    """Existing topics have configs with which the job would lose rows or use the clocks of clients."""


def create_topics(
    settings: Mapping[str, Any],
    topics: Mapping[str, int],
    replication: int,
    retention_ms: int,
    timed: Collection[str] = (),
) -> None:
    """Create the missing topics of `topics` {name: number of partitions}, with LogAppendTime.

    `replication` is the number of replicas. CLUSTER_MAXIMUM means one replica per broker, up to 3. If the brokers
    reject this number, their default is used. Topics with three or more replicas are created with `min.insync.replicas`
    of 2, so that no confirmed append depends on a single disk.

    Existing topics must not be compacted, and those in `timed` must have LogAppendTime. A warning is logged for topics
    with one replica.

    Raises UnfitTopicsError if an existing topic breaks these rules, and KafkaUnavailableError if a request fails.
    """
    admin = None
    try:
        admin = KafkaAdminClient(**settings)
        present = set(topics) & set(admin.list_topics())
        missing = {name: partitions for name, partitions in topics.items() if name not in present}
        if missing:
            try:
                _create(admin, missing, replication, retention_ms)
            except TopicAlreadyExistsError:  # another job or member has just created it
                present = set(topics)
            admin.wait_for_topics(list(missing))
        configs = _describe_configs(admin, sorted(topics))
        _check_topics({name: configs[name] for name in sorted(present)}, timed)
        _log_replicas(admin, configs)
    except KafkaError as error:
        raise KafkaUnavailableError(f"cannot create the topics {', '.join(topics)}: {error}") from error
    finally:
        if admin is not None:
            admin.close()


def _create(admin: KafkaAdminClient, topics: Mapping[str, int], replication: int, retention_ms: int) -> None:
    """Create all topics with one request. Raises KafkaError if it fails.

    If the brokers reject the number of replicas that was computed for CLUSTER_MAXIMUM, a second request creates the
    topics with the brokers' default.
    """
    if replication != CLUSTER_MAXIMUM:
        admin.create_topics(_new_topics(topics, replication, retention_ms))
        return
    brokers = [broker for broker in describe_cluster(admin)["brokers"] if not broker.get("is_fenced")]
    replication = min(MOST_REPLICAS, max(1, len(brokers)))
    try:
        admin.create_topics(_new_topics(topics, replication, retention_ms))
    except (InvalidReplicationFactorError, PolicyViolationError) as error:  # a broker left, or a policy is configured
        logger.warning(
            "the brokers rejected topics with %(count)d replicas; creating them with the brokers' default: %(error)s",
            LogFields(count=replication, error=error),
        )
        admin.create_topics(_new_topics(topics, _BROKERS_DEFAULT, retention_ms))


def _new_topics(topics: Mapping[str, int], replication: int, retention_ms: int) -> list[NewTopic]:
    config = {_TIMESTAMP_TYPE: _BROKERS_CLOCK, _CLEANUP_POLICY: "delete", "retention.ms": str(retention_ms)}
    if replication >= MOST_REPLICAS:
        config[_MIN_INSYNC_REPLICAS] = "2"
    return [
        NewTopic(name, num_partitions=partitions, replication_factor=replication, topic_configs=config)
        for name, partitions in topics.items()
    ]


def _describe_configs(admin: KafkaAdminClient, names: Collection[str]) -> TopicConfigs:
    keys = [_TIMESTAMP_TYPE, _CLEANUP_POLICY, _MIN_INSYNC_REPLICAS]
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, keys) for name in names]
    described = admin.describe_configs(resources, config_filter="all").get("topic", {})
    return {name: {key: config["value"] for key, config in described.get(name, {}).items()} for name in names}


def _check_topics(configs: TopicConfigs, timed: Collection[str]) -> None:
    """Raise UnfitTopicsError with all problems; log a warning for topics that the caller is not allowed to describe."""
    problems = []
    for name, found in configs.items():
        if not found:
            logger.warning(
                "not allowed to describe topic %(topic)s; make sure that it has %(resource)s",
                LogFields(topic=name, resource=_TOPIC_CONFIGS),
            )
            continue
        if name in timed and found[_TIMESTAMP_TYPE] != _BROKERS_CLOCK:
            problems.append(
                f"topic {name} has {_TIMESTAMP_TYPE}={found[_TIMESTAMP_TYPE]}, so the clocks of its producers would "
                f"decide when locks end: set {_TIMESTAMP_TYPE}={_BROKERS_CLOCK}"
            )
        if "compact" in found[_CLEANUP_POLICY]:
            problems.append(
                f"topic {name} has {_CLEANUP_POLICY}={found[_CLEANUP_POLICY]}, so rows would be lost: "
                f"set {_CLEANUP_POLICY}=delete"
            )
    if problems:
        raise UnfitTopicsError("; ".join(problems))


def _log_replicas(admin: KafkaAdminClient, configs: TopicConfigs) -> None:
    replicas = {
        topic["name"]: min(len(partition["replica_nodes"]) for partition in topic["partitions"])
        for topic in admin.describe_topics(list(configs))
        if topic["partitions"]  # the broker that answers may not know a new topic yet
    }
    alike: dict[str, list[str]] = {}
    for name, count in replicas.items():
        minimum = configs[name].get(_MIN_INSYNC_REPLICAS, "unknown")
        alike.setdefault(f"replicas: {count}, {_MIN_INSYNC_REPLICAS}: {minimum}", []).append(name)
    for what, names in alike.items():
        logger.info("topics %(topic)s have %(detail)s", LogFields(topic=", ".join(names), detail=what))
    if alone := [name for name, count in replicas.items() if count == 1]:
        logger.warning(
            "topics %(topic)s have one replica: the job waits while its broker is unavailable, and unread "
            "acknowledgements are lost if the broker's disk is lost; with three brokers, use three replicas "
            "(request.topic.replication.factor)",
            LogFields(topic=", ".join(alone)),
        )

"""The three topics of the job: made where they are missing, and looked at where they are there."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import InvalidReplicationFactorError, KafkaError, PolicyViolationError, TopicAlreadyExistsError

from sharegroup.errors import ShareGroupError
from sharegroup.topics.cluster_description import describe_cluster
from sharegroup.topics.kafka_clients import KafkaUnavailableError

logger = logging.getLogger(__name__)

#: `create_topics`: as many replicas as the cluster can have, up to `MOST_REPLICAS`.
WHAT_THE_CLUSTER_CAN = -1
MOST_REPLICAS = 3
#: CreateTopics: the broker's `default.replication.factor` (KIP-464, brokers from 2.4 on).
_BROKERS_DEFAULT = -1
_TIMESTAMP_TYPE, _CLEANUP_POLICY = "message.timestamp.type", "cleanup.policy"
_BROKERS_CLOCK = "LogAppendTime"
_TOPIC_CONFIGS = f"{_TIMESTAMP_TYPE}={_BROKERS_CLOCK} and {_CLEANUP_POLICY}=delete"


class UnfitTopicsError(ShareGroupError):
    """Topics that the job did not make are set up so that it would lose rows, or take the clients' word for times."""


def create_topics(
    settings: Mapping[str, Any],
    topics: Mapping[str, int],
    replication: int,
    retention_ms: int,
    timed: Collection[str] = (),
) -> None:
    """Create the missing ones of `topics` (name -> partitions), with the broker's clock as their rows' time.

    `replication` is the number of replicas, or WHAT_THE_CLUSTER_CAN: 3, or one on each broker where these are fewer, or
    the brokers' default where they refuse that. Those that are there must keep their rows, and those of them that are
    `timed` have the broker's clock as well. A topic with a single replica is warned of. Raises KafkaUnavailableError,
    UnfitTopicsError.
    """
    admin = None
    try:
        admin = KafkaAdminClient(**settings)
        present = set(topics) & set(admin.list_topics())
        missing = {name: partitions for name, partitions in topics.items() if name not in present}
        if missing:
            try:
                _create(admin, missing, replication, retention_ms)
            except TopicAlreadyExistsError:  # another job or member created it in between
                present = set(topics)
            admin.wait_for_topics(list(missing))
        _check_topics(admin, sorted(present), timed)
        _warn_of_single_replicas(admin, sorted(topics))
    except KafkaError as error:
        raise KafkaUnavailableError(f"cannot create the topics {', '.join(topics)}: {error}") from error
    finally:
        if admin is not None:
            admin.close()


def _create(admin: KafkaAdminClient, topics: Mapping[str, int], replication: int, retention_ms: int) -> None:
    """All in one request. Raises kafka-python's errors."""
    if replication != WHAT_THE_CLUSTER_CAN:
        admin.create_topics(_new_topics(topics, replication, retention_ms))
        return
    brokers = [broker for broker in describe_cluster(admin)["brokers"] if not broker.get("is_fenced")]
    replication = min(MOST_REPLICAS, max(1, len(brokers)))
    try:
        admin.create_topics(_new_topics(topics, replication, retention_ms))
    except (InvalidReplicationFactorError, PolicyViolationError) as error:  # a broker went, or a policy knows better
        logger.warning("the brokers refuse topics with %d replicas, their default is used: %s", replication, error)
        admin.create_topics(_new_topics(topics, _BROKERS_DEFAULT, retention_ms))


def _new_topics(topics: Mapping[str, int], replication: int, retention_ms: int) -> list[NewTopic]:
    config = {_TIMESTAMP_TYPE: _BROKERS_CLOCK, _CLEANUP_POLICY: "delete", "retention.ms": str(retention_ms)}
    return [
        NewTopic(name, num_partitions=partitions, replication_factor=replication, topic_configs=config)
        for name, partitions in topics.items()
    ]


def _check_topics(admin: KafkaAdminClient, names: Collection[str], timed: Collection[str]) -> None:
    """Raise UnfitTopicsError with all that is wrong; what may not be looked at is warned of."""
    if not names:
        return
    asked = [ConfigResource(ConfigResourceType.TOPIC, name, [_TIMESTAMP_TYPE, _CLEANUP_POLICY]) for name in names]
    described = admin.describe_configs(asked, config_filter="all").get("topic", {})
    problems = []
    for name in names:
        found = {key: config["value"] for key, config in described.get(name, {}).items()}
        if not found:
            logger.warning("the configs of topic %s cannot be seen: does it have %s?", name, _TOPIC_CONFIGS)
            continue
        if name in timed and found[_TIMESTAMP_TYPE] != _BROKERS_CLOCK:
            problems.append(
                f"topic {name} has {_TIMESTAMP_TYPE}={found[_TIMESTAMP_TYPE]}, by which the clocks of its producers "
                f"would decide when locks end: set {_TIMESTAMP_TYPE}={_BROKERS_CLOCK}"
            )
        if "compact" in found[_CLEANUP_POLICY]:
            problems.append(
                f"topic {name} has {_CLEANUP_POLICY}={found[_CLEANUP_POLICY]}, by which rows would be lost: "
                f"set {_CLEANUP_POLICY}=delete"
            )
    if problems:
        raise UnfitTopicsError("; ".join(problems))


def _warn_of_single_replicas(admin: KafkaAdminClient, names: Collection[str]) -> None:
    alone = [
        topic["name"]
        for topic in admin.describe_topics(list(names))
        if any(len(partition["replica_nodes"]) == 1 for partition in topic["partitions"])
    ]
    if alone:
        logger.warning(
            "one replica of topics %s: without its broker the job waits, and acknowledgements that it has not read yet "
            "go with the broker's disk; on three brokers give them three (request.topic.replication.factor)",
            ", ".join(alone),
        )

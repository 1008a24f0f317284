"""Administration of a group's offsets, configs and members by rows, for callers with the job's configuration.

The coordinator's side is `core.group_coordinator.administration`. Each function raises RequestError (the errors that it
names), JobNotRespondingError, or KafkaUnavailableError.
"""

from collections.abc import Iterable, Mapping

from sharegroup.config import Config
from sharegroup.kafka_clients.row_topics.job_request import TIMEOUT_S, request_job
from sharegroup.protocol.rows import share_group_requests as requests
from sharegroup.protocol.rows import share_group_responses as responses


def alter_offsets(
    config: Config, group_id: str, start_offsets: Mapping[tuple[str, int], int], timeout_s: float = TIMEOUT_S
) -> tuple[responses.PartitionError, ...]:
    """Set start offsets by topic and partition. Return the result of each partition.

    Errors: INVALID_GROUP_ID, NON_EMPTY_GROUP.
    """
    offsets = tuple(requests.StartOffset(*place, offset) for place, offset in start_offsets.items())
    topics = {offset.topic for offset in offsets}
    return request_job(
        config,
        group_id,
        lambda channel, header: requests.AlterOffsetsRequest(
            *header, offsets=offsets, topics=channel.topics_metadata(topics)
        ),
        responses.AlterOffsetsResponse,
        timeout_s,
    ).partition_errors


def alter_configs(
    config: Config, group_id: str, configs: Mapping[str, str | None], timeout_s: float = TIMEOUT_S
) -> None:
    """Set configs of a group by Kafka's names; None removes a config. Either all are changed or none.

    Errors: INVALID_CONFIG, ...
    """
    request_job(
        config,
        group_id,
        lambda _, header: requests.AlterConfigsRequest(*header, configs=configs),
        responses.AlterConfigsResponse,
        timeout_s,
    )


def invoke_consumer_rebalance(
    config: Config, group_id: str, timeout_s: float = TIMEOUT_S
) -> tuple[requests.MemberIdentity, ...]:
    """Let absent static members leave now, and run the assignor (KIP-345). Return the members that left.

    Errors: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, INVALID_REQUEST for a group without members.
    """
    return request_job(
        config,
        group_id,
        lambda _, header: requests.InvokeConsumerRebalanceRequest(*header),
        responses.InvokeConsumerRebalanceResponse,
        timeout_s,
    ).removed


def remove_members(
    config: Config, group_id: str, members: Iterable[requests.MemberIdentity], timeout_s: float = TIMEOUT_S
) -> tuple[responses.MemberError, ...]:
    """Remove members, whose records are released. Return the result for each.

    Errors: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, INVALID_REQUEST.
    """
    named = tuple(members)
    return request_job(
        config,
        group_id,
        lambda _, header: requests.RemoveMembersRequest(*header, members=named),
        responses.RemoveMembersResponse,
        timeout_s,
    ).member_errors

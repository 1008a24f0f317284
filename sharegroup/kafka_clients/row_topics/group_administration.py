"""Requests that change a group's offsets, configs and members, sent to the job as rows.

Callers need the job's configuration. `core.group_coordinator.administration` handles the requests. Each function raises
RequestError with one of the error codes that its docstring lists, JobNotRespondingError if there is no response within
`timeout_s` seconds, and KafkaUnavailableError if the brokers cannot be reached.
"""

from collections.abc import Iterable, Mapping

from sharegroup.config import Config
from sharegroup.kafka_clients.row_topics.job_request import TIMEOUT_S, request_job
from sharegroup.protocol.rows import share_group_requests as requests
from sharegroup.protocol.rows import share_group_responses as responses


def alter_offsets(
    config: Config, group_id: str, start_offsets: Mapping[tuple[str, int], int], timeout_s: float = TIMEOUT_S
) -> tuple[responses.PartitionError, ...]:
    """Set start offsets. `start_offsets` is {(topic, partition): start offset}. Return the result of each partition.

    Error codes of RequestError: INVALID_GROUP_ID, NON_EMPTY_GROUP.
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

    Error codes of RequestError: INVALID_CONFIG for an invalid name or value, INVALID_REQUEST for a blank group id.
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
    """Remove the static members that have left temporarily, run the assignor, and return the removed members.

    Static members that have sent no heartbeat for `share.session.timeout.ms` are also removed (KIP-345).

    Error codes of RequestError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, INVALID_REQUEST for a group without members.
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
    """Remove members from a group and release their records. Return the result for each member.

    Error codes of RequestError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, INVALID_REQUEST if `members` is empty.
    """
    named = tuple(members)
    return request_job(
        config,
        group_id,
        lambda _, header: requests.RemoveMembersRequest(*header, members=named),
        responses.RemoveMembersResponse,
        timeout_s,
    ).member_errors

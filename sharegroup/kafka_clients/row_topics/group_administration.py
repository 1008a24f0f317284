"""Administration of a group's offsets and configs by rows, for callers with the job's configuration."""

from collections.abc import Mapping

from sharegroup.config import Config
from sharegroup.kafka_clients.row_topics.job_request import TIMEOUT_S, request_job
from sharegroup.kafka_clients.row_topics.row_channel import RowChannel
from sharegroup.protocol.rows.share_group_fields import StartOffset
from sharegroup.protocol.rows.share_group_requests import AlterConfigsRequest, AlterOffsetsRequest
from sharegroup.protocol.rows.share_group_responses import AlterConfigsResponse, AlterOffsetsResponse, PartitionError


def alter_offsets(
    config: Config, group_id: str, start_offsets: Mapping[tuple[str, int], int], timeout_s: float = TIMEOUT_S
) -> tuple[PartitionError, ...]:
    """Set start offsets by topic and partition. Return the result of each partition.

    Raises RequestError (INVALID_GROUP_ID, NON_EMPTY_GROUP), JobNotRespondingError, KafkaUnavailableError.
    """
    offsets = tuple(StartOffset(*place, offset) for place, offset in start_offsets.items())

    def request(channel: RowChannel, name: str) -> AlterOffsetsRequest:
        topics = channel.topics_metadata({offset.topic for offset in offsets})
        return AlterOffsetsRequest(name, group_id, name, offsets=offsets, topics=topics)

    return request_job(config, group_id, request, AlterOffsetsResponse, timeout_s).partition_errors


def alter_configs(
    config: Config, group_id: str, configs: Mapping[str, str | None], timeout_s: float = TIMEOUT_S
) -> None:
    """Set configs of a group by Kafka's names; None removes a config. Either all are changed or none.

    Raises RequestError (INVALID_CONFIG, ...), JobNotRespondingError, KafkaUnavailableError.
    """

    def request(_channel: RowChannel, name: str) -> AlterConfigsRequest:
        return AlterConfigsRequest(name, group_id, name, configs=configs)

    request_job(config, group_id, request, AlterConfigsResponse, timeout_s)

"""What a shard tells its group's coordinator, once its batch has made durable what the notice says."""

from __future__ import annotations

from sharegroup.engine.output import Output
from sharegroup.protocol.request_rows import DELETED, INITIALIZED, TOPIC_DELETED, ShareGroupRequest
from sharegroup.protocol.response_rows import Broadcast
from sharegroup.types import SharePartitionKey


def tell_initialized(output: Output, key: SharePartitionKey, state_epoch: int) -> None:
    """The share-partition's first state, of this epoch, is there."""
    named = ((key.topic_id, key.partition, state_epoch),)
    notice_id = f"{INITIALIZED}-{key.topic_id}-{key.partition}-{state_epoch}"
    _tell(output, ShareGroupRequest(INITIALIZED, notice_id, key.group_id, initialized=named))


def tell_deleted(output: Output, key: SharePartitionKey, state_epoch: int) -> None:
    """The share-partition's state, of this epoch, is deleted."""
    named = ((key.topic_id, key.partition, state_epoch),)
    notice_id = f"{DELETED}-{key.topic_id}-{key.partition}-{state_epoch}"
    _tell(output, ShareGroupRequest(DELETED, notice_id, key.group_id, deleted=named))


def tell_topic_deleted(output: Output, group_id: str, topic_id: str) -> None:
    """The topic is no more; gateways and members are told as well."""
    _tell(output, ShareGroupRequest(TOPIC_DELETED, f"{TOPIC_DELETED}-{topic_id}", group_id, topic_ids=(topic_id,)))
    output.responses.append(Broadcast(TOPIC_DELETED, group_id, topic_id=topic_id)._asdict())


def _tell(output: Output, notice: ShareGroupRequest) -> None:
    output.requests.append((notice.kafka_key.decode(), notice.encode().decode()))

"""What a shard tells its group's coordinator, once its batch has made durable what the notice says."""

from __future__ import annotations

from sharegroup.engine.output import Output
from sharegroup.protocol.broadcasts import TopicDeletedBroadcast
from sharegroup.protocol.share_group_requests import DeletedNotice, InitializedNotice, TopicDeletedNotice
from sharegroup.types import SharePartitionKey


def tell_initialized(output: Output, key: SharePartitionKey, state_epoch: int) -> None:
    """The share-partition's first state, of this epoch, is there."""
    named = ((key.topic_id, key.partition, state_epoch),)
    notice_id = f"{InitializedNotice.type}-{key.topic_id}-{key.partition}-{state_epoch}"
    output.send(InitializedNotice(notice_id, key.group_id, initialized=named))


def tell_deleted(output: Output, key: SharePartitionKey, state_epoch: int) -> None:
    """The share-partition's state, of this epoch, is deleted."""
    named = ((key.topic_id, key.partition, state_epoch),)
    notice_id = f"{DeletedNotice.type}-{key.topic_id}-{key.partition}-{state_epoch}"
    output.send(DeletedNotice(notice_id, key.group_id, deleted=named))


def tell_topic_deleted(output: Output, group_id: str, topic_id: str) -> None:
    """The topic is no more; gateways and members are told as well."""
    output.send(TopicDeletedNotice(f"{TopicDeletedNotice.type}-{topic_id}", group_id, topic_ids=(topic_id,)))
    output.tell(TopicDeletedBroadcast(group_id, topic_id))

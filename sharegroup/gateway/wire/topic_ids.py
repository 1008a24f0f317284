"""Topic ids, which members and the job have to make as the gateway does: see `sharegroup.protocol.topic_ids`."""

from sharegroup.protocol.topic_ids import NO_TOPIC_ID, made_topic_id, topic_id_of, topic_id_text

__all__ = ["NO_TOPIC_ID", "made_topic_id", "topic_id_of", "topic_id_text"]

"""Commits offsets of consumer groups that have no members."""

from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError, NoError
from kafka.structs import OffsetAndMetadata


class GroupOffsets:
    """Commits offsets of consumer groups. `settings` are kafka-python's. Connects at the first commit."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._admin: KafkaAdminClient | None = None

    def commit(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], str]:
        """Commit {(topic, partition): offset}. Return {(topic, partition): error name} for rejected offsets.

        Raises KafkaError if the whole request fails.
        """
        if self._admin is None:
            self._admin = KafkaAdminClient(**self._settings)
        wanted = {TopicPartition(*where): OffsetAndMetadata(offset, "", -1) for where, offset in offsets.items()}
        answers: Mapping[TopicPartition, type[KafkaError]] = self._admin.alter_group_offsets(group_id, wanted)
        return {(at.topic, at.partition): error.__name__ for at, error in answers.items() if error is not NoError}

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()

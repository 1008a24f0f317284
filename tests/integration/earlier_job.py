"""What a job of an earlier version left: its tables and its checkpoint, packed, and how they are made.

    python -m tests.integration.earlier_job tests/fixtures/earlier_job.tar.xz

in a checkout of that version, with this file copied there. A member holds records, has finished some and released one;
the job is killed between two batches.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from sharegroup.testkit.embedded_kafka import EmbeddedKafka
from sharegroup.testkit.raw_member import RawMember
from sharegroup.testkit.share_group_job import ShareGroupJobRun
from sharegroup.types import AcknowledgeType

PACKED = Path(__file__).parents[1] / "fixtures" / "earlier_job.tar.xz"
#: Of the names of its three topics.
PREFIX = "earlier-"
TOPIC, GROUP, MEMBER = "earlier-orders", "earliest-0", "00000000-0000-0000-0000-000000000001"
#: (first offset, last offset, state, delivery count) of what is in flight of its one partition.
IN_FLIGHT = [
    (0, 2, "ACQUIRED", 1),
    (3, 4, "ACKNOWLEDGED", 1),
    (5, 6, "ACQUIRED", 1),
    (7, 7, "AVAILABLE", 1),
    (8, 9, "ACQUIRED", 1),
]
QUERIES = ("group_coordinator", "share_partition")


def make(packed: Path) -> None:
    """Run a job of this version, and pack what it leaves."""
    with tempfile.TemporaryDirectory() as scratch, EmbeddedKafka() as kafka:
        directory = Path(scratch)
        kafka.create_topic(TOPIC, partitions=1)
        with ShareGroupJobRun(directory, kafka.bootstrap_servers, prefix=PREFIX, master="local[1]") as job:
            job.start()
            job.await_running()
            client = job.client()
            client.send_values(TOPIC, [b"record"] * 10)
            member = RawMember(client, GROUP, MEMBER)
            member.join({TOPIC: 1})
            assert member.fetch(TOPIC, 0, 10).acquired == ((0, 9, 1),)
            done = [(3, 4, AcknowledgeType.ACCEPT), (7, 7, AcknowledgeType.RELEASE)]
            assert member.acknowledge(TOPIC, 0, done).error_code == 0
            for query in QUERIES:
                while not job.is_committed(query, job.next_batch(query) - 1):
                    assert job.process.exit_code is None
            job.process.kill()
        pack(directory, packed)


def pack(directory: Path, packed: Path) -> None:
    """Pack tables and checkpoint, without where they were."""
    for log in directory.glob("tables/*/_delta_log/*.json"):
        log.write_text(log.read_text().replace(str(directory), "/earlier"))
    with tarfile.open(packed, "w:xz") as archive:
        for name in ("tables", "checkpoint"):
            archive.add(directory / name, name, filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without who made it, and when."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def unpack(directory: Path) -> None:
    """Put `tables` and `checkpoint` into a directory."""
    with tarfile.open(PACKED) as archive:
        archive.extractall(directory, filter="data")


def read_positions(directory: Path) -> dict[str, dict[int, int]]:
    """{request topic: {partition: next unread offset}} of the checkpoints."""
    positions: dict[str, dict[int, int]] = {}
    for query in QUERIES:
        offsets = directory / "checkpoint" / query / "offsets"
        newest = max((path for path in offsets.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
        for line in newest.read_text().splitlines()[2:]:
            for topic, of_topic in json.loads(line).items():
                if str(topic).startswith(PREFIX):
                    positions[topic] = {int(partition): offset for partition, offset in of_topic.items()}
    return positions


def make_topics(bootstrap_servers: str, directory: Path) -> None:
    """The job's request topics with as many rows as it has read, of which none is a request."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    configs = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
    positions = read_positions(directory)
    admin.create_topics(
        [NewTopic(topic, len(of_topic), 1, topic_configs=configs) for topic, of_topic in positions.items()]
    )
    admin.wait_for_topics(list(positions))
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for topic, of_topic in positions.items():
        for partition, count in of_topic.items():
            for _ in range(count):
                producer.send(topic, b"read before", partition=partition)
    producer.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]))

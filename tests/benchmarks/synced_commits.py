"""What `tables.local.sync` costs a micro-batch: two jobs, one with it and one without, in turns, on one broker.

    python -m tests.benchmarks.synced_commits DIRECTORY

A member has one record acquired and accepted in each round: two requests, two micro-batches, one after the other. The
directory is on the disk that is measured.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from statistics import median

from kafka import KafkaProducer

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.types import AcknowledgeType
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import ShareGroupJobRun

_TURNS, _ROUNDS = 6, 25
_RECORDS = (_TURNS + 1) * _ROUNDS
_TOPIC = "synced"


def main() -> None:
    """Print the median time of a request without the sync, with it, and their ratio."""
    directory = Path(sys.argv[1])
    with EmbeddedKafka() as kafka, contextlib.ExitStack() as resources:
        kafka.create_topic(_TOPIC)
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        for number in range(_RECORDS):
            producer.send(_TOPIC, b"%d" % number)
        producer.close()
        members = {is_on: _member(kafka, directory, is_on, resources) for is_on in (False, True)}
        next_offset, took_ms = dict.fromkeys(members, 0), {is_on: list[float]() for is_on in members}
        for turn in range(_TURNS + 1):  # the first one warms up
            for is_on, member in members.items():
                for _ in range(_ROUNDS):
                    took = _round_ms(member, next_offset[is_on])
                    next_offset[is_on] += 1
                    took_ms[is_on] += took if turn else []
    without, synced = (median(took_ms[is_on]) for is_on in (False, True))
    print(f"without {without:.1f} ms, synced {synced:.1f} ms, ratio {synced / without:.3f}")


def _member(kafka: EmbeddedKafka, directory: Path, is_on: bool, resources: contextlib.ExitStack) -> RawMember:
    name = f"sync-{is_on}"
    (directory / name).mkdir()
    job = resources.enter_context(
        ShareGroupJobRun(
            directory / name,
            kafka.bootstrap_servers,
            prefix=f"{name}-",
            job={"tables.local.sync": is_on},
            master="local[1]",
        )
    )
    job.start()
    job.await_running()
    member = RawMember(job.client(), job.new_group())
    member.join({_TOPIC: 1})
    return member


def _round_ms(member: RawMember, offset: int) -> list[float]:
    """The times of both requests."""
    begin = time.perf_counter()
    assert member.fetch(_TOPIC, 0, 1).acquired[0].first_offset == offset
    fetched = time.perf_counter()
    member.acknowledge(_TOPIC, 0, [(offset, offset, AcknowledgeType.ACCEPT)])
    return [1000 * (fetched - begin), 1000 * (time.perf_counter() - fetched)]


if __name__ == "__main__":
    main()

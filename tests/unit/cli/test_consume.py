"""Lines of `sharegroup consume`."""

from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.cli.consume import format_record, parse_properties
from sharegroup.cli.options.connection import CommandError
from sharegroup.client import Record, TopicIdPartition
from sharegroup.client.records import Delivery

RECORD: Record[bytes | None] = Record(
    topic="orders",
    partition=3,
    offset=7,
    timestamp=1_000,
    timestamp_type=0,
    key=None,
    value=b"paid",
    headers=[("kind", b"test"), ("none", None)],
    delivery_count=2,
    delivery=Delivery(TopicIdPartition(UUID(int=7), 3, "orders"), 1, None),
)


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ([], "paid"),
        (["print.key=true", "key.separator=|", "null.literal=-"], "-|paid"),
        (
            ["print.timestamp=true", "print.partition=true", "print.offset=true", "print.delivery=true"],
            "CreateTime:1000\tPartition:3\tOffset:7\tDelivery:2\tpaid",
        ),
        (["print.headers=true", "print.value=false"], "kind:test,none:null"),
    ],
)
def test_line_has_what_the_properties_choose(properties: list[str], line: str) -> None:
    assert format_record(RECORD, parse_properties(properties)) == line


@pytest.mark.parametrize("text", ["print.key", "print.size=true"])
def test_unknown_formatter_property_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is not a formatter property"):
        parse_properties([text])

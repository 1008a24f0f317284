"""Lines of `sharegroup consume`."""

from __future__ import annotations

import threading
from uuid import UUID

import pytest
from typer.testing import CliRunner

from sharegroup.cli.app import app
from sharegroup.cli.consume import format_record, parse_properties
from sharegroup.cli.options.connection import CommandError
from sharegroup.client import Record, TopicIdPartition
from sharegroup.client.records import Delivery
from sharegroup.client.testing import InMemoryShareGroup, RecordState

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


@pytest.mark.parametrize(
    ("option", "state"),
    [([], RecordState.ACKNOWLEDGED), (["--reject"], RecordState.ARCHIVED), (["--release"], RecordState.AVAILABLE)],
)
def test_option_decides_how_records_are_acknowledged(
    option: list[str], state: RecordState, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = group_of(3, monkeypatch)
    ended = CliRunner().invoke(app, [*COMMAND, "--max-messages=2", *option])
    assert (ended.exit_code, ended.stdout) == (0, "0\n1\n")
    assert "Processed a total of 2 messages" in ended.stderr
    assert [record.state for record in group.records("orders")] == [state, state, RecordState.AVAILABLE]


def test_command_ends_when_no_record_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    group, has_ended = group_of(3, monkeypatch), threading.Event()

    def let_time_pass() -> None:
        while not has_ended.wait(0.001):
            if group.is_finished():
                group.advance(1_000)

    watcher = threading.Thread(target=let_time_pass)
    watcher.start()
    ended = CliRunner().invoke(app, [*COMMAND, "--timeout-ms=60000"])
    has_ended.set()
    watcher.join()
    assert (ended.exit_code, ended.stdout) == (0, "0\n1\n2\n")


def test_reject_and_release_exclude_each_other() -> None:
    ended = CliRunner().invoke(app, [*COMMAND, "--reject", "--release"])
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "At most one of --reject and --release" in ended.stderr


COMMAND = ["consume", "billing", "orders", "--bootstrap-server=localhost:9192"]


def group_of(records: int, monkeypatch: pytest.MonkeyPatch) -> InMemoryShareGroup:
    """Return a group with records, to which the command connects."""
    group = InMemoryShareGroup("billing")
    for number in range(records):
        group.produce("orders", b"%d" % number)
    monkeypatch.setattr("sharegroup.client.async_consumer.SocketConnector", lambda: group)
    return group

"""The command `sharegroup consume`: a share consumer that prints records, like Kafka's kafka-console-share-consumer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharegroup.cli.options.connection import (
    BootstrapServer,
    CommandConfig,
    CommandError,
    client_settings,
    reporting_errors,
)
from sharegroup.cli.options.output import warn

if TYPE_CHECKING:
    from sharegroup.client import Record

#: {property of Kafka's DefaultMessageFormatter: its default}.
FORMATTER_PROPERTIES = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.delivery": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\t",
    "headers.separator": ",",
    "null.literal": "null",
}
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
#: How long one poll waits for records, in seconds.
_POLL_S = 1.0
_MAX_POLL_RECORDS = 500


def consume(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Share group to join.")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to consume.")],
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    max_messages: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of records. Default: consume until interrupted.")
    ] = None,
    timeout_ms: Annotated[
        int | None, typer.Option(min=1, help="Exit if no record arrives for this time. Default: no limit.")
    ] = None,
    formatter_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Set what is printed, as for Kafka's tool: print.key=true, print.offset, print.partition, "
            "print.delivery, print.timestamp, print.headers, print.value, key.separator, headers.separator, "
            "null.literal.",
        ),
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Reject the records instead of accepting them.")] = False,
    release: Annotated[bool, typer.Option("--release", help="Release the records instead of accepting them.")] = False,
) -> None:
    """Print records of a topic as a member of a share group, and accept them."""
    with reporting_errors("consume command"):
        if reject and release:
            raise CommandError("At most one of --reject and --release may be specified")
        formats = parse_properties(formatter_property or [])
        settings = _settings(bootstrap_server, command_config)
        count = _consume(settings, group, topic, max_messages, timeout_ms, formats, _kind(reject, release))
        warn(f"Processed a total of {count} messages")


def _kind(reject: bool, release: bool) -> str:
    return "REJECT" if reject else "RELEASE" if release else "ACCEPT"


def _settings(bootstrap_server: str | None, command_config: Path | None) -> dict[str, Any]:
    from sharegroup.client.settings import KNOWN_SETTINGS

    settings = client_settings(bootstrap_server, command_config)
    return {name: value for name, value in settings.items() if name in KNOWN_SETTINGS}


def _consume(
    settings: Mapping[str, Any],
    group: str,
    topic: str,
    max_messages: int | None,
    timeout_ms: int | None,
    formats: Mapping[str, str],
    kind: str,
) -> int:
    """Print records of the topic, and acknowledge each as `kind` (ACCEPT, REJECT or RELEASE). Return their number.

    Stop after `max_messages` records, after `timeout_ms` ms without a record, or at Ctrl-C. A limit that is None does
    not apply. `formats` is the result of `parse_properties`.
    """
    from sharegroup.client import AcknowledgeType, ShareConsumer

    count, idle_ms = 0, 0.0
    own: dict[str, Any] = {"share_acknowledgement_mode": "explicit", "share_acquire_mode": "record_limit"}
    if max_messages is not None:
        own["max_poll_records"] = min(_MAX_POLL_RECORDS, max_messages)
    with ShareConsumer(group_id=group, topics=[topic], **settings, **own) as consumer:
        try:
            while timeout_ms is None or idle_ms < timeout_ms:
                wait_s = _POLL_S if timeout_ms is None else min(_POLL_S, (timeout_ms - idle_ms) / 1000)
                records = consumer.poll(wait_s)
                idle_ms = 0.0 if records else idle_ms + wait_s * 1000
                for record in records:
                    typer.echo(format_record(record, formats))
                    consumer.acknowledge(record, AcknowledgeType[kind])
                    count += 1
                    if count == max_messages:
                        return count
        except KeyboardInterrupt:
            pass
    return count


def parse_properties(assignments: Iterable[str]) -> dict[str, str]:
    """Return {name: value} of all properties in FORMATTER_PROPERTIES.

    `assignments` are texts NAME=VALUE. Properties without an assignment have their defaults. Raise CommandError if an
    assignment has another format or an unknown name.
    """
    found = dict(FORMATTER_PROPERTIES)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or name not in FORMATTER_PROPERTIES:
            raise CommandError(
                f"'{assignment}' is not a formatter property; use one of {', '.join(FORMATTER_PROPERTIES)}"
            )
        found[name] = value
    return found


def format_record(record: Record[bytes | None], formats: Mapping[str, str]) -> str:
    """Return the line that is printed for a record. Its parts have the order of Kafka's console consumer.

    `formats` is the result of `parse_properties`. It selects the parts, such as key and offset, and their separators.
    """
    null = formats["null.literal"]
    parts = {
        "print.timestamp": lambda: f"{_TIMESTAMP_TYPES[record.timestamp_type]}:{record.timestamp}",
        "print.partition": lambda: f"Partition:{record.partition}",
        "print.offset": lambda: f"Offset:{record.offset}",
        "print.delivery": lambda: f"Delivery:{record.delivery_count}",
        "print.headers": lambda: _headers(record, formats["headers.separator"], null),
        "print.key": lambda: _text(record.key, null),
        "print.value": lambda: _text(record.value, null),
    }
    return formats["key.separator"].join(part() for name, part in parts.items() if formats[name] == "true")


def _headers(record: Record[bytes | None], separator: str, null: str) -> str:
    if not record.headers:
        return "NO_HEADERS"
    return separator.join(f"{name}:{_text(value, null)}" for name, value in record.headers)


def _text(data: bytes | None, null: str) -> str:
    return null if data is None else data.decode("utf-8", "replace")

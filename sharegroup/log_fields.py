"""The field names of this project's log records, and a formatter that writes log records as JSON."""

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypedDict

from sharegroup.types import SharePartitionKey

#: The environment variable that selects the format of log lines: `text` (the default) or `json`.
FORMAT_VARIABLE = "SHAREGROUP_LOG_FORMAT"


class LogFields(TypedDict, total=False):
    """The values in the message of a log record, by field name.

    A log call passes them as its only argument, `logger.info("group %(group)s: ...", LogFields(group=group_id))`. Each
    value is then a part of the message and also a field of the JSON line.
    """

    # the object of the message
    group: str
    member: str
    instance: str  # group.instance.id of a static member
    share_partition: SharePartitionKey  # in JSON: group, topic and partition
    topic: str
    topic_id: str
    partition: int | None
    partitions: str  # several partitions, such as "0-2, 5"
    offset: int
    end_offset: int
    broker: int  # node id
    gateway: str  # host:port
    client: str  # host
    client_id: str
    principal: str
    api: str
    query: str
    query_id: str
    leader_epoch: int
    batch: int
    table: str
    first_table: str  # the table to which a query commits first
    version: int
    lost_version: int
    file: str  # a path, or the names of several files
    address: str  # an address that clients use
    resource: str  # the name of any other object, such as an assignor
    key: str  # of a row
    request: str  # id of a request row
    # the event
    error: object
    detail: str | int  # a part of the sentence that depends on the case
    # numbers and durations
    count: int | None
    previous_count: int
    records: int
    requests: int
    configured: int
    files: int
    size_bytes: int
    limit: float
    duration_s: float
    duration_ms: int
    retry_s: float


class JsonLines(logging.Formatter):
    """Formatter that writes each log record as one JSON object in one line.

    The object has the time, level, logger and message, the record's `LogFields`, and the stack trace if there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the log record as one line of JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields_of(record),
        }
        if record.exc_info:
            line["stack_trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


#: The attribute of a log record in which a filter stores the record's `LogFields` if it formats the message early.
FIELDS = "fields"


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    args = vars(record).get(FIELDS, record.args)
    fields = dict(args) if isinstance(args, Mapping) else {}
    if key := fields.pop("share_partition", None):
        fields.update(group=key.group_id, topic=key.topic, partition=key.partition)
    return fields


def log_formatter(text_format: str) -> logging.Formatter:
    """Return a formatter for JSON lines if the environment variable SHAREGROUP_LOG_FORMAT is `json`, else for text.

    `text_format` is the format string for text lines.
    """
    return JsonLines() if os.environ.get(FORMAT_VARIABLE) == "json" else logging.Formatter(text_format)

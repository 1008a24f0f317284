"""The errors of responses, as kafka-python's exceptions."""

from __future__ import annotations

from kafka.errors import (
    BrokerResponseError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    NodeNotReadyError,
    NotCoordinatorError,
    UnknownBrokerIdError,
    for_code,
)

#: Kafka's own words for an error that came without any (org.apache.kafka.common.protocol.Errors).
_MESSAGES = {
    3: "This server does not host this topic-partition.",
    15: "The coordinator is not available.",
    16: "This is not the correct coordinator.",
    24: "The group id is invalid.",
    25: "The coordinator is not aware of this member.",
    29: "Topic authorization failed.",
    30: "Group authorization failed.",
    31: "Cluster authorization failed.",
    35: "The version of API is not supported.",
    68: "The group is not empty.",
    69: "The group id does not exist.",
}

#: The coordinator moves or starts, or the connection to it was lost: the same request may succeed a moment later.
PASSING = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    KafkaConnectionError,
    NodeNotReadyError,
    UnknownBrokerIdError,
)


def error_of(code: int, message: str | None = None) -> BrokerResponseError | None:
    """The exception of an error code, None for 0. Its text, without class and number, is `text_of`."""
    if code == 0:
        return None
    kind = for_code(code)
    error: BrokerResponseError = kind(message or _MESSAGES.get(code) or kind.description or kind.message)
    return error


def check(code: int, message: str | None = None) -> None:
    """Raise the exception of an error code; do nothing for 0."""
    error = error_of(code, message)
    if error is not None:
        raise error


def text_of(error: BaseException) -> str:
    """What the server said, or the error's own words where it was no server."""
    return str(error.args[0]) if error.args else type(error).__name__

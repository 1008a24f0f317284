"""Converts error codes in responses to kafka-python's exceptions."""

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

#: {error code: Kafka's message}, for responses without an error message (org.apache.kafka.common.protocol.Errors).
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

#: Transient errors: the coordinator moves or loads, or the connection was lost. A retry may succeed.
TRANSIENT = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    KafkaConnectionError,
    NodeNotReadyError,
    UnknownBrokerIdError,
)


def error_of(code: int, message: str | None = None) -> BrokerResponseError | None:
    """Return the exception for an error code, None for code 0 (no error)."""
    if code == 0:
        return None
    kind = for_code(code)
    error: BrokerResponseError = kind(message or _MESSAGES.get(code) or kind.description or kind.message)
    return error


def check(code: int, message: str | None = None) -> None:
    """Raise the exception for an error code, unless the code is 0 (no error)."""
    error = error_of(code, message)
    if error is not None:
        raise error


def error_text(error: BaseException) -> str:
    """Return the message of an error, without kafka-python's error class and error code."""
    return str(error.args[0]) if error.args else type(error).__name__

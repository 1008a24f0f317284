"""The Kafka error codes that share groups use, and the exceptions that several packages use.

The docstring of an exception states whose fault it is. An exception that concerns only one package is defined there.
Some exceptions replace an error of a library (Kafka client, Delta, Spark), which is then the exception's cause.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """Error codes of the Kafka protocol. A code is `retriable` if Kafka's exception for it is a RetriableException."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    FENCED_LEADER_EPOCH = 74
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    UNKNOWN_TOPIC_ID = 100
    FENCED_MEMBER_EPOCH = 110
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    SHARE_SESSION_LIMIT_REACHED = 133

    @property
    def retriable(self) -> bool:
        """Whether the request may succeed when it is repeated."""
        return self in _RETRIABLE


_RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)
_BY_NUMBER = {int(code): code for code in ErrorCode}


def error_code(number: int) -> ErrorCode:
    """Return the error code with this number, or UNKNOWN_SERVER_ERROR if the number is unknown."""
    return _BY_NUMBER.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


def error_name(number: int) -> str:
    """Return the name of the error code with this number, or its digits if the number is unknown."""
    return _BY_NUMBER[number].name if number in _BY_NUMBER else str(number)


class ShareGroupError(Exception):
    """Base class of this project's exceptions."""


class InvalidConfigError(ShareGroupError):
    """The user's configuration is invalid.

    `source` names the configuration, such as a file. `problems` contains one sentence for each invalid key.
    """

    def __init__(self, source: str, problems: list[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"{source}: {len(problems)} wrong configuration value(s)", *problems]))


class RequestError(ShareGroupError):
    """A request is invalid or arrived too late. It is rejected with a Kafka error code, and no state changes."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code.name}: {message}")


class InvalidRequestRow(ShareGroupError):
    """A row of a request topic is invalid and gets no response, because its `id` or `reply_to` cannot be read."""


class IllegalTransitionError(ShareGroupError):
    """A transition or record is illegal in the current state of a state machine. This is a defect of this project."""


class FencedLeaderError(ShareGroupError):
    """Another job writes to the same tables (FENCED_LEADER_EPOCH). This job must stop."""


class StopRequested(ShareGroupError):
    """The process received SIGTERM, so a micro-batch was not started. The job runs the batch after its next start."""

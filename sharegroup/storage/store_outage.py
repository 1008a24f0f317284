"""Detects errors that mean that the store of the tables (or of the checkpoints) is unavailable.

A store is unavailable if it does not respond, responds with 429 or 5xx, or has a full disk. Errors come from delta-rs
in Python, from the libraries of Hadoop and Amazon in Spark, and as text from Spark's Python workers. They have no
common class, so their text is matched. A store that rejects a request (no such bucket, access denied) is not
unavailable, because waiting does not help.
"""

import re

#: The formatting in delta-rs' longer error texts: colours, arrows, and line breaks with their indentation.
_MARKS = re.compile(r"(\x1b\[\d*m|↳|\s)+")
_STATUS = r"(429|5\d\d)\b"
_AWAY = re.compile(
    "|".join(
        [
            # a full disk, whatever writes to it
            r"No space left on device|Disk quota exceeded",
            # delta-rs' HTTP client
            r"error sending request",
            r"error decoding response body|error reading a body from connection",
            rf"Server returned non-2xx status code:? {_STATUS}",
            # Hadoop's S3A and the libraries below it
            r"org\.apache\.hadoop\.fs\.s3a\.(AWSClientIO|AWSStatus500|AWSServiceThrottled|AWSNoResponse|AWSApiCallTimeout)"
            r"Exception",
            r"software\.amazon\.awssdk\.core\.exception\.(ApiCall(Attempt)?TimeoutException|RetryableException)",
            r"Unable to execute HTTP request",
            r"java\.net\.(Connect|NoRouteToHost|SocketTimeout|UnknownHost|PortUnreachable)Exception",
            rf"\(Service: S3, Status Code: {_STATUS}",
        ]
    )
)


def one_line(error: object) -> str:
    return _MARKS.sub(" ", str(error)).strip()


def is_store_outage(error: BaseException) -> bool:
    """Return whether this error means that the store of tables or checkpoints is unavailable.

    Only the text of the error itself is checked, not its causes.
    """
    return _AWAY.search(one_line(error)) is not None

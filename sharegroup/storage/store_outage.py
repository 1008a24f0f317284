"""Whether it is the store of the tables (or of the checkpoints) that is away: nobody answers, or with 429 or 5xx, or
the disk is full.

Errors come as delta-rs' from Python, as Hadoop's and Amazon's from Spark, and as a text from Spark's Python workers.
All that they have in common is what they say, so that is what is looked at. A store that answers with a refusal (no
such bucket, access denied) is not away: nobody will change that by waiting.
"""

from __future__ import annotations

import re

#: The marks of delta-rs' longer errors: colours, arrows, and line breaks with their indentation.
_MARKS = re.compile(r"(\x1b\[\d*m|↳|\s)+")
_STATUS = r"(429|5\d\d)\b"
_AWAY = re.compile(
    "|".join(
        [
            # a disk that is full, from whatever writes to it
            r"No space left on device|Disk quota exceeded",
            # delta-rs' HTTP client
            r"error sending request",
            r"error decoding response body|error reading a body from connection",
            rf"Server returned non-2xx status code:? {_STATUS}",
            # Hadoop's S3A and what it stands on
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
    """What an error says, in one line."""
    return _MARKS.sub(" ", str(error)).strip()


def is_store_outage(error: BaseException) -> bool:
    """Whether this error, its causes aside, says that a store is away."""
    return _AWAY.search(one_line(error)) is not None

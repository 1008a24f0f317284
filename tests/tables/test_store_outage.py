"""Which errors mean that a store is unavailable; the texts are those of the libraries."""

from __future__ import annotations

import pytest

from sharegroup.storage.store_outage import is_store_outage, one_line
from sharegroup.storage.writing.versioned_table import TableStoreError

_MARK = "\n          \x1b[31m↳\x1b[0m "
REFUSED = _MARK.join(
    [
        "Kernel error -> Generic S3 error",
        "Error performing GET http://store/lake in 2.25s, after 10 retries, max_retries",
        "10, retry_timeout",
        "180s  - HTTP error",
        "error sending request",
        "client error (Connect)",
    ]
)
STATUS = _MARK.join(
    [
        "Generic S3 error: Error performing PUT http://store/lake - Server returned non-2xx status code",
        "%s",
        "<?xml version='1.0'?><Error><Code>Any</Code></Error>",
    ]
)
S3A = (
    "getFileStatus on s3a://lake/commits/3: software.amazon.awssdk.core.exception.SdkClientException: Unable to "
    "execute HTTP request: Connect to store failed: Connection refused"
)


@pytest.mark.parametrize(
    "text",
    [
        REFUSED,
        STATUS % "503 Service Unavailable",
        STATUS % "500 Internal Server Error",
        STATUS % "429 Too Many Requests",
        S3A,
        "org.apache.hadoop.fs.s3a.AWSServiceThrottledException: PUT 0-byte object",
        "java.net.UnknownHostException: store",
        "Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)",
        "org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device",
        "[Errno 122] Disk quota exceeded",
        "(Service: S3, Status Code: 503, Request ID: 1)",
        f"pyspark.errors.exceptions.base.PySparkRuntimeError: Traceback: OSError: {REFUSED}",
    ],
)
def test_one_that_is_away(text: str) -> None:
    assert is_store_outage(OSError(text))
    assert is_store_outage(TableStoreError(f"OSError: {one_line(text)}"))


@pytest.mark.parametrize(
    "text",
    [
        STATUS % "403 Forbidden",
        STATUS % "404 Not Found",
        "Failed to commit transaction: 503",
        "(Service: S3, Status Code: 403, Request ID: 503)",
        "the batch failed",
    ],
)
def test_one_that_answers(text: str) -> None:
    assert not is_store_outage(OSError(text))


def test_a_text_is_one_line() -> None:
    assert one_line(OSError(REFUSED)).endswith("180s - HTTP error error sending request client error (Connect)")

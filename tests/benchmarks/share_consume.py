"""confluent-kafka's ShareConsumer reads a topic to its end, as a process of its own; prints how long it took, as JSON.

`join_s`: from subscribe to the first record. `seconds`: from the first record to the last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from typing import Any

from tests.harness.submitted_job import ROOT


def consume(bootstrap_servers: str, group: str, topic: str, records: int, timeout_s: float) -> dict[str, float]:
    """With the client's default settings; TimeoutError if the records do not come."""
    from confluent_kafka import ShareConsumer

    warnings.simplefilter("ignore")
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "group.id": group}
    consumer = ShareConsumer(settings)
    begin = time.monotonic()
    consumer.subscribe([topic])
    first: float | None = None
    seen = last = 0.0
    try:
        while seen < records:
            if time.monotonic() - begin > timeout_s:
                raise TimeoutError(f"{seen:,.0f} of {records:,} records within {timeout_s:.0f} s")
            messages = consumer.poll(timeout=1.0)
            good = sum(1 for message in messages if message.error() is None)
            if good:
                last = time.monotonic()
                first = first if first is not None else last
                seen += good
    finally:
        consumer.close()
    assert first is not None
    return {"join_s": first - begin, "seconds": last - first, "records": seen}


def consume_apart(bootstrap_servers: str, group: str, topic: str, records: int, timeout_s: float) -> dict[str, float]:
    """`consume` in a process of its own. Raises RuntimeError when that fails."""
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.benchmarks.share_consume", "--bootstrap-servers", bootstrap_servers,
            "--group", group, "--topic", topic, "--records", str(records), "--timeout", str(timeout_s),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=timeout_s + 60,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"the client of {group} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--timeout", type=float, default=300)
    options = parser.parse_args()
    result = consume(options.bootstrap_servers, options.group, options.topic, options.records, options.timeout)
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Requests that reach the job of another cell."""

from __future__ import annotations

from sharegroup.core.operators.rejected_requests import ForeignRequests
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.response_rows import reject_share_group_request, reject_share_partition_request

from .shard_driver import GROUP, KEY, T0, ShardDriver, fetch, tick
from .test_share_group_operator import GroupDriver, heartbeat

MESSAGE = (
    f"group {GROUP} belongs to cell b, but this job serves cell a; "
    "check that the sender and the job use the same map of groups to cells"
)


def test_requests_of_another_cell_are_rejected_without_state() -> None:
    number = ShardDriver()
    operator = ForeignRequests(KEY, GROUP, ("a", "b"), reject_share_partition_request)
    lines = [number.line(fetch("f1"), 0), number.line(b"{", 0), number.line(b"[1]", 0), tick(5)]
    output = operator.run(lines, T0)
    assert [(response["id"], response["error_code"]) for response in output.responses] == [
        ("f1", ErrorCode.NOT_COORDINATOR)
    ]
    assert output.responses[0]["error_message"] == MESSAGE
    assert [reason for _, _, reason in output.rejected] == [MESSAGE] * 3
    assert output.positions == {0: 3}
    assert (output.tables, operator.dump()) == ({}, None)


def test_heartbeat_gets_a_heartbeat_rejection() -> None:
    line = GroupDriver().line(heartbeat("h1", 0), 0)
    output = ForeignRequests(GROUP, GROUP, ("a", "b"), reject_share_group_request).run([line], T0)
    (response,) = output.responses
    assert (response["type"], response["id"], response["error_code"]) == ("heartbeat", "h1", ErrorCode.NOT_COORDINATOR)

"""Input rows: their order, unknown kinds, and rows that name no share-partition."""

from __future__ import annotations

import random

import pytest

from sharegroup.core.operators import rows
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.rejected_requests import UnkeyedRequests
from sharegroup.protocol.rows.probe import PROBE

from .shard_driver import ShardDriver, answered, fetch

IN_ORDER = [
    "config\t{}",
    'gone\t"orders"',
    "unload\t[1]",
    "load\t[]",
    "log\t[[0,0,5]]",
    'request\t0\t12\t60\t{"type":"configure"}',
    'request\t1\t2\t60\t{"type":"configure"}',
    "request\t1\t3\t70\ttab\tin the\tvalue",
    "request\t0\t9\t100\tlate",
    "request\t0\t10\t50\tlater",
    "tick\t7",
]


def test_rows_are_sorted_by_kind_and_requests_by_append_time() -> None:
    for seed in range(10):
        shuffled = IN_ORDER.copy()
        random.Random(seed).shuffle(shuffled)
        ordered = rows.sort_rows(shuffled)
        assert [row.kind for row in ordered] == [line.split("\t")[0] for line in IN_ORDER]
        assert [row.request for row in ordered if row.request] == [
            rows.RequestRow(1, 2, 60, '{"type":"configure"}'),
            rows.RequestRow(0, 12, 60, '{"type":"configure"}'),
            rows.RequestRow(1, 3, 70, "tab\tin the\tvalue"),
            rows.RequestRow(0, 9, 100, "late"),
            rows.RequestRow(0, 10, 50, "later"),
        ]


def test_unknown_kind_of_row_raises() -> None:
    with pytest.raises(ValueError, match="unknown kind of row: 'color'"):
        rows.decode_row("color\tred")


def test_a_probe_is_read_and_nothing_else() -> None:
    line = ShardDriver().line(PROBE.encode(), 7)
    output = UnkeyedRequests("").run([line], 5)
    assert Output.decode(output.encode()) == Output("", 5, positions={0: 1})


def test_rows_without_share_partition_are_answered_if_possible() -> None:
    shard = ShardDriver()
    lines = [
        shard.line(b"\x00 not json", 0),
        shard.line(b'{"id":"x","reply_to":"me","type":"fetch","group_id":"g","topic":"orders","partition":"?"}', 0),
        shard.line(fetch("f1"), 0),
        "tick\t7",
    ]
    output = UnkeyedRequests("").run(lines, 5)
    problem = "partition must be an integer from 0 to 2147483647"
    response = answered("fetch", "x", member="", partition=-1, error=(42, problem)) | {"topic_id": ""}
    assert Output.decode(output.encode()) == Output(
        "",
        5,
        responses=[response],
        rejected=[
            [0, 0, output.rejected[0][2]],  # type: ignore[list-item]  # JSON has no tuples
            [0, 1, f"INVALID_REQUEST: {problem}"],  # type: ignore[list-item]
            [0, 2, "the request names no share-partition"],  # type: ignore[list-item]
        ],
        positions={0: 3},
    )
    assert output.rejected[0][2].startswith("the row is not JSON")

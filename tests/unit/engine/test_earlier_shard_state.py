"""States of shards as the version before wrote them."""

from __future__ import annotations

import json

from .shard_driver import LOCK_MS, ShardDriver, acknowledge, known, log, tick

#: By format 2: m1 holds 3..4 and 8..9, m2 7 for the second time and 10..12, m3 13..19; 5..6 were accepted.
FORMAT_2 = (
    '{"version":2,"topic":"orders","gone_ms":null,"now_ms":1700000000040,"clock_ms":0,'
    '"configs":{"":[[5,30000,2000,true],false,true]},"partitions":{"0":[1700000030000,'
    "[0,1,0,3,2,3,1700000000000,0],[3,0,20,null,[],false,2,[0,[2,2,1,2,3,7],[0,1,2,0,3,4],"
    "[[1,1,0,1700000030000,-3,6],[2,1,1,null],[1,2,2,1700000030020,-3,6],[1,1,2,1700000030020,7,9],"
    '[1,1,3,1700000030030,10,16]],["m1",null,"m2","m3"]]],[0,20,null,true]]},'
    '"demands":{"0":[["f4","me","m1",50,1700000005040,1700000000040]]},"parked":[],"departed":{},'
    '"requesters":{"0":[{"m1":{"me":1700000000000},"m2":{"me":1700000000020},"m3":{"me":1700000000030}},0]}}'
)
WINDOW = [
    [3, 4, "ACQUIRED", 1, "m1", LOCK_MS],
    [5, 6, "ACKNOWLEDGED", 1, None, None],
    [7, 7, "ACQUIRED", 2, "m2", LOCK_MS + 20],
    [8, 9, "ACQUIRED", 1, "m1", LOCK_MS],
    [10, 12, "ACQUIRED", 1, "m2", LOCK_MS + 20],
    [13, 19, "ACQUIRED", 1, "m3", LOCK_MS + 30],
]


def test_a_state_of_format_2_goes_on() -> None:
    shard = ShardDriver()
    shard.state = FORMAT_2
    assert shard.window() == WINDOW
    output = shard.send(acknowledge("a1", (3, 4, 1), (8, 9, 2)), at=50)
    assert [response["id"] for response in output.responses if response["error_code"] == 0] == ["a1", "f4"]
    assert shard.led().window.start_offset == 7
    assert shard.window()[1] == [8, 9, "ACQUIRED", 2, "m1", LOCK_MS + 50]
    shard.batch(tick(LOCK_MS + 40), at=LOCK_MS + 40)
    assert shard.led().window.available_count == 11


def test_a_window_that_was_empty_does_too() -> None:
    empty = json.loads(FORMAT_2)
    empty["partitions"]["0"][2] = [20, 0, 20, None, [], False, 0, []]
    shard = ShardDriver()
    shard.state = json.dumps(empty)
    assert shard.window() == []
    shard.batch(log(25), at=60)
    assert shard.window() == [[20, 24, "ACQUIRED", 1, "m1", LOCK_MS + 60]]
    assert known(shard)["version"] == 3

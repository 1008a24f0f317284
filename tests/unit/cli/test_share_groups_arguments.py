"""Valid and invalid combinations of options of `share-groups`, with Kafka's messages."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.cli.share_groups.arguments import Arguments, DescribeKind, UsageError, parse_lag_filter, parse_states

LIST: dict[str, Any] = {"list_": True}
DESCRIBE: dict[str, Any] = {"describe": True, "group": ("g",)}
DELETE: dict[str, Any] = {"delete": True, "group": ("g",)}
DELETE_OFFSETS: dict[str, Any] = {"delete_offsets": True, "group": ("g",), "topic": ("t",)}
RESET: dict[str, Any] = {
    "reset_offsets": True, "group": ("g",), "topic": ("t",), "to_latest": True, "execute": True,
}  # fmt: skip
FILE: dict[str, Any] = {"reset_offsets": True, "group": ("g",), "from_file": "plan.csv", "dry_run": True}
EXACTLY_ONE = (
    "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets."
)
SCENARIOS = "[from-file], [to-current], [to-datetime], [to-earliest], [to-latest], [to-offset]"


@pytest.mark.parametrize(
    "given",
    [
        LIST,
        LIST | {"state": ""},
        LIST | {"state": "Empty,Dead", "watch": "0.5"},
        LIST | {"all_groups": True},  # which Kafka takes as well
        DESCRIBE,
        DESCRIBE | {"group": ("g", "h"), "verbose": True, "watch": ""},
        {"describe": True, "all_groups": True, "members": True},
        DESCRIBE | {"state": ""},
        DESCRIBE | {"offsets": True, "lag": ">0"},
        DESCRIBE | {"in_flight": True, "config": "conf.yaml"},
        DESCRIBE | {"history": True, "config": "conf.yaml", "topic": ("t:0",), "offset": 0},
        DELETE,
        {"delete": True, "all_groups": True},
        DELETE_OFFSETS,
        RESET,
        RESET | {"topic": (), "all_topics": True, "export": True},
        RESET | {"to_latest": False, "to_offset": 0},
        FILE,
    ],
)
def test_a_valid_combination_is_accepted(given: dict[str, Any]) -> None:
    Arguments(**given).check()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, EXACTLY_ONE),
        (LIST | DESCRIBE, EXACTLY_ONE),
        (DELETE | DELETE_OFFSETS, EXACTLY_ONE),
        ({"describe": True}, "Option [describe] takes one of these options: [all-groups], [group]"),
        (
            DESCRIBE | {"members": True, "state": ""},
            "Option [describe] takes at most one of these options: "
            "[history], [in-flight], [members], [offsets], [state]",
        ),
        (DESCRIBE | {"state": "Empty"}, "Option [describe] does not take a value for [state]"),
        (DESCRIBE | {"topic": ("t",)}, 'Option "[topic]" can\'t be used with option "[describe]"'),
        (DESCRIBE | {"execute": True}, 'Option "[execute]" can\'t be used with option "[describe]"'),
        ({"delete": True}, "Option [delete] takes the options [group] or [all-groups]"),
        (DELETE | {"all_groups": True}, "Option [delete] takes either [group] or [all-groups], not both."),
        (DELETE | {"topic": ("t",)}, "Option [delete] does not take the option: [topic]"),
        (DELETE | {"to_latest": True}, 'Option "[to-latest]" can\'t be used with option "[delete]"'),
        (DELETE | {"state": ""}, 'Option "[state]" can\'t be used with option "[delete]"'),
        (DELETE | {"watch": ""}, 'Option "[watch]" can\'t be used with option "[delete]"'),
        (
            DELETE_OFFSETS | {"topic": ()},
            "Option [delete-offsets] takes the following options: [group], [topic]",
        ),
        (
            DELETE_OFFSETS | {"group": ()},
            "Option [delete-offsets] takes the following options: [group], [topic]",
        ),
        (
            DELETE_OFFSETS | {"group": ("g", "h")},
            "Found multiple arguments for option group, but you asked for only one",
        ),
        (RESET | {"dry_run": True}, "Option [reset-offsets] only accepts one of [execute] and [dry-run]"),
        (RESET | {"execute": False}, "Option [reset-offsets] takes the option: [execute] or [dry-run]"),
        (RESET | {"group": ()}, "Option [reset-offsets] takes the option: [group]"),
        (RESET | {"topic": ()}, "Option [reset-offsets] takes one of these options: [all-topics], [topic]"),
        (RESET | {"to_latest": False}, f"Option [reset-offsets] takes one of these options: {SCENARIOS}"),
        (RESET | {"to_earliest": True}, 'Option "[to-earliest]" can\'t be used with option "[to-latest]"'),
        (RESET | {"to_offset": 0}, 'Option "[to-latest]" can\'t be used with option "[to-offset]"'),
        (RESET | {"all_topics": True}, 'Option "[all-topics]" can\'t be used with option "[topic]"'),
        (RESET | {"group": ("g", "h")}, "Found multiple arguments for option group, but you asked for only one"),
        (RESET | {"verbose": True}, 'Option "[verbose]" can\'t be used with option "[reset-offsets]"'),
        (FILE | {"topic": ("t",)}, 'Option "[from-file]" can\'t be used with option "[topic]"'),
        (LIST | {"group": ("g",)}, 'Option "[group]" can\'t be used with option "[list]"'),
        (LIST | {"topic": ("t",)}, 'Option "[topic]" can\'t be used with option "[list]"'),
        (LIST | {"members": True}, 'Option "[members]" can\'t be used with option "[list]"'),
        (LIST | {"lag": ">0"}, 'Option "[lag]" can\'t be used with option "[list]"'),
        (LIST | {"watch": "-1"}, "Option [watch] takes seconds, not '-1'"),
        (DESCRIBE | {"members": True, "lag": ">0"}, 'Option "[lag]" can\'t be used with option "[members]"'),
        (DESCRIBE | {"lag": "much"}, "Invalid lag 'much', expected a number, optionally after >, >=, <, <= or ="),
        (DESCRIBE | {"in_flight": True}, "Option [in-flight] takes the option: [config]"),
        (
            DESCRIBE | {"history": True, "config": "conf.yaml"},
            "Option [history] requires both of these options: [offset], [topic]",
        ),
        (DESCRIBE | {"offset": 7}, 'Option "[offset]" can only be used with option "[history]"'),
    ],
)
def test_an_invalid_combination_is_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Arguments(**given).check()
    assert str(caught.value) == message


def test_the_aspect_to_describe_is_selected() -> None:
    assert Arguments(**DESCRIBE).kind is DescribeKind.OFFSETS
    assert Arguments(**DESCRIBE, state="").kind is DescribeKind.STATE
    assert Arguments(**DESCRIBE, in_flight=True).kind is DescribeKind.IN_FLIGHT
    assert (Arguments(**LIST).watch_s, Arguments(**LIST, watch="").watch_s) == (None, 2.0)


def test_states_are_parsed() -> None:
    assert parse_states("") == []
    assert parse_states("stable, EMPTY") == ["Stable", "Empty"]
    with pytest.raises(UsageError, match=r"Invalid state list 'stable,bogus'\. Valid states are: Stable, Empty, Dead"):
        parse_states("stable,bogus")


@pytest.mark.parametrize(
    ("text", "lags"),
    [(">0", [1, 2]), (">=1", [1, 2]), ("<1", [0]), ("<= 1", [0, 1]), ("=1", [1]), ("2", [2])],
)
def test_lags_are_filtered(text: str, lags: list[int]) -> None:
    wanted = parse_lag_filter(text)
    assert [lag for lag in (None, 0, 1, 2) if wanted(lag)] == lags

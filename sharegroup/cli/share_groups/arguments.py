"""The arguments of `share-groups`, and the checks of their combinations, with Kafka's messages.

The checks have the same order as in Kafka (ShareGroupCommandOptions.checkArgs). If a command line has several errors,
the same error is therefore reported as in Kafka. Options that Kafka does not have are checked in the same way.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations

from sharegroup.cli.options.connection import CommandError
from sharegroup.cli.options.optional_values import NO_VALUE

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
KINDS = ("history", "in-flight", "members", "offsets", "state")
SCENARIOS = ("from-file", "to-current", "to-datetime", "to-earliest", "to-latest", "to-offset")
EMPTY, DEAD = "Empty", "Dead"
STATES = ("Stable", EMPTY, DEAD)
DEFAULT_WATCH_S = 2.0


class UsageError(CommandError):
    """An invalid combination of options."""


class DescribeKind(StrEnum):
    """The aspect of a group that `--describe` shows."""

    OFFSETS = "offsets"
    MEMBERS = "members"
    STATE = "state"
    IN_FLIGHT = "in-flight"
    HISTORY = "history"

    @property
    def needs_tables(self) -> bool:
        """Whether this aspect is read from the Delta tables."""
        return self in (DescribeKind.IN_FLIGHT, DescribeKind.HISTORY)


@dataclass(frozen=True)
class Arguments:
    """The values of the options of `share-groups`. An option that was not given has the value False, None or ()."""

    list_: bool = False
    describe: bool = False
    delete: bool = False
    delete_offsets: bool = False
    reset_offsets: bool = False
    group: tuple[str, ...] = ()
    all_groups: bool = False
    topic: tuple[str, ...] = ()
    all_topics: bool = False
    members: bool = False
    offsets: bool = False
    state: str | None = None
    in_flight: bool = False
    history: bool = False
    verbose: bool = False
    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_datetime: str | None = None
    to_offset: int | None = None
    from_file: str | None = None
    export: bool = False
    dry_run: bool = False
    execute: bool = False
    lag: str | None = None
    offset: int | None = None
    config: str | None = None
    watch: str | None = None

    def has(self, option: str) -> bool:
        """Return whether an option was given. `option` is its name with dashes, such as "all-groups"."""
        value = getattr(self, "list_" if option == "list" else option.replace("-", "_"))
        return value is not None and value is not False and value != ()

    def given(self, *options: str) -> list[str]:
        """Return the options among `options` that were given."""
        return [option for option in options if self.has(option)]

    @property
    def kind(self) -> DescribeKind:
        """The aspect that `--describe` shows. Without an option that selects one, this is OFFSETS."""
        (kind,) = self.given(*KINDS) or [DescribeKind.OFFSETS]
        return DescribeKind(kind)

    @property
    def watch_s(self) -> float | None:
        """Seconds between two updates with `--watch`. None without this option: the result is shown once."""
        if self.watch is None:
            return None
        return DEFAULT_WATCH_S if self.watch == NO_VALUE else float(self.watch)

    def check(self) -> None:
        """Raise UsageError for an invalid combination of options. Call this before any request is sent."""
        if len(self.given(*ACTIONS)) != 1:
            raise UsageError(f"Command must include exactly one action: {', '.join(f'--{name}' for name in ACTIONS)}.")
        (action,) = self.given(*ACTIONS)
        _CHECKS[action](self)
        _check_scopes(self)
        _check_other_options(self)


def _check_list(a: Arguments) -> None:
    _reject_together(a, "list", "group")


def _check_describe(a: Arguments) -> None:
    if not a.given("group", "all-groups"):
        raise UsageError("Option [describe] takes one of these options: [all-groups], [group]")
    if len(a.given(*KINDS)) > 1:
        raise UsageError(f"Option [describe] takes at most one of these options: {_names(KINDS)}")
    if a.state:
        raise UsageError("Option [describe] does not take a value for [state]")
    if a.history and (not a.has("topic") or a.offset is None):
        raise UsageError("Option [history] requires both of these options: [offset], [topic]")


def _check_delete(a: Arguments) -> None:
    if not a.given("group", "all-groups"):
        raise UsageError("Option [delete] takes the options [group] or [all-groups]")
    if a.group and a.all_groups:
        raise UsageError("Option [delete] takes either [group] or [all-groups], not both.")
    if a.topic:
        raise UsageError("Option [delete] does not take the option: [topic]")


def _check_delete_offsets(a: Arguments) -> None:
    if not a.group or not a.topic:
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    _one_group(a)


def _check_reset_offsets(a: Arguments) -> None:
    if a.dry_run and a.execute:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not a.dry_run and not a.execute:
        raise UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    if not a.group:
        raise UsageError("Option [reset-offsets] takes the option: [group]")
    scopes, scenarios = a.given("all-topics", "topic"), a.given(*SCENARIOS)
    if not scopes and not a.from_file:
        raise UsageError("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
    if not scenarios:
        raise UsageError(f"Option [reset-offsets] takes one of these options: {_names(SCENARIOS)}")
    for first, other in permutations((*scenarios, *scopes), 2):
        if _excludes(first, other):
            _reject_together(a, other, first)
    _one_group(a)


def _excludes(first: str, other: str) -> bool:
    """Return whether two options are mutually exclusive.

    They are exclusive if both are scenarios (such as `to-latest`), if both are scopes (such as `topic`), or if one of
    them is `from-file`.
    """
    return (first in SCENARIOS) == (other in SCENARIOS) or "from-file" in (first, other)


_CHECKS: dict[str, Callable[[Arguments], None]] = {
    "list": _check_list,
    "describe": _check_describe,
    "delete": _check_delete,
    "delete-offsets": _check_delete_offsets,
    "reset-offsets": _check_reset_offsets,
}

#: {option: actions that accept it}, for options that not all actions accept. `--describe` accepts `--topic` only with
#: `--history`.
_SCOPES = {
    "all-groups": ("list", "describe", "delete"),
    "topic": ("describe", "delete-offsets", "reset-offsets"),
    "all-topics": ("reset-offsets",),
    **dict.fromkeys(SCENARIOS, ("reset-offsets",)),
    "export": ("reset-offsets",),
    "dry-run": ("reset-offsets",),
    "execute": ("reset-offsets",),
    "members": ("describe",),
    "offsets": ("describe",),
    "in-flight": ("describe",),
    "history": ("describe",),
    "verbose": ("describe",),
    "state": ("list", "describe"),
    "lag": ("describe",),
    "offset": ("describe",),
    "watch": ("list", "describe"),
}


def _check_scopes(a: Arguments) -> None:
    (action,) = a.given(*ACTIONS)
    for option in a.given(*_SCOPES):
        if action not in _SCOPES[option]:
            _reject_together(a, action, option)
    if a.describe and not a.history:
        _reject_together(a, "describe", "topic")


def _check_other_options(a: Arguments) -> None:
    if a.describe:
        if a.offset is not None and not a.history:
            raise UsageError('Option "[offset]" can only be used with option "[history]"')
        if a.lag is not None and a.kind is not DescribeKind.OFFSETS:
            _reject_together(a, a.kind.value, "lag")
        if a.kind.needs_tables and a.config is None:
            raise UsageError(f"Option [{a.kind.value}] takes the option: [config]")
    if a.lag is not None:
        parse_lag_filter(a.lag)
    if a.watch not in (None, NO_VALUE) and not re.fullmatch(r"[0-9]+(\.[0-9]+)?", str(a.watch)):
        raise UsageError(f"Option [watch] takes seconds, not '{a.watch}'")


def _one_group(a: Arguments) -> None:
    if len(a.group) > 1:
        raise UsageError("Found multiple arguments for option group, but you asked for only one")


def _reject_together(a: Arguments, option: str, *others: str) -> None:
    for other in others:
        if a.has(option) and a.has(other):
            raise UsageError(f'Option "[{other}]" can\'t be used with option "[{option}]"')


def _names(options: tuple[str, ...]) -> str:
    return ", ".join(f"[{option}]" for option in options)


def parse_states(text: str) -> list[str]:
    """Return the group states in `text`, the value of `--state`: names separated by commas, in any letter case.

    For an empty text, return an empty list. Raise UsageError for an unknown state.
    """
    wanted = [name.strip() for name in text.split(",")] if text else []
    known = {name.lower(): name for name in STATES}
    if any(name.lower() not in known for name in wanted):
        raise UsageError(f"Invalid state list '{text}'. Valid states are: {', '.join(STATES)}")
    return [known[name.lower()] for name in wanted]


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "": operator.eq,
}


def parse_lag_filter(text: str) -> Callable[[int | None], bool]:
    """Return a function that returns whether a lag matches a filter such as `>0`, `>=10`, `<5`, `<=5` or `=0`.

    An unknown lag (None) never matches. Raise UsageError if the filter is invalid.
    """
    match = re.fullmatch(r"\s*(>=|<=|>|<|=|)\s*([0-9]+)\s*", text)
    if match is None:
        raise UsageError(f"Invalid lag '{text}', expected a number, optionally after >, >=, <, <= or =")
    compare, bound = _COMPARISONS[match[1]], int(match[2])
    return lambda lag: lag is not None and compare(lag, bound)

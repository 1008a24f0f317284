"""Rules between keys, such as min <= value <= max, or session timeout > heartbeat interval.

A rule is skipped if one of its keys has an invalid value, because `check_family` reports that value.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from sharegroup.config.family import text_of
from sharegroup.config.keys.group import BOUNDED, GroupOverrides
from sharegroup.config.keys.share_group import ShareGroupConfig

_SESSIONS, _HEARTBEAT = ("session.timeout.ms", "static.session.timeout.ms"), "heartbeat.interval.ms"
_ASSIGNOR, _ASSIGNORS = "share.assignor", "group.share.assignors"


class Clamped(NamedTuple):
    """A group's values after `clamp`, with a warning for each value that was changed or removed."""

    values: dict[str, Any]
    warnings: tuple[str, ...]


def job_problems(values: Mapping[str, Any], wrong: Collection[str]) -> list[str]:
    """Return a sentence in Kafka's words for each violated rule between keys of the sections `group` and `gateway`.

    Keys in `wrong` have invalid values and are not compared.
    """
    pairs = [pair for end in BOUNDED for pair in _limit_pairs(end)]
    pairs.append(("group.share.max.share.sessions", "group.share.max.size"))
    problems = [
        f"{upper} must be greater than or equal to {lower} ({values[upper]} and {values[lower]})"
        for upper, lower in pairs
        if not {upper, lower} & set(wrong) and values[upper] < values[lower]
    ]
    return problems + _session_problems("group.share.", values, wrong)


def group_problems(overrides: GroupOverrides, job: ShareGroupConfig, wrong: Collection[str]) -> list[str]:
    """Return a sentence for each rule that a group's values violate, compared with the job's limits and each other.

    Keys in `wrong` have invalid values and are not compared.
    """
    given, limits = overrides.set_values(), job.values()
    problems = []
    for end in BOUNDED:
        name, low, high = f"share.{end}", f"group.share.min.{end}", f"group.share.max.{end}"
        if name not in given or name in wrong:
            continue
        if high not in wrong and given[name] > limits[high]:
            problems.append(f"{name} must be less than or equal to {high} ({given[name]} and {limits[high]})")
        if low not in wrong and given[name] < limits[low]:
            problems.append(f"{name} must be greater than or equal to {low} ({given[name]} and {limits[low]})")
    assignor = given.get(_ASSIGNOR)
    if assignor is not None and _ASSIGNOR not in wrong and _ASSIGNORS not in wrong and assignor not in job.assignors:
        problems.append(f"{_ASSIGNOR} must be one of {_ASSIGNORS} ({assignor} and {_listed(job)})")
    if {f"share.{end}" for end in (*_SESSIONS, _HEARTBEAT)} & set(given):
        effective = {f"share.{end}": given.get(f"share.{end}", limits[f"group.share.{end}"]) for end in BOUNDED}
        problems += _session_problems("share.", effective, {name.removeprefix("group.") for name in wrong})
    return problems


def clamp(given: Mapping[str, Any], job: ShareGroupConfig) -> Clamped:
    """Replace or remove a group's stored values that violate the job's rules, with a warning for each (KIP-1240).

    A value outside its limits becomes the nearest limit. An assignor that the job does not allow is removed. A session
    timeout and the heartbeat interval are removed if the timeout is not the greater one. Job-level values then apply.
    """
    values, limits, warnings = dict(given), job.values(), []
    for end in BOUNDED:
        name, low, high = f"share.{end}", f"group.share.min.{end}", f"group.share.max.{end}"
        if name not in values:
            continue
        bound = high if values[name] > limits[high] else low if values[name] < limits[low] else None
        if bound is not None:
            warnings.append(
                f"{name} {values[name]} is outside the limit {bound} {limits[bound]}; the limit is used instead"
            )
            values[name] = limits[bound]
    assignor = values.get(_ASSIGNOR)
    if assignor is not None and assignor not in job.assignors:
        warnings.append(f"{_ASSIGNOR} {assignor} is not one of {_ASSIGNORS} {_listed(job)}; the first of these is used")
        del values[_ASSIGNOR]
    for end in _SESSIONS:
        session, heartbeat = (values.get(f"share.{e}", limits[f"group.share.{e}"]) for e in (end, _HEARTBEAT))
        if session <= heartbeat:
            both = f"share.{end}", f"share.{_HEARTBEAT}"
            warnings.append(f"{both[0]} {session} is not greater than {both[1]} {heartbeat}; the job's values are used")
            values = {name: value for name, value in values.items() if name not in both}
    return Clamped(values, tuple(warnings))


def _listed(job: ShareGroupConfig) -> str:
    return text_of(job.assignors)


def _limit_pairs(end: str) -> Iterator[tuple[str, str]]:
    """Yield (greater key, lesser key) for max >= min, max >= value and value >= min.

    `end` is the common last part of the three names. The pair max >= min follows from the other two pairs. It is needed
    nevertheless, because the other two are skipped if the value is invalid.
    """
    value, low, high = f"group.share.{end}", f"group.share.min.{end}", f"group.share.max.{end}"
    yield high, low
    yield high, value
    yield value, low


def _session_problems(prefix: str, values: Mapping[str, Any], wrong: Collection[str]) -> list[str]:
    heartbeat = prefix + _HEARTBEAT
    return [
        f"{session} must be greater than {heartbeat} ({values[session]} and {values[heartbeat]})"
        for session in (prefix + end for end in _SESSIONS)
        if not {session, heartbeat} & set(wrong) and values[session] <= values[heartbeat]
    ]

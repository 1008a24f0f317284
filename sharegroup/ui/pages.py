"""The pages. They only read data; requests that change something are handled in `changes`."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sharegroup import __version__
from sharegroup.config import Config, GroupOverrides
from sharegroup.errors import ShareGroupError
from sharegroup.gateway.groups.group_config_entries import config_entries
from sharegroup.security.acl import Operation, Resource
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller
from sharegroup.storage import read_record_history
from sharegroup.storage.reading.dead_ends import (
    LIMIT_CAUSES,
    REJECTED_CAUSES,
    DeadEnds,
    HourCounts,
    hours_since,
    read_dead_ends,
)
from sharegroup.types import RecordState
from sharegroup.ui import words
from sharegroup.ui.access import Tokens
from sharegroup.ui.data.logs import Logs
from sharegroup.ui.data.payloads import FORMATS, PayloadText, payload_text
from sharegroup.ui.data.snapshots import GroupView, PartitionView, Snapshots
from sharegroup.ui.data.trend import polyline
from sharegroup.ui.data.window import (
    COLOURS,
    LABELS,
    Piece,
    RecordKind,
    Span,
    columns,
    join_columns,
    member_bars,
    move_span,
    pieces,
    state_bars,
    zones,
    zoom_span,
)
from sharegroup.ui.paging import ROWS, page_of, whole_number
from sharegroup.ui.result_cache import ResultCache

_SORTS = ("group", "lag", "members", "acquired", "oldest")
_HOURS = (1, 24, 168, 720)
_CAUSES = {"rejected": REJECTED_CAUSES, "limit": LIMIT_CAUSES}
#: Maximum number of ranges that the pages of dead ends (rejected or archived records) list.
_MAX_DEAD_ENDS = 5_000


class PageContext(NamedTuple):
    """The dependencies of the pages."""

    config: Config
    snapshots: Snapshots
    logs: Logs
    authorization: Authorization
    tokens: Tokens
    allows_changes: bool


class Pages:
    """Handlers of the GET requests, one method for each page. Starlette runs each request on a thread."""

    def __init__(self, parts: PageContext) -> None:
        self._parts = parts
        self._cache = ResultCache()
        self._templates = Environment(
            loader=PackageLoader("sharegroup.ui"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals |= {"address": words.address, "version": __version__}
        filters: dict[str, Callable[..., Any]] = {
            "combined": lambda query, name, value: {**query, name: value},
            "number": words.number,
            "moment": words.moment,
            "rate": words.rate,
        }
        self._templates.filters |= filters

    # -- pages

    def groups(self, request: Request) -> Response:
        """Show the groups that match the filter, sorted and divided into pages."""
        query = request.query_params
        text, state, sort = query.get("text", ""), query.get("state", ""), query.get("sort", "group")
        sort = sort if sort in _SORTS else "group"
        snapshot, caller = self._parts.snapshots.newest, caller_of(request)
        found = [
            group
            for group_id, group in snapshot.groups.items()
            if text.lower() in group_id.lower()
            and state in ("", group.description.group_state)
            and self._parts.authorization.may_see_group(caller, group_id)
        ]
        found.sort(key=lambda group: _order(group, sort))
        page = page_of(found, whole_number(query.get("page"), 1))
        trends = {
            g.description.group_id: self._parts.snapshots.history.trend(g.description.group_id) for g in page.rows
        }
        lines = {group_id: polyline(trend.lags, 100, 20) for group_id, trend in trends.items()}
        return self._show(
            request, "groups.html", page=page, trends=trends, lines=lines, text=text, state=state, sort=sort
        )

    def group(self, request: Request) -> Response:
        """Show members, share-partitions and configs of a group."""
        group = self._visible_group(request)
        group_id = group.description.group_id
        query = request.query_params
        trend = self._parts.snapshots.history.trend(group_id)
        config = self._parts.config
        of_file = config.groups.get(group_id, GroupOverrides())
        return self._show(
            request,
            "group.html",
            group=group,
            trend=trend,
            line=polyline(trend.lags, 600, 80),
            most_lag=max((lag for _, lag in trend.lags), default=0),
            members=page_of(group.description.members, whole_number(query.get("members"), 1)),
            partitions=page_of(group.partitions, whole_number(query.get("partitions"), 1)),
            configs=config_entries(group.configs, of_file, config.group),
            done=query.get("done", ""),
        )

    def window(self, request: Request) -> Response:
        """Show a picture of the states of a share-partition's records, and a list of the ranges in it."""
        group = self._visible_group(request)
        partition = _partition(group, request)
        bounds = _bounds(partition)
        if bounds is None:
            return self._show(request, "window.html", group=group, partition=partition, span=None)
        span = _span(request, partition, bounds)
        start = partition.start_offset or 0
        found = list(pieces(partition.batches, start, span))
        drawn = columns(found, span)
        whole = join_columns(drawn)
        members = whole.members
        names = sorted(members, key=lambda member: (-members[member], member))
        return self._show(
            request,
            "window.html",
            group=group,
            partition=partition,
            span=span,
            bounds=bounds,
            width=len(drawn),
            bars=state_bars(drawn),
            lanes=member_bars(drawn, names),
            zones=zones(drawn),
            labels=LABELS,
            totals={kind: whole.kinds[kind] for kind in RecordKind},
            members=[(names[place], members[names[place]]) for place in range(min(COLOURS, len(names)))],
            others=len(names) - COLOURS,
            ways=_ways(span, bounds, partition),
            ranges=page_of(found, whole_number(request.query_params.get("page"), 1)),
        )

    def record(self, request: Request) -> Response:
        """Show the history of a record and, on request, its payload."""
        group = self._visible_group(request)
        partition, query = _partition(group, request), request.query_params
        offset = whole_number(query.get("offset"), -1)
        if offset < 0:
            raise HTTPException(400, "offset must be a whole number of at least 0")
        description, caller = group.description, caller_of(request)
        form = query.get("payload", "")
        may_read = self._parts.authorization.would_allow(caller, Operation.READ, Resource.TOPIC, partition.topic)
        payload: dict[str, PayloadText] | None = None
        record = problem = None
        if form in FORMATS and may_read:
            try:
                record = self._parts.logs.record((partition.topic, partition.partition), offset)
            except ShareGroupError as error:
                problem = str(error)
            if record is not None:
                payload = {"Key": payload_text(record.key, form), "Value": payload_text(record.value, form)}
                payload |= {
                    f"Header {payload_text(name.encode(), 'text').text}": payload_text(v, form)
                    for name, v in record.headers
                }
        record_key = description.group_id, partition.topic, partition.partition, offset
        tables = self._parts.snapshots.tables_of(description.group_id)
        history = self._cache.get(record_key, lambda: read_record_history(tables, *record_key))
        return self._show(
            request,
            "record.html",
            group=group,
            partition=partition,
            offset=offset,
            piece=_standing(partition, offset),
            labels=LABELS,
            history=history,
            forms=FORMATS,
            form=form,
            may_read=may_read,
            record=record,
            payload=payload,
            problem=problem,
        )

    def dead_ends(self, request: Request) -> Response:
        """Show records that were rejected, or that were archived because of the delivery count limit."""
        query, caller = request.query_params, caller_of(request)
        group_id, cause = query.get("group", ""), query.get("cause", "")
        hours = whole_number(query.get("hours"), _HOURS[1])
        hours = hours if hours in _HOURS else _HOURS[1]
        now = datetime.now(UTC)
        since = (now - timedelta(hours=hours)).replace(minute=0, second=0, microsecond=0)
        if group_id:
            self._parts.authorization.authorize_describe_group(caller, group_id)
        self._check_sees_all(caller, group_id, self._parts.snapshots.newest.groups)
        key = "dead ends", group_id, cause, since
        found = self._cache.get(key, lambda: self._dead_ends(group_id, cause, since))
        self._check_sees_all(caller, group_id, found.group_ids)
        found = found.for_topics(partial(self._parts.authorization.may_see, caller))
        by_hour = found.by_hour()
        counts = [(hour, *by_hour.get(hour, HourCounts())[1:]) for hour in hours_since(since, now)]
        counts = _in_steps(counts, max(1, -(-len(counts) // 60)))
        page = page_of(found.newest, whole_number(query.get("page"), 1))
        return self._show(
            request,
            "dead_ends.html",
            page=page,
            ranges=found.ranges,
            counts=counts,
            most=max((rejected + limited for _, rejected, limited in counts), default=0),
            group_id=group_id,
            cause=cause if cause in _CAUSES else "",
            hours=hours,
            choices=_HOURS,
        )

    def _check_sees_all(self, caller: Caller, group_id: str, group_ids: Iterable[str]) -> None:
        """Raise HTTPException if `group_id` is empty and the caller may not see all groups in `group_ids`.

        `group_ids` may include deleted groups.
        """
        may_see = self._parts.authorization.may_see_group
        if not group_id and not all(may_see(caller, each) for each in group_ids):
            raise HTTPException(403, "specify a group, because you may not see all groups")

    def _dead_ends(self, group_id: str, cause: str, since: datetime) -> DeadEnds:
        snapshots = self._parts.snapshots
        tables = [snapshots.tables_of(group_id)] if group_id else snapshots.all_tables()
        causes = _CAUSES.get(cause, (*REJECTED_CAUSES, *LIMIT_CAUSES))
        found = [read_dead_ends(each, since, group_id or None, causes, _MAX_DEAD_ENDS) for each in tables]
        newest = sorted((row for each in found for row in each.newest), key=lambda row: row.time, reverse=True)
        counts: dict[tuple[str, datetime], HourCounts] = {}
        for each in found:
            for key, more in each.counts.items():
                counts[key] = counts.get(key, HourCounts()) + more
        group_ids = frozenset[str]().union(*(each.group_ids for each in found))
        return DeadEnds(tuple(newest[:_MAX_DEAD_ENDS]), counts, group_ids)

    # -- shared by the pages

    def _visible_group(self, request: Request) -> GroupView:
        """Return the group of the request. Raise an error if the caller may not see it or the group does not exist."""
        group_id = request.query_params.get("group", "")
        group = self._parts.snapshots.newest.groups.get(group_id)
        topics = {row.topic for row in group.partitions} if group is not None else set()
        self._parts.authorization.authorize_describe_group(caller_of(request), group_id, sorted(topics))
        if group is None:
            raise HTTPException(404, "the group does not exist")
        return group

    def show_error(self, request: Request, status: int, message: str) -> Response:
        return self._show(request, "error.html", status=status, message=message)

    def _show(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        caller, snapshot = caller_of(request), self._parts.snapshots.newest
        common: Mapping[str, Any] = {
            "snapshot": snapshot,
            "caller": caller,
            "allows_changes": self._parts.allows_changes,
            "token": self._parts.tokens.token(caller.principal) if self._parts.allows_changes else "",
            "query": dict(request.query_params),
            "rows": ROWS,
            "since": lambda at_ms: words.age(at_ms, snapshot.at_ms),
            "ACQUIRED": RecordState.ACQUIRED,
            "AVAILABLE": RecordState.AVAILABLE,
            "status": status,
        }
        return HTMLResponse(self._templates.get_template(template).render({**common, **values}), status)


def caller_of(request: Request) -> Caller:
    """Return the caller of a request. `Access` has stored it in the scope of the request."""
    caller: Caller = request.scope["caller"]
    return caller


def _order(group: GroupView, sort: str) -> tuple[float, str]:
    """Return a sort key of a group. It sorts groups by descending value of the column `sort`, then by id.

    The value of the column `oldest` is the age of the oldest record. Groups with unknown values are last. If `sort` is
    `group`, only the id counts.
    """
    values: dict[str, float | None] = {
        "group": 0,
        "lag": group.lag,
        "members": len(group.description.members),
        "acquired": group.acquired,
        "oldest": None if group.oldest_ms is None else -group.oldest_ms,
    }
    value = values[sort]
    return (float("inf") if value is None else -value), group.description.group_id


def _partition(group: GroupView, request: Request) -> PartitionView:
    topic, number = request.query_params.get("topic", ""), whole_number(request.query_params.get("partition"), -1)
    for row in group.partitions:
        if (row.topic, row.partition) == (topic, number):
            return row
    raise HTTPException(404, "the group has no such share-partition")


def _bounds(partition: PartitionView) -> Span | None:
    """Return the span of all known offsets of a share-partition, None if no offsets are known or the log is empty."""
    start, log, batches = partition.start_offset, partition.log, partition.batches
    if start is None and log is None:
        return None
    firsts = [offset for offset in (start, log.start if log else None) if offset is not None]
    ends = [*firsts, *([log.end] if log else []), *([batches[-1].last_offset + 1] if batches else [])]
    return Span(min(firsts), max(ends) - 1) if max(ends) > min(firsts) else None


def _in_flight(partition: PartitionView, bounds: Span) -> Span:
    """Return the span from the start offset to slightly above the last record in flight.

    If no record is in flight, the span ends with `bounds`.
    """
    start = min(max(bounds.first, partition.start_offset or 0), bounds.last)
    last = partition.batches[-1].last_offset if partition.batches else bounds.last
    return Span(start, max(start, min(bounds.last, last + max(1, (last - start) // 20))))


def _span(request: Request, partition: PartitionView, bounds: Span) -> Span:
    """Return the requested span, limited to `bounds`.

    If the request contains no valid span, return the span of the records in flight.
    """
    first = whole_number(request.query_params.get("first"), -1)
    last = whole_number(request.query_params.get("last"), -1)
    if not 0 <= first <= last or last < bounds.first or first > bounds.last:
        return _in_flight(partition, bounds)
    return Span(max(first, bounds.first), min(last, bounds.last))


def _ways(span: Span, bounds: Span, partition: PartitionView) -> dict[str, Span]:
    """Return {name of a link: span that the link shows}, for the navigation links of the page."""
    step = max(1, span.records // 2)
    return {
        "left": move_span(span, bounds, -step),
        "right": move_span(span, bounds, step),
        "closer": zoom_span(span, bounds, 1 / 4),
        "further": zoom_span(span, bounds, 4),
        "in flight": _in_flight(partition, bounds),
        "whole log": bounds,
    }


def _standing(partition: PartitionView, offset: int) -> Piece | None:
    """Return the state of the record at an offset, None if there is no such record or its state is not known."""
    bounds = _bounds(partition)
    if bounds is None or not 0 <= offset <= bounds.last or partition.start_offset is None:
        return None
    (piece,) = pieces(partition.batches, partition.start_offset, Span(offset, offset))
    return piece


def _in_steps(counts: list[tuple[datetime, int, int]], step: int) -> list[tuple[datetime, int, int]]:
    """Combine each `step` successive rows of `counts` into one row.

    A row is (hour, rejected records, records archived because of the limit). A combined row has the first hour, and the
    sum of each count.
    """
    parts = [counts[at : at + step] for at in range(0, len(counts), step)]
    return [(part[0][0], sum(row[1] for row in part), sum(row[2] for row in part)) for part in parts]

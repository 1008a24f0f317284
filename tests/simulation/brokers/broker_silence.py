"""Brokers that do not respond for a while: paused processes, and networks that drop packets.

A *paused* broker serves the requests sent to it when it continues. A broker that is *cut off* never receives the
requests sent meanwhile. Clients cannot distinguish the two, because neither responds.
"""

from __future__ import annotations

from collections.abc import Callable

Request = Callable[[], object]


class BrokerSilence:
    """The silent brokers, and the requests sent to them meanwhile."""

    def __init__(self) -> None:
        self._held: dict[int, list[Request]] = {}
        self._cut_off: set[int] = set()

    def __contains__(self, node_id: int) -> bool:
        return node_id in self._held

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def node_ids(self) -> list[int]:
        """Return the brokers that are silent now."""
        return sorted(self._held)

    def begin(self, node_id: int, is_cut_off: bool) -> None:
        """Make a broker silent from now on."""
        self._held.setdefault(node_id, [])
        if is_cut_off:
            self._cut_off.add(node_id)

    def end(self, node_id: int) -> None:
        """Let a broker respond again; one that was paused first serves the requests sent to it, in order."""
        held = self._held.pop(node_id, [])
        is_cut_off = node_id in self._cut_off
        self._cut_off.discard(node_id)
        for request in () if is_cut_off else held:
            request()

    def serve(self, node_id: int, request: Request) -> None:
        """Let a broker serve a request now, when it continues, or never."""
        if node_id in self._held:
            self._held[node_id].append(request)
        else:
            request()

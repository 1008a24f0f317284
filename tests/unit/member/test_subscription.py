"""A member's subscription by name and by pattern, and how a change reaches the coordinator."""

import itertools

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.member.member_logic import METADATA_INTERVAL_MS, MemberLogic, MemberSettings
from sharegroup.member.membership import RESPONSE_TIMEOUT_MS, Membership
from sharegroup.member.subscription import Subscription
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse

from .in_memory_job import Offers

METADATA = {"a": TopicMetadata("id-a", 1)}


def answer(request: HeartbeatRequest, topics: tuple[str, ...], code: int = ErrorCode.NONE) -> HeartbeatResponse:
    return HeartbeatResponse(
        request.id, "m", "g", code, member_id="m", member_epoch=3, heartbeat_interval_ms=5_000,
        subscribed_topic_names=topics, assignment={},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("topics", "pattern", "problem"),
    [
        (None, None, "exactly one of topics and pattern must be given"),
        (["a"], "a.*", "exactly one of topics and pattern must be given"),
        ([], None, "topics must be a list of at least one topic name"),
        ("orders", None, "topics must be a list of at least one topic name"),
        (None, "orders-(", "is not a regular expression"),
    ],
)
def test_an_invalid_subscription_is_rejected(topics: list[str] | None, pattern: str | None, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Subscription.from_arguments(topics, pattern)


def test_a_pattern_matches_whole_names_and_nothing_internal() -> None:
    names = ["orders-2", "orders-1", "my-orders-1", "orders", "__share_group_requests"]
    assert Subscription.from_arguments(None, "orders-.").matching_topics(names) == ("orders-1", "orders-2")
    assert Subscription.from_arguments(None, ".*").matching_topics(names) == (
        "my-orders-1",
        "orders",
        "orders-1",
        "orders-2",
    )
    assert Subscription.from_arguments(["b", "a", "b"], None).topics == ("a", "b")


def test_a_change_is_sent_until_the_coordinator_has_it() -> None:
    member = Membership("g", "m", ("a",), "client", "host", map(str, itertools.count()), "p1")

    def beat(now_ms: int) -> HeartbeatRequest:
        request = member.heartbeat(METADATA, now_ms)
        assert request is not None
        return request

    member.handle_response(answer(beat(0), ("a",)), 0)
    before = beat(5_000)
    assert before.subscribed_topic_names is None
    member.subscribe(("b", "c"), 5_001)
    lost = beat(5_001)  # immediately, and once more
    member.handle_response(answer(before, ("a",)), 5_002)
    again = beat(5_002 + RESPONSE_TIMEOUT_MS)
    assert lost.subscribed_topic_names == again.subscribed_topic_names == ("b", "c")
    member.handle_response(answer(again, ("b", "c")), 11_000)
    member.subscribe(("b", "c"), 11_001)  # no change
    assert member.heartbeat(METADATA, 11_001) is None
    assert beat(30_000).subscribed_topic_names is None


class Member:
    """A member's logic with these topics, whose heartbeats have immediate responses."""

    def __init__(self, topics: tuple[str, ...] = (), pattern: str | None = None) -> None:
        self.logic = MemberLogic(MemberSettings("g", "m", topics, 10, pattern=pattern), Offers(), "p1")
        self.logic.mark_open()
        self.exist: set[str] = set()
        self.now_ms = 1_000
        self.sent: tuple[str, ...] | None = None
        self._responses: list[Response] = []

    def step(self, ms: int = METADATA_INTERVAL_MS) -> None:
        """Pass some time and exchange a heartbeat and its response."""
        self.now_ms += ms
        for _ in range(2):
            if self.logic.metadata_is_due(self.now_ms):
                read = self.logic.subscription
                names = read.topics if read.pattern is None else read.matching_topics(self.exist)
                found = {name: TopicMetadata(f"id-{name}", 1) for name in names if name in self.exist}
                self.logic.handle_metadata(found, self.now_ms)
            requests = self.logic.step(self._responses, self.now_ms)
            self._responses = []
            for request in requests:
                assert isinstance(request, HeartbeatRequest)
                if request.subscribed_topic_names is not None:
                    self.sent = request.subscribed_topic_names
                self._responses.append(answer(request, self.sent or ()))


def test_a_pattern_is_resolved_at_each_metadata_refresh() -> None:
    member = Member(pattern="orders-.*")
    member.step()
    assert member.sent is None  # there is nothing to join for
    member.exist = {"orders-1", "bills"}
    member.step()
    assert member.sent == ("orders-1",)
    member.exist |= {"orders-2"}
    member.step()
    assert member.sent == ("orders-1", "orders-2")
    member.exist = set()
    member.step()
    assert member.sent == ()
    assert member.logic.failure is None


def test_a_subscription_is_changed_while_the_member_reads() -> None:
    member = Member(("a",))
    member.exist = {"a", "b", "b-2"}
    member.step()
    member.logic.subscribe(Subscription.from_arguments(["b"], None))
    member.step(ms=1)
    assert member.sent == ("b",)
    member.logic.subscribe(Subscription.from_arguments(None, "b.*"))
    member.step(ms=1)
    assert member.sent == ("b", "b-2")
    member.logic.subscribe(Subscription.from_arguments(["not-there-yet"], None))
    member.step(ms=1)
    assert member.sent == ("not-there-yet",)

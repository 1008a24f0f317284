"""Handles LeaveGroup for share groups. Only administrators send it, because members leave with a heartbeat.

The gateway removes the members that the request names, as Kafka does for removeMembersFromConsumerGroup (KIP-345).

A request whose only member has neither an id nor a name requests a rebalance (`invoke_consumer_rebalance`): static
members without a running process are removed, and the assignor runs. This is an extension of this project. No Kafka
client sends such a request, and Kafka's coordinators would respond that the member is unknown. KIP-345 originally
proposed a separate request for a rebalance, which required Read on the group. LeaveGroup requires the same right.
"""

from kafka.protocol.consumer import LeaveGroupRequest, LeaveGroupResponse

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.job_client.group_requests import GroupRequests
from sharegroup.gateway.wire.request import Request
from sharegroup.protocol.rows.share_group_fields import ALL_AWAY, MemberIdentity
from sharegroup.security import audit
from sharegroup.security.authorization import Authorization

#: The first version whose request has a list of members, each with its own error in the response.
MEMBERS_VERSION = 3

_Member = LeaveGroupResponse.MemberResponse


class LeaveGroup:
    """The handler of LeaveGroup for share groups. `security` raises RequestError if the caller lacks a right."""

    def __init__(self, requests: GroupRequests, security: Authorization) -> None:
        self._requests, self._security = requests, security

    async def __call__(self, request: Request[LeaveGroupRequest]) -> LeaveGroupResponse:
        """Remove members from a group. Either the whole request is rejected, or each member has its own error."""
        body, caller = request.body, request.caller
        try:
            self._security.authorize_leave_group(caller, body.group_id)
            if request.version < MEMBERS_VERSION:
                removed = await self._remove(body.group_id, (MemberIdentity(body.member_id, None),))
                response = _response(max((member.error_code for member in removed), default=0))
            else:
                members = tuple(MemberIdentity(member.member_id, member.group_instance_id) for member in body.members)
                response = _response(0, await self._remove(body.group_id, members))
        except RequestError as error:
            response = _response(int(error.code))
        if response.error_code or not response.members:
            audit.log_change(caller, "group", body.group_id, response.error_code)
        for member in response.members or ():
            name = member.group_instance_id or member.member_id
            audit.log_change(caller, "group", body.group_id, member.error_code, name)
        return response

    async def _remove(self, group_id: str, members: tuple[MemberIdentity, ...]) -> list[_Member]:
        """Remove `members` from a group, and return each of them with its error code.

        If `members` contains only `ALL_AWAY`, remove and return all static members without a running process. These
        have left for a restart, or have sent no heartbeat for `share.session.timeout.ms`.

        Otherwise, the result repeats the member id and group instance id of each member in the request, because clients
        use them to find the error of a member.
        """
        if members == (ALL_AWAY,):
            members = await self._requests.invoke_consumer_rebalance(group_id)
            codes = [int(ErrorCode.NONE)] * len(members)
        else:
            codes = [error.error_code for error in await self._requests.remove_members(group_id, members)]
        return [
            _Member(member_id=member_id, group_instance_id=name, error_code=code)
            for (member_id, name), code in zip(members, codes, strict=True)
        ]


def _response(code: int, members: list[_Member] | None = None) -> LeaveGroupResponse:
    return LeaveGroupResponse(throttle_time_ms=0, error_code=code, members=members or [])

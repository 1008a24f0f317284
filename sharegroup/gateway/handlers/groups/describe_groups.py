"""Handles ShareGroupDescribe (KIP-932): describes groups and their members from the job's tables."""

from kafka.protocol.data_container import DataContainer

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.wire.request import Request
from sharegroup.protocol.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from sharegroup.protocol.topic_ids import NO_TOPIC_ID, parse_topic_id
from sharegroup.security.acl import Resource
from sharegroup.security.authorization import Authorization, encode_operations
from sharegroup.security.caller import Caller
from sharegroup.storage import MemberDescription, ShareGroupDescription

NOT_REQUESTED = -2147483648

_Group = ShareGroupDescribeResponse.DescribedGroup


class ShareGroupDescribe:
    """The handler of ShareGroupDescribe. `security` raises RequestError if the caller lacks a right."""

    def __init__(self, stored: StoredGroups, configs: GroupConfigs, security: Authorization) -> None:
        self._stored, self._configs, self._security = stored, configs, security

    async def __call__(self, request: Request[ShareGroupDescribeRequest]) -> ShareGroupDescribeResponse:
        """Describe each group separately. An error of one group does not affect the others."""
        group_ids = request.body.group_ids
        try:
            found = await self._stored.describe(group_id for group_id in group_ids if group_id)
        except RequestError as error:
            groups = [rejected_group(group_id, error) for group_id in group_ids]
        else:
            groups = [self._describe(request, group_id, found.get(group_id)) for group_id in group_ids]
        return ShareGroupDescribeResponse(throttle_time_ms=0, groups=groups)

    def _describe(
        self, request: Request[ShareGroupDescribeRequest], group_id: str, group: ShareGroupDescription | None
    ) -> DataContainer:
        caller: Caller = request.caller
        try:
            self._security.authorize_describe_group(caller, group_id)
            if not group_id:
                raise RequestError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
            if group is None:
                raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            self._security.authorize_describe_group(caller, group_id, topics_of(group))
        except RequestError as error:
            return rejected_group(group_id, error)
        operations = NOT_REQUESTED
        if request.body.include_authorized_operations:
            operations = encode_operations(self._security.operations(caller, Resource.GROUP, group_id))
        return described_group(group, self._configs.group_config(group_id).assignor, operations)


def topics_of(group: ShareGroupDescription) -> list[str]:
    """Return the sorted names of all topics in a group's description."""
    names = {name for member in group.members for name in (*member.subscribed_topic_names, *member.assignment)}
    return sorted(names)


def described_group(group: ShareGroupDescription, assignor: str, operations: int) -> DataContainer:
    """Return the response's entry for a group.

    `assignor` is the name of the group's current assignor. `operations` is the bit field of the caller's authorized
    operations.
    """
    return _Group(
        error_code=0,
        error_message=None,
        group_id=group.group_id,
        group_state=group.group_state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[_member(member) for member in group.members],
        authorized_operations=operations,
    )


def rejected_group(group_id: str, error: RequestError) -> DataContainer:
    """Return the response's entry for a group that cannot be described."""
    return _Group(
        error_code=int(error.code),
        error_message=error.message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
        authorized_operations=NOT_REQUESTED,
    )


def _member(member: MemberDescription) -> DataContainer:
    message = _Group.Member
    return message(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        assignment=message.Assignment(
            topic_partitions=[
                message.Assignment.TopicPartitions(
                    topic_id=parse_topic_id(topic_id) if topic_id else NO_TOPIC_ID,
                    topic_name=name,
                    partitions=list(partitions),
                )
                for name, (topic_id, partitions) in sorted(member.assignment.items())
            ]
        ),
    )

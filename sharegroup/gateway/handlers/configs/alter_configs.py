"""Handles IncrementalAlterConfigs: the job alters configs of share groups, and the upstream alters all others.

For one group, a request may alter configs that the job stores and others that the upstream stores. Both can reject
their part, but either all changes of the group must be applied or none. Therefore the upstream first validates its part
without applying it. Then the job applies its part, and finally the upstream applies its part.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from kafka.protocol.admin import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.group_config_entries import is_job_config, is_upstream_config
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.handlers.configs.config_rights import config_rejection
from sharegroup.gateway.job_client.group_requests import GroupRequests
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.configs import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    ConfigResult,
    Resource,
    UpstreamConfigs,
    resource_of,
)
from sharegroup.gateway.wire.request import Request
from sharegroup.security import acl, audit
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller

_Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
_Change = _Resource.AlterableConfig

#: A resource of IncrementalAlterConfigs or AlterConfigs. Both classes have the fields that are used here.
AlteredResource = _Resource | AlterConfigsRequest.AlterConfigsResource
R = TypeVar("R", bound=AlteredResource)
Response = TypeVar("Response", IncrementalAlterConfigsResponse, AlterConfigsResponse)

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
OK: ConfigResult = (0, None)
_KINDS = {
    TOPIC: "topic",
    BROKER: "broker",
    BROKER_LOGGER: "broker_logger",
    CLIENT_METRICS: "client_metrics",
    GROUP: "group",
}


class IncrementalAlterConfigs:
    """The handler of IncrementalAlterConfigs. `security` raises RequestError if the caller lacks a right."""

    def __init__(
        self, requests: GroupRequests, configs: GroupConfigs, cluster: UpstreamCluster, security: Authorization
    ) -> None:
        self._requests, self._configs, self._security = requests, configs, security
        self._upstream = UpstreamConfigs(cluster)

    async def __call__(self, request: Request[IncrementalAlterConfigsRequest]) -> IncrementalAlterConfigsResponse:
        """Alter each resource separately. Either all changes of a resource are applied or none, with one exception.

        A request may change configs of a group that the job stores and others that the upstream stores. The upstream
        validates its changes before the job applies its own. If the upstream fails later, only the job's changes are
        applied.
        """
        body = request.body
        forwarded, outcomes = self.split_forwarded(request.caller, body.resources)
        outcomes |= await self._upstream.alter(request.caller.node_id, forwarded, body.validate_only)
        times = Counter(resource_of(resource) for resource in body.resources)
        groups = [resource for resource in body.resources if resource.resource_type == GROUP]
        for resource in groups:
            outcomes[resource_of(resource)] = await self._group(request, resource, times[resource_of(resource)])
        if groups and not body.validate_only:
            await self._refresh_configs()
        if not body.validate_only:
            audit_changes(request.caller, body.resources, outcomes)
        return alter_response(IncrementalAlterConfigsResponse, outcomes)

    def split_forwarded(self, caller: Caller, resources: Sequence[R]) -> tuple[list[R], dict[Resource, ConfigResult]]:
        """Return (resources that the upstream must alter, {(type, name): error} of resources that are rejected).

        Resources of the type group are in neither of them.
        """
        forwarded: list[R] = []
        outcomes: dict[Resource, ConfigResult] = {}
        for resource in resources:
            if resource.resource_type != GROUP:
                error = config_rejection(
                    self._security.authorize_alter_configs, caller, resource
                ) or _reject_job_configs(resource)
                if error is None:
                    forwarded.append(resource)
                else:
                    outcomes[resource_of(resource)] = error
        return forwarded, outcomes

    async def _group(
        self, request: Request[IncrementalAlterConfigsRequest], resource: _Resource, times: int
    ) -> ConfigResult:
        group_id, validate_only = resource.resource_name, request.body.validate_only
        try:
            self._security.authorize_alter_configs(request.caller, acl.Resource.GROUP, group_id)
            if times > 1:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            ours, theirs = split_changes(resource.configs)
            if theirs and (ours or validate_only):
                await self._alter_theirs(request, group_id, theirs, True)
            if ours:
                await self._requests.alter_configs(group_id, ours, validate_only)
            if theirs and not validate_only:
                await self._alter_theirs(request, group_id, theirs, False)
        except RequestError as error:
            return int(error.code), error.message
        return OK

    async def _alter_theirs(
        self,
        request: Request[IncrementalAlterConfigsRequest],
        group_id: str,
        configs: list[_Change],
        validate_only: bool,
    ) -> None:
        """Alter `configs` of a group at the upstream, which stores them. With `validate_only`, only validate changes.

        Raises RequestError if the upstream returns an error, and UpstreamUnavailableError if it does not respond.
        """
        resource = _Resource(resource_type=GROUP, resource_name=group_id, configs=configs)
        results = await self._upstream.alter(request.caller.node_id, [resource], validate_only)
        ((code, message),) = results.values()
        if code:
            raise RequestError(_code(code), message or "")

    async def _refresh_configs(self) -> None:
        """Read the group configs from the tables, so that this gateway uses the new values before it responds.

        If the tables cannot be read, the new values are used after the next regular refresh.
        """
        try:
            await self._configs.refresh()
        except RequestError:
            return  # the change is stored; the next regular refresh reads it


def alter_response(response: type[Response], outcomes: Mapping[Resource, ConfigResult]) -> Response:
    """Return a response of the class `response`. `outcomes` is {(type, name) of a resource: (error code, message)}."""
    found = response.AlterConfigsResourceResponse
    return response(
        throttle_time_ms=0,
        responses=[
            found(error_code=code, error_message=message, resource_type=kind, resource_name=name)
            for (kind, name), (code, message) in outcomes.items()
        ],
    )


def audit_changes(
    caller: Caller, resources: Iterable[AlteredResource], outcomes: Mapping[Resource, ConfigResult]
) -> None:
    """Write each resource of a request to the audit log, with its error code and the names of its changed configs.

    The values of the configs are not written, because they may be passwords.
    """
    for resource in resources:
        kind, name = resource_of(resource)
        configs = ",".join(config.name for config in resource.configs)
        audit.log_change(caller, _KINDS.get(kind, str(kind)), name, outcomes[kind, name][0], configs)


def _reject_job_configs(resource: AlteredResource) -> ConfigResult | None:
    """Return an error if `resource` is a broker and a changed config can only be set in the job's configuration file.

    Otherwise return None. If the upstream changed such a config, this would have no effect on the job's share groups.
    """
    ours = [config.name for config in resource.configs if is_job_config(config.name)]
    if resource.resource_type != BROKER or not ours:
        return None
    message = f"{', '.join(ours)}: cannot be altered; set it in the configuration file of the share-group job"
    return int(ErrorCode.INVALID_CONFIG), message


def split_changes(configs: Sequence[_Change]) -> tuple[dict[str, str | None], list[_Change]]:
    """Return (changes of configs that the job stores, changes of configs that the upstream stores).

    The changes for the job are {name: new value}. The value None deletes a config.

    Raises RequestError with Kafka's messages. The error is INVALID_REQUEST for duplicate keys, null values and unknown
    operations. It is INVALID_CONFIG for APPEND and SUBTRACT, because no config of the job is a list.
    """
    if len({config.name for config in configs}) < len(configs):
        raise RequestError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    null_valued = [config.name for config in configs if config.config_operation != DELETE and config.value is None]
    if null_valued:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(null_valued)}")
    theirs = [config for config in configs if is_upstream_config(config.name)]
    return {config.name: _new_value(config) for config in configs if not is_upstream_config(config.name)}, theirs


def _new_value(config: _Change) -> str | None:
    operation = config.config_operation
    if operation in (APPEND, SUBTRACT):
        name = "APPEND" if operation == APPEND else "SUBTRACT"
        raise RequestError(ErrorCode.INVALID_CONFIG, f"Can't {name} to key {config.name} because its type is not LIST.")
    if operation not in (SET, DELETE):
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    return config.value if operation == SET else None


def _code(code: int) -> ErrorCode:
    """Return `code` as an ErrorCode; UNKNOWN_SERVER_ERROR if `ErrorCode` lacks it."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR

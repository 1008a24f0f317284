"""Checks whether a caller may access configs.

As in Kafka, the configs of a group or topic require a right on this group or topic. All other configs require a right
on the cluster.
"""

from collections.abc import Callable

from sharegroup.errors import RequestError
from sharegroup.gateway.upstream.configs import GROUP, TOPIC, ConfigResult, NamedResource
from sharegroup.security import acl
from sharegroup.security.caller import Caller

_OWN_RESOURCES = {GROUP: acl.Resource.GROUP, TOPIC: acl.Resource.TOPIC}


def config_acl_resource(item: NamedResource) -> tuple[acl.Resource, str]:
    """Return the (type, name) of the ACL resource on which the configs of `item` require a right."""
    if item.resource_type in _OWN_RESOURCES:
        return _OWN_RESOURCES[item.resource_type], item.resource_name
    return acl.Resource.CLUSTER, acl.CLUSTER_NAME


def config_rejection(
    need: Callable[[Caller, acl.Resource, str], None], caller: Caller, item: NamedResource
) -> ConfigResult | None:
    """Return (error code, message) if the caller may not access the configs of `item`, else None.

    `need(caller, type, name)` raises RequestError if the caller lacks the right on the ACL resource (type, name).
    """
    try:
        need(caller, *config_acl_resource(item))
    except RequestError as error:
        return int(error.code), error.message
    return None

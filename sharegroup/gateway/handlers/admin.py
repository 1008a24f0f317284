"""Creates the handlers of the APIs for administrators, such as ListGroups and DescribeConfigs."""

from kafka.protocol import admin as admin_messages

from sharegroup.config import Config
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.handlers.configs.alter_configs import IncrementalAlterConfigs
from sharegroup.gateway.handlers.configs.describe_configs import DescribeConfigs
from sharegroup.gateway.handlers.configs.legacy_alter_configs import AlterConfigs
from sharegroup.gateway.handlers.configs.list_config_resources import ListConfigResources
from sharegroup.gateway.handlers.groups.change_offsets import AlterShareGroupOffsets, DeleteShareGroupOffsets
from sharegroup.gateway.handlers.groups.delete_groups import DeleteGroups
from sharegroup.gateway.handlers.groups.describe_groups import ShareGroupDescribe
from sharegroup.gateway.handlers.groups.describe_offsets import DescribeShareGroupOffsets
from sharegroup.gateway.handlers.groups.list_groups import ListGroups
from sharegroup.gateway.job_client.group_requests import GroupRequests
from sharegroup.gateway.job_client.job_channel import JobChannel
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.wire.request import Route
from sharegroup.protocol import messages as share_messages
from sharegroup.security.authorization import Authorization


def admin_routes(
    config: Config,
    job: JobChannel,
    cluster: UpstreamCluster,
    stored: StoredGroups,
    others: UpstreamGroups,
    configs: GroupConfigs,
    security: Authorization,
) -> list[Route]:
    """Return the handlers of the administrators' requests, as (request class, handler) pairs.

    The handlers read share groups from the job's tables (`stored`). To change them, they send request rows to the job.
    `others` finds groups of other types at the upstream brokers.
    """
    rows = GroupRequests(job)
    alter_configs = IncrementalAlterConfigs(rows, configs, cluster, security)
    return [
        (share_messages.ShareGroupDescribeRequest, ShareGroupDescribe(stored, configs, security)),
        (share_messages.DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsets(stored, cluster, security)),
        (
            share_messages.AlterShareGroupOffsetsRequest,
            AlterShareGroupOffsets(rows, cluster, security, others),
        ),
        (
            share_messages.DeleteShareGroupOffsetsRequest,
            DeleteShareGroupOffsets(rows, cluster, security, others),
        ),
        (admin_messages.ListGroupsRequest, ListGroups(stored, cluster, security)),
        (admin_messages.DeleteGroupsRequest, DeleteGroups(rows, stored, cluster, security)),
        (admin_messages.DescribeConfigsRequest, DescribeConfigs(config, stored, cluster, security)),
        (admin_messages.AlterConfigsRequest, AlterConfigs(alter_configs, stored, cluster)),
        (admin_messages.IncrementalAlterConfigsRequest, alter_configs),
        (admin_messages.ListConfigResourcesRequest, ListConfigResources(stored, cluster, security)),
    ]

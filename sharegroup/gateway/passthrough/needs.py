"""The rights that Kafka's brokers require for requests (KafkaApis, ControllerApis), named by operation and resource."""

from sharegroup.gateway.passthrough.rights import Need
from sharegroup.security.acl import Operation, Resource

READ_TOPIC = Need(Operation.READ, Resource.TOPIC)
WRITE_TOPIC = Need(Operation.WRITE, Resource.TOPIC)
CREATE_TOPIC = Need(Operation.CREATE, Resource.TOPIC, or_on_cluster=Operation.CREATE)
DELETE_TOPIC = Need(Operation.DELETE, Resource.TOPIC)
ALTER_TOPIC = Need(Operation.ALTER, Resource.TOPIC)
DESCRIBE_TOPIC = Need(Operation.DESCRIBE, Resource.TOPIC)
DESCRIBE_TOPIC_CONFIGS = Need(Operation.DESCRIBE_CONFIGS, Resource.TOPIC)

READ_GROUP = Need(Operation.READ, Resource.GROUP)
DELETE_GROUP = Need(Operation.DELETE, Resource.GROUP)
DESCRIBE_GROUP = Need(Operation.DESCRIBE, Resource.GROUP)

WRITE_TRANSACTIONAL_ID = Need(Operation.WRITE, Resource.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID = Need(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID)

ALL_ON_CLUSTER = Need(Operation.ALL, Resource.CLUSTER)
ALTER_CLUSTER = Need(Operation.ALTER, Resource.CLUSTER)
DESCRIBE_CLUSTER = Need(Operation.DESCRIBE, Resource.CLUSTER)
CLUSTER_ACTION = Need(Operation.CLUSTER_ACTION, Resource.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS = Need(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)
ALTER_CLUSTER_CONFIGS = Need(Operation.ALTER_CONFIGS, Resource.CLUSTER)
IDEMPOTENT_WRITE = Need(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)

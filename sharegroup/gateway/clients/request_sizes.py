"""Maximum sizes of requests by API. A request's size is checked when its first bytes have arrived.

Kafka has one limit for all APIs (`socket.request.max.bytes`), which must be large because of Produce. Requests that the
gateway handles itself have lower limits: valid requests are always much shorter, and long ones would block the event
loop, which decodes them.
"""

import struct

from sharegroup.gateway.wire.request import api_name
from sharegroup.security.authentication.oauth_bearer import MAX_MESSAGE_BYTES

API_KEY = struct.Struct(">h")

#: Largest request of a client that has not logged in. It leaves room for a token and the other fields of the request.
MAX_LOGIN_REQUEST_BYTES = MAX_MESSAGE_BYTES + 4_096
#: Largest request of APIs without lists or with short lists.
_FEW = 65_536
#: Largest request that the gateway decodes itself. 10,000 acknowledgement batches are 190 KB. One million records
#: acknowledged one by one, or a subscription to 4,000 topics with the longest names, are 1 MB. Decoding takes at most
#: 0.1 s.
MAX_OWN_REQUEST_BYTES = 1_048_576

#: {API key: largest allowed request in bytes}
OWN_REQUEST_BYTES = {
    3: MAX_OWN_REQUEST_BYTES,  # Metadata, of thousands of topics
    10: MAX_OWN_REQUEST_BYTES,  # FindCoordinator, of thousands of groups
    13: MAX_OWN_REQUEST_BYTES,  # LeaveGroup, of thousands of members
    16: _FEW,  # ListGroups
    17: _FEW,  # SaslHandshake
    18: _FEW,  # ApiVersions
    32: MAX_OWN_REQUEST_BYTES,  # DescribeConfigs
    33: MAX_OWN_REQUEST_BYTES,  # AlterConfigs
    36: _FEW,  # SaslAuthenticate
    42: MAX_OWN_REQUEST_BYTES,  # DeleteGroups
    44: MAX_OWN_REQUEST_BYTES,  # IncrementalAlterConfigs
    60: _FEW,  # DescribeCluster
    74: _FEW,  # ListConfigResources
    76: MAX_OWN_REQUEST_BYTES,  # ShareGroupHeartbeat
    77: MAX_OWN_REQUEST_BYTES,  # ShareGroupDescribe
    78: MAX_OWN_REQUEST_BYTES,  # ShareFetch
    79: MAX_OWN_REQUEST_BYTES,  # ShareAcknowledge
    90: MAX_OWN_REQUEST_BYTES,  # DescribeShareGroupOffsets
    91: MAX_OWN_REQUEST_BYTES,  # AlterShareGroupOffsets
    92: MAX_OWN_REQUEST_BYTES,  # DeleteShareGroupOffsets
}


def size_problem(size: int, head: bytes | memoryview) -> str | None:
    """Return an error message if a request of `size` bytes is too long, else None.

    The limit depends on the API key, which is in `head`, the first bytes of the request.
    """
    if len(head) < API_KEY.size:
        return None  # not a request; decoding its header reports that
    (api_key,) = API_KEY.unpack_from(head)
    most = OWN_REQUEST_BYTES.get(api_key)
    if most is None or size <= most:
        return None
    return f"{api_name(api_key)} request has {size} bytes; the limit is {most}"

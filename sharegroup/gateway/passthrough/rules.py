"""The rules of all APIs that the gateway may forward to the brokers. docs/security.md has the same table."""

from collections.abc import Mapping
from typing import Final

from sharegroup.gateway.passthrough import acls, administration, groups, offsets, records, topics, transactions
from sharegroup.gateway.passthrough.rule import Rule

_ALL = [
    *records.RULES,
    *topics.RULES,
    *groups.RULES,
    *offsets.RULES,
    *transactions.RULES,
    *acls.RULES,
    *administration.RULES,
]
#: {API key: rule}. APIs without a rule are rejected, for example APIs of later Kafka releases.
RULES: Final[Mapping[int, Rule]] = {rule.api_key: rule for rule in sorted(_ALL, key=lambda rule: rule.api_key)}

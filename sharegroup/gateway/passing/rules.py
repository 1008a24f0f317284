"""Every API that may pass through to the brokers, and what it needs. docs/security.md has the same table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharegroup.gateway.passing import acls, administration, groups, offsets, records, topics, transactions
from sharegroup.gateway.passing.rule import Rule

_ALL = [
    *records.RULES,
    *topics.RULES,
    *groups.RULES,
    *offsets.RULES,
    *transactions.RULES,
    *acls.RULES,
    *administration.RULES,
]
#: {api key: rule}. No other API passes, so that an API of a later release is refused until it has a rule here.
RULES: Final[Mapping[int, Rule]] = {rule.api_key: rule for rule in sorted(_ALL, key=lambda rule: rule.api_key)}

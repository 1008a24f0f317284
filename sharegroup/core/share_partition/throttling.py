"""Delivering records that have failed often in ever smaller portions, so that one bad record does not archive its
neighbours (Kafka 4.2, not in the text of KIP-932).

The unit is the *fetch batch*: the range that one fetch took from the log. Once a record that is to be delivered again
has used up half of its deliveries, a fetch takes no more than a share of the record's fetch batch and nothing else:
with limit 5 and ten records 10, 10, 10, then 5, then single records.
"""

from __future__ import annotations


def throttle_threshold(delivery_count_limit: int) -> int:
    """The delivery count from which on a record is delivered in smaller portions."""
    return max(2, (delivery_count_limit + 1) // 2)


def batch_share(batch_length: int, delivery_count: int, threshold: int) -> int:
    """How many records of a fetch batch travel together; halved with every delivery from `threshold` on, at least 1."""
    return max(1, batch_length >> (delivery_count - threshold + 1))


def travels_alone(delivery_count: int, delivery_count_limit: int) -> bool:
    """Whether the next delivery of a record is its last one, which it gets alone."""
    return delivery_count_limit > 2 and delivery_count == delivery_count_limit - 1

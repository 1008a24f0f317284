"""The metrics of a share consumer for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from sharegroup.client.prometheus import ConsumerCollector
from tests.unit.client.members import group_of, member, poll


def test_all_metrics_are_exported_with_their_values() -> None:
    registry = CollectorRegistry()
    with member(group_of(b"0")) as consumer:
        registry.register(ConsumerCollector(consumer))
        poll(consumer, 1)
        consumer.commit_sync()
        text = generate_latest(registry).decode()
        labels = f'{{group="billing",member_id="{consumer.member_id}"}}'
        assert f"kafka_consumer_share_fetch_manager_metrics_records_consumed_total{labels} 1.0" in text
        assert f"kafka_consumer_share_fetch_manager_metrics_acknowledgements_send_total{labels} 1.0" in text
        names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
        assert len(names) == sum(map(len, consumer.metrics().values()))

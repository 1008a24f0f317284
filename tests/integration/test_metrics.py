"""What the job and the gateway show of what members did, over HTTP."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import AcknowledgeType
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from sharegroup.errors import ErrorCode
from sharegroup.monitoring.metrics.gateway_catalogue import GATEWAY_METRICS
from sharegroup.monitoring.metrics.job_catalogue import JOB_METRICS
from sharegroup.protocol.rows.share_group_requests import AlterConfigsRequest
from tests.integration.metric_scrapes import Scrape, get
from tests.integration.prometheus import Prometheus, programs
from tests.integration.share_members import Group, Record, keys
from tests.integration.waiting import wait_until
from tests.monitoring import MONITORING, alert_expressions, dashboard_expressions, keda_expressions

if TYPE_CHECKING:
    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

RECORDS = 100
#: What may not have happened yet by then: these have no series before.
WITHOUT_AN_EVENT = ("sharegroup_refused_requests_total",)


@pytest.fixture
def group(gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic) -> Group:
    """A group that has finished a topic: one record in ten was rejected."""
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(2, RECORDS))

    def handle(record: Record) -> None:
        member.acknowledge(record, AcknowledgeType.ACCEPT if record.offset % 10 else AcknowledgeType.REJECT)

    with group.member(share_acknowledgement_mode="explicit") as member:
        member.poll_until(lambda: set(member.answers) == keys(2, RECORDS), handle)
    group.await_finished()
    return group


def test_what_a_group_did_is_in_the_scrapes_of_job_and_gateway(
    group: Group, share_group_job: ShareGroupJobRun, gateway_metrics_port: int
) -> None:
    port, query = share_group_job.config.job.metrics_port, {"query": "share_partition"}
    wait_until(
        lambda: Scrape(port).value("sharegroup_record_acknowledgements_total", group=group.id, ack_type="reject") == 20,
        "all rejects are counted",
    )
    wait_until(
        lambda: (
            ("sharegroup_members", frozenset({("group", group.id)})) in Scrape(port).samples
            and Scrape(port).value("sharegroup_members", group=group.id) == 0
        ),
        "the member has left",
    )
    job = Scrape(port)
    assert job.value("sharegroup_record_acknowledgements_total", group=group.id, ack_type="accept") == 180
    assert job.value("sharegroup_records_archived_total", group=group.id, reason="reject") == 20
    assert job.value("sharegroup_records_acquired_total", group=group.id) >= 200
    assert job.value("sharegroup_delivery_count_bucket", group=group.id, le="1.0") >= 200
    assert job.value("sharegroup_led_share_partitions", group=group.id) == 2
    assert job.value("sharegroup_lag_records", group=group.id) == 0
    assert job.value("sharegroup_oldest_unfinished_age_seconds", group=group.id) == 0
    assert job.value("sharegroup_rebalances_total", group=group.id) >= 2
    assert job.value("sharegroup_groups", state="Empty") >= 1
    assert job.value("sharegroup_query_running", **query) == 1
    assert job.value("sharegroup_leader_epoch", **query) >= 1
    assert job.value("sharegroup_load_seconds_count", **query) >= 2  # its start, and the topic of this group
    assert job.value("sharegroup_request_rows_total", **query) > 0
    parts = [job.value("sharegroup_micro_batch_part_seconds_total", part=p, **query) for p in ("operator", "commit")]
    assert all(parts)
    assert job.value("sharegroup_state_records_total", record_type="ShareSnapshot") >= 2
    wait_until(
        lambda: Scrape(port).value("sharegroup_spark_part_seconds_total", part="addBatch", **query) > 0,
        "Spark tells of its batches",
    )

    shown = Scrape(gateway_metrics_port)
    assert shown.value("sharegroup_gateway_requests_total", api="ShareFetchRequest") > 0
    assert shown.value("sharegroup_gateway_sent_bytes_total", api="ShareFetchRequest") > 2_000
    assert shown.value("sharegroup_gateway_request_seconds_count", api="ShareGroupHeartbeatRequest") > 0
    assert shown.value("sharegroup_gateway_ready") == 1


def test_both_are_healthy_and_ready(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, gateway_metrics_port: int
) -> None:
    for port in (share_group_job.config.job.metrics_port, gateway_metrics_port):
        assert get(port, "/healthz") == (200, "ok\n")
        wait_until(lambda port=port: get(port, "/readyz") == (200, "ok\n"), "it is ready")  # type: ignore[misc]


def test_lag_shows_what_nobody_reads(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic
) -> None:
    """A member that has left: the log's end is looked at all the same, and the oldest record ages."""
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, 1))
    with group.member() as member:
        member.poll_until(lambda: member.accepted == keys(1, 1))
    with KafkaProducer(bootstrap_servers=share_group_job.bootstrap_servers) as producer:
        for _ in range(7):
            producer.send(group.topic, b"unread", partition=0)
    port = share_group_job.config.job.metrics_port
    wait_until(lambda: Scrape(port).value("sharegroup_lag_records", group=group.id) == 7, "the lag shows")
    assert Scrape(port).value("sharegroup_available_records", group=group.id) == 7
    wait_until(
        lambda: Scrape(port).value("sharegroup_oldest_unfinished_age_seconds", group=group.id) > 0,
        "the oldest record ages",
    )


def test_the_start_offset_is_that_of_a_consumer_group_that_mirrors_it(
    group: Group, share_group_job: ShareGroupJobRun, unique_name: Callable[[str], str]
) -> None:
    mirror = unique_name("mirror")
    client = share_group_job.client()

    def alter(to: str) -> Any:
        request = AlterConfigsRequest(
            client.next_id(), group.id, client.reply_to, configs={"share.consumer.group.offset.mirror": to}
        )
        return client.call(request)

    assert alter(group.id).error_code == ErrorCode.INVALID_CONFIG
    assert alter(mirror).error_code == 0
    admin = KafkaAdminClient(bootstrap_servers=share_group_job.bootstrap_servers)
    try:
        expected = {TopicPartition(group.topic, partition): RECORDS for partition in range(2)}

        def committed() -> dict[TopicPartition, int]:
            return {at: found.offset for at, found in admin.list_group_offsets({mirror: None})[mirror].items()}

        wait_until(lambda: committed() == expected, "the start offsets are committed")
    finally:
        admin.close()


# -- what is in conf/monitoring ----------------------------------------------------------------------------------------


def test_every_metric_is_in_a_scrape_of_the_job_or_the_gateway(
    group: Group, share_group_job: ShareGroupJobRun, gateway_metrics_port: int
) -> None:
    for port, metrics in (
        (share_group_job.config.job.metrics_port, JOB_METRICS),
        (gateway_metrics_port, GATEWAY_METRICS),
    ):
        text = Scrape(port).text
        for metric in metrics:
            assert f"# TYPE {metric.name} {metric.kind.value}\n" in text


@pytest.fixture
def prometheus(
    share_group_job: ShareGroupJobRun, gateway_metrics_port: int, group: Group, tmp_path: Path
) -> Iterator[Prometheus]:
    """It scrapes the job and the gateway by conf/monitoring, and has done so."""
    found = programs(tmp_path)
    if found is None:
        pytest.skip("no Prometheus here: neither on the PATH nor as Debian's package")
    config, rules = tmp_path / "prometheus.yaml", "alert_rules.yaml"
    (tmp_path / rules).write_text((MONITORING / rules).read_text())
    text = (MONITORING / "prometheus.yaml").read_text()
    here = {
        "job.example:9404": f"127.0.0.1:{share_group_job.config.job.metrics_port}",
        "gateway.example:9405": f"127.0.0.1:{gateway_metrics_port}",
        "scrape_interval: 10s": "scrape_interval: 1s\n  evaluation_interval: 1s",
    }
    for of_file, ours in here.items():
        assert of_file in text
        text = text.replace(of_file, ours)
    config.write_text(text)
    subprocess.run([found["promtool"], "check", "config", config], check=True, capture_output=True)
    with Prometheus(found["prometheus"], config, tmp_path) as process:
        process.await_log("Server is ready to receive web requests")
        wait_until(lambda: len(process.query("count_over_time(up[1m]) >= 3")) == 2, "both were scraped three times")
        yield process


def test_a_real_prometheus_takes_the_rules_and_answers_every_expression(prometheus: Prometheus, group: Group) -> None:
    unanswered = {
        expression for expression in dashboard_expressions() if not any(name in expression for name in WITHOUT_AN_EVENT)
    }

    def ask_again() -> bool:  # a scrape may come too late, and then a query finds nothing
        unanswered.difference_update({expression for expression in unanswered if prometheus.query(expression)})
        return not unanswered

    wait_until(ask_again, "each expression of the dashboard has an answer")
    for expression in (*alert_expressions(), *keda_expressions()):
        prometheus.query(expression)
    wait_until(lambda: set(prometheus.rules().values()) == {"ok"}, "each rule was evaluated")
    rejected = f'sharegroup_records_archived_total{{group="{group.id}", reason="reject"}}'
    wait_until(lambda: [series["value"][1] for series in prometheus.query(rejected)] == ["20"], "20 were rejected")

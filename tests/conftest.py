"""Fixtures of all tiers. A tier is a directory, by cost; the first three need no JVM, nor any fixture that has one."""

import inspect
import logging
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from sharegroup.kafka_clients import kafka_client_log
from sharegroup.spark.jars import QUICK_START
from tests.class_archive import spark_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.harness.event_loop import EventLoop
    from tests.harness.share_group_job import ShareGroupJobRun

TESTS = Path(__file__).parent
TIERS = ("unit", "processes", "packaging", "tables", "spark", "integration", "conformance", "notebooks", "benchmarks")

#: The tiers by what a file of theirs takes.
_ORDER = (
    "",
    "unit",
    "processes",
    "packaging",
    "tables",
    "spark",
    "notebooks",
    "conformance",
    "integration",
    "benchmarks",
)
#: The longest files of tests/integration.
_LONGEST = (
    "test_restart",
    "test_kills",
    "test_share_consumer",
    "test_client_consumer",
    "test_object_store",
    "test_broker_failures",
    "test_operating",
    "test_tutorial",
    "test_cells",
    "test_gateway_sharp_corners",
    "test_gateway_acting_clients",
    "test_gateway_examples",
    "test_job_topics_growth",
)

# The same examples in every run, however busy the machine is; `make properties` looks for others.
settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("fixed"), max_examples=20)  # of `make unit`
settings.register_profile("fresh", deadline=None, print_blob=True, database=None)  # of `make properties`
settings.load_profile("fixed")

# For every JVM of Spark and every broker that tests start.
os.environ.setdefault("KAFKA_OPTS", " ".join(QUICK_START))
os.environ.setdefault("SPARK_SUBMIT_OPTS", spark_options())


def _is_no_late_line(record: logging.LogRecord) -> bool:
    """Return False for the line that ends an outage of an earlier test, which a timer writes up to a minute later."""
    return record.name != kafka_client_log.__name__ or record.thread == threading.main_thread().ident


@pytest.fixture(autouse=True)
def no_late_outage_line(caplog: pytest.LogCaptureFixture) -> None:
    """Keeps log lines about earlier tests out of `caplog`."""
    caplog.handler.addFilter(_is_no_late_line)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test with its tier, so that `-m "unit or spark"` and the like work.

    In several processes, the longest files come first, so that none of them is left to one process at the end.
    """
    for item in items:
        if (tier := _tier(item)) in TIERS:
            item.add_marker(tier)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: (-_ORDER.index(_tier(item)), item.path.stem not in _LONGEST))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in the event loop of its fixtures."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    pyfuncitem._request.getfixturevalue("loop").finish(pyfuncitem.obj(**arguments))
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist=loadscope` the tests that share services are one scope."""
    if config.getvalue("dist") != "loadscope":
        return None
    from tests.shared_services import SharedServicesScheduling

    return SharedServicesScheduling(config, log)


def _tier(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""


@pytest.fixture
def loop() -> "Iterator[EventLoop]":
    """The event loop of a test, closed with all its tasks at the end."""
    from tests.harness.event_loop import EventLoop

    with EventLoop() as loop:
        yield loop


@pytest.fixture(scope="session")
def kafka() -> "Iterator[EmbeddedKafka]":
    """One broker for all tests, without share groups; tests keep apart by the names of their topics (`unique_name`)."""
    from sharegroup.testing.embedded_kafka import EmbeddedKafka

    with EmbeddedKafka(features={"share.version": 0}) as broker:
        yield broker


@pytest.fixture(scope="session")
def share_group_job(kafka: "EmbeddedKafka", tmp_path_factory: pytest.TempPathFactory) -> "Iterator[ShareGroupJobRun]":
    """The main job, running, for all tests that leave it running; they keep apart by their groups (`new_group`)."""
    from sharegroup.testing.ports import free_port
    from tests.harness.share_group_job import QUERY_FAILED, ShareGroupJobRun

    directory, shown = (
        tmp_path_factory.mktemp("share-group-job"),
        {"metrics.port": free_port(), "metrics.max.partitions": 3},
    )
    with ShareGroupJobRun(directory, kafka.bootstrap_servers, job=shown) as job:
        job.start_warm(kafka.create_topic)
        yield job
        assert QUERY_FAILED not in job.log, "a test made a query of the job fail and start again"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One session for all tests, small and with the job's own settings."""
    from sharegroup.spark.jars import jars
    from sharegroup.spark.session import build_session

    session = build_session(
        "sharegroup-tests",
        master="local[2]",
        jars=jars("spark"),
        extra={
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={TESTS.parent}/conf/log4j2.properties",
        },
    )
    yield session
    session.stop()


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names of topics, groups and queries that no other test has: `unique_name("orders")`."""
    test = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name)[:60].strip("-")

    def make(what: str = "name") -> str:
        return f"{what}-{test}-{uuid.uuid4().hex[:8]}"

    return make

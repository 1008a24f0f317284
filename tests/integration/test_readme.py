"""What the README shows, as it stands there: only the broker's address and the directories are this test's own."""

from __future__ import annotations

import re
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from sharegroup.testkit.delivery_audit import audit, progress
from sharegroup.testkit.embedded_kafka import EmbeddedKafka
from sharegroup.testkit.gateway_process import GatewayProcess
from sharegroup.testkit.jars import IVY_XML
from sharegroup.testkit.submitted_job import ROOT, SubmittedJob
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sharegroup.spark import ShareConsumerQuery

README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGES = re.findall(r"--packages (\S+)", README)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_the_packages_are_those_that_are_tested() -> None:
    ivy = IVY_XML.read_text(encoding="utf-8")
    assert PACKAGES
    for package in {package for listed in PACKAGES for package in listed.split(",")}:
        organisation, name, revision = package.split(":")
        assert re.search(rf'org="{organisation}" name="{name}" rev="{revision}"', ivy), package


def test_the_commands_are_in_the_environment_that_is_activated_first() -> None:
    bash, shell = blocks("bash")[0], blocks("sh")[0]
    assert bash.startswith(". .venv/bin/activate\n")
    commands = re.findall(r"^(\S+) .*&$", bash + shell, re.MULTILINE)
    assert commands == ["python", "spark-submit", "sharegroup"]
    for command in ("activate", *commands):
        assert (Path(sys.prefix) / "bin" / command).is_file(), command


@pytest.mark.parametrize("text", ["README.md", "sharegroup/README.md"])
def test_links_lead_somewhere(text: str) -> None:
    source = ROOT / text
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", source.read_text(encoding="utf-8")):
        assert target.startswith("http") or (source.parent / target).exists(), target


@pytest.mark.timeout(900)
def test_the_twenty_lines_run(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broker, configuration, job, member and SQL; every record is finished, as the handler said."""
    (shell,) = blocks("bash")
    member, queries, client = blocks("python")
    (topic,) = re.findall(r"embedded_kafka --topic (\w+):2 &", shell)
    (config,) = re.findall(r"<<END\n(.*?)^END$", shell, re.DOTALL | re.MULTILINE)
    (script,) = re.findall(r"spark-submit --packages \S+ (\S+) --config billing.yaml &", shell)
    with EmbeddedKafka() as kafka:

        def here(text: str) -> str:
            text = re.sub(r"\bdata/", f"{tmp_path}/data/", text)
            return text.replace("127.0.0.1:9092", kafka.bootstrap_servers)

        kafka.create_topic(topic, partitions=2)
        (tmp_path / "billing.yaml").write_text(here(config))
        with SubmittedJob(script, ["--config", str(tmp_path / "billing.yaml")], tmp_path / "job.log") as job:
            job.await_log("the share-group job is running")
            names: dict[str, Any] = {}
            exec(compile(here(member), "README.md", "exec"), names)
            try:
                await_finished(f"{tmp_path}/data/tables", 1_000, names["query"])
            finally:
                names["query"].stop()
            exec(compile(here(queries), "README.md", "exec"), names)
            assert "ACKNOWLEDGED" in capsys.readouterr().out
            with GatewayProcess(tmp_path / "billing.yaml", tmp_path / "gateway.log") as gateway:
                producer = Producer({"bootstrap.servers": gateway.bootstrap_servers})
                producer.produce(topic, b"through the gateway")
                assert producer.flush(60) == 0
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # confluent-kafka calls its ShareConsumer a preview
                    client = client.replace("127.0.0.1:9192", gateway.bootstrap_servers)
                    exec(compile(client, "README.md", "exec"), {})
                assert capsys.readouterr().out == "1 b'through the gateway'\n"
            # SIGTERM stops the job before a batch that has not begun, and that one may have the acknowledgement.
            wait_until(lambda: progress(f"{tmp_path}/data/tables", "billing").finished == 1_001, "the last is finished")
            assert job.terminate() == 0
    end_offsets = names["orders"].sparkSession.sql("SELECT partition, end_offset FROM share_group_offsets").collect()
    ends = {(topic, row["partition"]): row["end_offset"] for row in end_offsets}
    assert sum(ends.values()) == 1_001
    assert audit(f"{tmp_path}/data/tables", "billing", ends) == []
    assert dict(progress(f"{tmp_path}/data/tables", "billing").outcomes) == {"accepted": 901, "rejected": 100}
    assert spark.read.format("delta").load(f"{tmp_path}/data/billed").count() == 1_000


def await_finished(tables_path: str, records: int, query: ShareConsumerQuery, timeout_s: float = 600) -> None:
    """Until the tables say that so many records are finished; what ended the query before is raised."""
    deadline = time.monotonic() + timeout_s
    while (finished := progress(tables_path, "billing").finished) < records:
        assert not query.await_termination(0.2), "the query ended"
        assert time.monotonic() < deadline, f"{finished} of {records} records finished"

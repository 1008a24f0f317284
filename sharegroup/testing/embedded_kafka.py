"""A real Kafka broker as a child process, for tests, notebooks and the demo.

    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders", partitions=3)
        KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

    sharegroup broker --port 9092     # a broker for experiments, until Ctrl-C

One KRaft node is broker and controller. It uses free ports and the JARs of `conf/ivy.xml`. The arguments `join` and
`quorum` connect several nodes to a cluster. For releases before KRaft, a ZooKeeper process replaces the controller. The
started processes never outlive the process that starts them (`guarded_process`).
"""

import base64
import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import NamedTuple, NoReturn

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError, UnknownTopicOrPartitionError

from sharegroup.kafka_clients.cluster_description import describe_cluster
from sharegroup.spark.jars import QUICK_START, JarsError, jars, java
from sharegroup.testing.class_archive import BROKER
from sharegroup.testing.guarded_process import GuardedProcess
from sharegroup.testing.ports import HOST, free_port

START_DEADLINE_S = 240.0
LOG_TAIL_LINES = 30
#: {supported Kafka release: its configuration in conf/ivy.xml}. Releases from 4.3 on have share groups.
VERSIONS = {"4.4": "broker-4.4", "4.3": "broker", "3.9": "broker-3.9", "3.7": "broker-3.7", "2.8": "broker-2.8"}
#: Releases that need a ZooKeeper, because KRaft was only a preview in these releases.
_WITH_ZOOKEEPER = frozenset({"2.8"})

_LOG4J2_PROPERTIES = Path(__file__).resolve().parents[2] / "conf" / "log4j2.properties"


class EmbeddedKafkaError(RuntimeError):
    """The broker did not start, is not running, or exited unexpectedly.

    If the broker has written a log, the message contains the end of this log.
    """


class Quorum(NamedTuple):
    """The controllers of a cluster, as {node id: `host:port`}. Nodes with other ids are only brokers."""

    cluster_id: str
    controllers: Mapping[int, str]


def create_topic(admin: KafkaAdminClient, name: str, partitions: int, topic: Mapping[str, object]) -> None:
    """Create a topic with these options of kafka-python, and wait until the leader of each partition responds.

    A broker shows a new topic in its metadata a moment before it responds to requests for its partitions, and some
    brokers show it before others. Raises kafka.errors.KafkaError.
    """
    deadline = time.monotonic() + START_DEADLINE_S
    admin.create_topics({name: topic})
    admin.wait_for_topics([name], timeout_ms=int(START_DEADLINE_S * 1000))
    latest = {TopicPartition(name, number): OffsetSpec.LATEST for number in range(partitions)}
    while True:
        try:
            admin.list_partition_offsets(latest)
            return
        except UnknownTopicOrPartitionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)  # polls the brokers


class EmbeddedKafka:
    """One Kafka broker, started and stopped by hand or as a context manager.

    Args:
        port: the broker's port for clients. 0 chooses a free port. After a restart, the broker has the same port.
        data_dir: the directory of the log segments. `stop` keeps it for the next start. None creates a temporary
            directory, which `stop` removes.
        properties: broker settings in addition to the default settings, which they override.
        features: {feature: level} for the broker's storage, for example `{"share.version": 0}` for a broker without
            share groups.
        heap: the JVM's heap option. As for Kafka's own scripts, the environment variable KAFKA_OPTS can contain further
            JVM options.
        version: Kafka's release, one of `VERSIONS`.
        node_id: the broker's id.
        join: the first node of the cluster that this broker joins. That first node is the cluster's controller or runs
            its ZooKeeper. None starts a new cluster.
        quorum: instead of `join`, the controllers of a cluster with several controllers. A majority of the controllers
            must be started at the same time.

    Methods simulate failures. `kill` and `shut_down` end the broker's process and keep its files; `erase` then removes
    its data. `start` restarts the broker on the same ports. `pause` and `resume` suspend and continue its process.

    Attributes:
        bootstrap_servers: `127.0.0.1:<port>`, valid once started.
        cluster_id: the id of the cluster, valid once started.
        controller: the address of the controller or of ZooKeeper, valid once started.
        log_path: the broker's log. It remains if a start fails or the `with` block raises an error.
    """

    def __init__(
        self,
        port: int = 0,
        data_dir: Path | None = None,
        properties: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        heap: str = "-Xmx512m",
        version: str = "4.3",
        node_id: int = 1,
        join: "EmbeddedKafka | None" = None,
        quorum: Quorum | None = None,
    ) -> None:
        self.port = port
        self.controller = ""
        self.cluster_id = ""
        self.node_id = node_id
        self._conf = VERSIONS[version]
        self._has_zookeeper = version in _WITH_ZOOKEEPER
        self._first = join
        self._quorum = quorum
        self._has_files = False
        self._data_dir = data_dir
        self._overrides = dict(properties or {})
        self._features = dict(features or {})
        self._heap = heap
        self._home: Path | None = None
        self._log_begin = 0
        self._broker: GuardedProcess | None = None
        self._zookeeper: GuardedProcess | None = None
        self._admin: KafkaAdminClient | None = None

    def __enter__(self) -> "EmbeddedKafka":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(keep_log=kind is not None)

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def log_path(self) -> Path:
        if self._home is None:
            raise EmbeddedKafkaError("this broker was never started")
        return self._home / "kafka.log"

    @property
    def pid(self) -> int:
        """The broker's process id. Raises EmbeddedKafkaError if it is not running."""
        return self._running().pid

    def start(self) -> None:
        """Format the storage, start the broker and wait until it responds to a Metadata request.

        Raises:
            EmbeddedKafkaError: the broker ended or did not respond within 240 s. The log is kept.
            JarsError: there is no Java, or Kafka's JARs could not be resolved.
        """
        if self._broker is not None:
            raise EmbeddedKafkaError(f"the broker is already running on {self.bootstrap_servers}")
        logging = [f"-Dlog4j2.configurationFile={_LOG4J2_PROPERTIES}", "-Dsharegroup.log.level=info"]
        archive = BROKER.options() if self._conf == "broker" else ()
        command = [java(), *archive, "-cp", os.pathsep.join(str(jar) for jar in jars(self._conf)), *logging]
        try:
            self._start_processes(command)
        except BaseException as error:
            self._end_processes()
            if not self._has_files:  # otherwise, it has run before, and may start again
                self._remove_files(keep_log=isinstance(error, Exception))  # not for Ctrl-C
            raise
        self._has_files = True

    def stop(self, keep_log: bool = False) -> None:
        """Stop the broker with SIGTERM, or with SIGKILL if it does not end in time. Remove its temporary files.

        Args:
            keep_log: whether to keep the log and print its path. The temporary data is removed anyway.

        Raises:
            EmbeddedKafkaError: the broker had already exited unexpectedly. The log is kept.
        """
        if self._broker is None:
            if self._has_files:  # after `kill` or `shut_down`
                self._remove_files(keep_log)
            return
        died = self._broker.poll()
        self._end_processes()
        self._remove_files(keep_log or died is not None)
        if died is not None:
            raise self._failed(f"the broker had exited unexpectedly with exit code {died}")

    def kill(self) -> None:
        """End the broker with SIGKILL. Its files remain for the next start."""
        if self._running().poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self._end_processes()

    def shut_down(self) -> None:
        """Stop the broker as `stop` does, but keep its files for the next start."""
        self._running()
        self._end_processes()

    def pause(self) -> None:
        """Suspend the broker (SIGSTOP). Its connections stay open, but it does not respond until `resume`."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused broker."""
        os.kill(self.pid, signal.SIGCONT)

    def erase(self) -> None:
        """Remove all data of a broker that was killed or shut down. Its next start begins with an empty disk."""
        if self._broker is not None:
            raise EmbeddedKafkaError(f"stop the broker before its data is erased; it runs on {self.bootstrap_servers}")
        shutil.rmtree(self._data())

    @property
    def is_running(self) -> bool:
        """Whether the broker was started and has not exited."""
        return self._broker is not None and self._broker.poll() is None

    def wait(self) -> int:
        """Wait until the broker exits and return the exit code."""
        return self._running().wait()

    def _running(self) -> GuardedProcess:
        if self._broker is None:
            raise EmbeddedKafkaError("the broker is not running")
        return self._broker

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until the leader of each partition responds."""
        topic = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config or {})}
        create_topic(self.admin_client(), name, partitions, topic)

    def topics(self) -> list[str]:
        """Return the sorted names of all topics, including Kafka's internal ones."""
        return sorted(self.admin_client().list_topics())

    def admin_client(self, brokers: int = 1) -> KafkaAdminClient:
        """Wait until the cluster has at least `brokers` brokers, then return an admin client.

        All calls return the same client, which is closed when the broker stops. Raises EmbeddedKafkaError if the broker
        was not started.
        """
        while True:
            if self._admin is None:
                self._running()
                self._admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers, bootstrap_timeout_ms=5_000)
            if len(self._admin._manager.cluster.brokers()) >= brokers:
                return self._admin
            self._close_admin()  # it caches the cluster's metadata for minutes
            time.sleep(0.1)

    # -- start

    def _start_processes(self, java_command: list[str]) -> None:
        if not self._has_files:
            self._home = Path(tempfile.mkdtemp(prefix="sharegroup-kafka-"))
        self._log_begin = self.log_path.stat().st_size if self.log_path.exists() else 0
        self.port = self.port or free_port()
        self._write("server.properties", self._properties())
        if not self._has_zookeeper:
            self._format_storage(java_command)
        elif self._first is None:
            self._write("zoo.cfg", self._zookeeper_properties())
            self._zookeeper = self._spawn(java_command, "org.apache.zookeeper.server.ZooKeeperServerMain", "zoo.cfg")
        self._broker = self._spawn(java_command, "kafka.Kafka", "server.properties")
        self._await_ready()

    def _write(self, file: str, properties: Mapping[str, str]) -> None:
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        self.log_path.with_name(file).write_text(text, encoding="utf-8")

    def _roles(self) -> dict[str, str]:
        """Return the properties that depend on the node's roles, and set the address of the controller or ZooKeeper."""
        if self._has_zookeeper:
            self.controller = self._first.controller if self._first is not None else self._controller_address()
            return {
                "broker.id": str(self.node_id),
                "listeners": f"PLAINTEXT://{self.bootstrap_servers}",
                "zookeeper.connect": self.controller,
            }
        controllers = self._controllers()
        own = controllers.get(self.node_id)
        self.controller = own or next(iter(controllers.values()))
        return {
            "process.roles": "broker,controller" if own else "broker",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers}" + (f",CONTROLLER://{own}" if own else ""),
            "node.id": str(self.node_id),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{node}@{address}" for node, address in controllers.items()),
        }

    def _controllers(self) -> Mapping[int, str]:
        if self._quorum is not None:
            return self._quorum.controllers
        if self._first is not None:
            return {self._first.node_id: self._first.controller}
        return {self.node_id: self._controller_address()}

    def _controller_address(self) -> str:
        """Return the address of this node's controller or ZooKeeper, and choose one at the first start.

        The address is the same at each later start, because other nodes are configured with it.
        """
        return self.controller or f"{HOST}:{free_port()}"

    def _zookeeper_properties(self) -> dict[str, str]:
        data = self._data()
        host, port = self.controller.split(":")
        return {
            "clientPortAddress": host,
            "clientPort": port,
            "dataDir": str(data.with_name(f"{data.name}-zookeeper")),
            "admin.enableServer": "false",
        }

    def _properties(self) -> dict[str, str]:
        return {
            **self._roles(),
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "log.dirs": str(self._data()),
            # One broker holds the only replica of everything.
            "default.replication.factor": "1",
            "min.insync.replicas": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # One partition each, because the default of 50 costs seconds at the first use.
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            # The default of 500 ms costs an idle broker a third of its CPU time.
            "metadata.max.idle.interval.ms": "10000",
            # Tests expect no delays.
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.check.interval.ms": "1000",
            "log.initial.task.delay.ms": "100",
            "file.delete.delay.ms": "1000",
            **self._overrides,
        }

    def _data(self) -> Path:
        assert self._home is not None  # set by _start_once
        return Path(self._data_dir).absolute() if self._data_dir else self._home / "data"

    def _format_storage(self, java_command: list[str]) -> None:
        if self._meta_properties().exists():  # a data_dir from an earlier start
            self.cluster_id = self._formatted_id()
            return
        cluster = self._quorum or self._first
        self.cluster_id = new_cluster_id() if cluster is None else cluster.cluster_id
        tool = [*QUICK_START, "kafka.tools.StorageTool", "format"]
        tool += [f"--cluster-id={self.cluster_id}", f"--config={self.log_path.with_name('server.properties')}"]
        for feature, level in self._features.items():
            tool += ["--feature", f"{feature}={level}"]
        with self.log_path.open("ab") as log:
            done = subprocess.run([*java_command, *tool], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode != 0:
            raise self._failed("the storage could not be formatted")

    def _spawn(self, java_command: list[str], main_class: str, file: str) -> GuardedProcess:
        assert self._home is not None  # set by _start_once
        options = [self._heap, *shlex.split(os.environ.get("KAFKA_OPTS", ""))]
        command = [*java_command, *options, main_class, str(self._home / file)]
        return GuardedProcess(command, self.log_path, self._home)

    def _await_ready(self) -> None:
        assert self._broker is not None  # set by _start_once
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._is_ready():
            if time.monotonic() > deadline:
                raise self._failed(f"the broker did not respond within {START_DEADLINE_S:.0f} s")
            try:
                code = self._broker.wait(timeout_s=0.1)
            except subprocess.TimeoutExpired:
                continue
            if "Address already in use" in self._log_text(self._log_begin):
                raise self._failed("a port is taken")
            raise self._failed(f"the broker ended with exit code {code}")

    def _is_ready(self) -> bool:
        """Return whether the broker at `port` belongs to this cluster and reports this node as active.

        The cluster is checked because it is possible that a broker of another cluster has taken the port.
        """
        try:
            socket.create_connection((HOST, self.port), timeout=1).close()
        except OSError:
            return False
        try:
            cluster = describe_cluster(self.admin_client())
        except KafkaError:
            self._close_admin()
            return False
        if self._has_zookeeper and self._meta_properties().exists():
            self.cluster_id = self._formatted_id()  # chosen by the cluster's first broker, and stored by each
        active = {broker["broker_id"] for broker in cluster["brokers"] if not broker.get("is_fenced")}
        return cluster["cluster_id"] == self.cluster_id and self.node_id in active

    def _formatted_id(self) -> str:
        meta = self._meta_properties().read_text(encoding="utf-8")
        return next(line.partition("=")[2] for line in meta.splitlines() if line.startswith("cluster.id="))

    def _meta_properties(self) -> Path:
        return self._data() / "meta.properties"

    # -- stop

    def _end_processes(self) -> None:
        self._close_admin()
        for process in (self._broker, self._zookeeper):
            if process is not None:
                process.end()
        self._broker = self._zookeeper = None

    def _remove_files(self, keep_log: bool) -> None:
        assert self._home is not None  # set by _start_once
        self._has_files = False
        if not keep_log:
            shutil.rmtree(self._home, ignore_errors=True)
        else:
            for data in (path for path in self._home.iterdir() if path.is_dir()):
                shutil.rmtree(data, ignore_errors=True)
            print(f"embedded Kafka: the broker's log is kept in {self.log_path}", file=sys.stderr)

    # -- client and log

    def _close_admin(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _log_text(self, since: int = 0) -> str:
        return self.log_path.read_bytes()[since:].decode(errors="replace")

    def _failed(self, what: str) -> EmbeddedKafkaError:
        tail = "\n".join(self._log_text().splitlines()[-LOG_TAIL_LINES:])
        return EmbeddedKafkaError(f"embedded Kafka: {what}; the end of {self.log_path}:\n{tail}")


def new_cluster_id() -> str:
    """Return a random cluster id. All nodes of a cluster must be formatted with the same id."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _interrupt(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _serve(kafka: EmbeddedKafka, topics: Sequence[str]) -> None:
    for topic in topics:
        name, _, partitions = topic.partition(":")
        kafka.create_topic(name, int(partitions or 1))
    with contextlib.suppress(KeyboardInterrupt):
        print(f"Kafka is ready on {kafka.bootstrap_servers}. Ctrl-C stops it. Its log is {kafka.log_path}", flush=True)
        kafka.wait()


def run_broker(port: int, data_dir: Path | None, topics: Sequence[str]) -> int:
    """Start a broker, create topics, print the broker's address, and run until Ctrl-C or SIGTERM.

    Each entry of `topics` is "name" or "name:partitions". Return the exit code for the command.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with EmbeddedKafka(port=port, data_dir=data_dir) as kafka:
            _serve(kafka, topics)
    except (EmbeddedKafkaError, JarsError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # interrupted during the start
    return 0

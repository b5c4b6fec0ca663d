"""The dev broker on real processes: started, killed, paused, left behind, started again."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from onceward.errors import DevBrokerError
from onceward.jars import broker_jars, java_command
from onceward.servers.broker import DevBroker
from onceward.servers.broker.layout import FREE_PORTS, Detour, Layout, taken
from onceward.servers.broker.probe import ask_metadata
from onceward.servers.broker.process import BrokerProcess, Watchdog, start_time

OWNER = """
import sys
from onceward.servers.broker import DevBroker
with DevBroker(sys.argv[1], port=0) as broker:
    print(broker.pid(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBroker]:
    """A broker of this file's own, because its tests kill and stop it."""
    with DevBroker(tmp_path_factory.mktemp("cluster"), port=0) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: DevBroker) -> Iterator[DevBroker]:
    """It runs again after each test, whatever that did to it."""
    yield shared
    if shared.state() == "paused":
        shared.resume()
    shared.start()


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


def port_of(cluster: DevBroker, node: int = 1) -> int:
    return cluster.layout.ports[node - 1]


def create_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # by name: collected, it would cancel its requests
    admin.create_topics([NewTopic(name, num_partitions=1)])[name].result(30)


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 30_000})
    producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(30) == 0
    assert failed == []


def consume_one(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        return message.value() if message else None
    finally:
        consumer.close()


def test_the_session_broker_serves(broker: DevBroker) -> None:
    answer = ask_metadata(port_of(broker))
    assert answer is not None
    assert answer.cluster_id == broker.layout.cluster_id
    assert answer.nodes == {1}
    assert broker.state() == "ready"


def test_it_speaks_the_repaired_transaction_protocol(broker: DevBroker) -> None:
    """C10."""
    tool = [
        *(str(java_command()), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
        *("-cp", os.pathsep.join(map(str, broker_jars())), "org.apache.kafka.tools.FeatureCommand"),
        *("--bootstrap-server", broker.bootstrap, "describe"),
    ]
    said = subprocess.run(tool, capture_output=True, text=True, check=True, timeout=60).stdout
    transactions = next(line for line in said.splitlines() if "transaction.version" in line)
    assert "FinalizedVersionLevel: 2" in transactions


def test_a_context_manager_leaves_no_process_and_no_listener(tmp_path: Path) -> None:
    with DevBroker(tmp_path, port=0) as broker:
        pid, port = broker.pid(), port_of(broker)
        assert pid is not None
        assert taken(port)
    assert start_time(pid) is None
    assert not taken(port)
    assert broker.state() == "stopped"


def test_after_kill_9_it_comes_back_on_its_data_and_port(cluster: DevBroker) -> None:
    bootstrap = cluster.bootstrap
    create_topic(bootstrap, "survives")
    produce(bootstrap, "survives", b"written before the kill")
    cluster.kill()
    assert cluster.state() == "stopped"
    cluster.restart()
    assert cluster.bootstrap == bootstrap
    assert consume_one(bootstrap, "survives") == b"written before the kill"
    assert any(cluster.log_dir().glob("survives-0/*.log"))


def test_a_stopped_cluster_starts_on_the_ports_it_had(cluster: DevBroker) -> None:
    bootstrap = cluster.bootstrap
    cluster.stop()
    assert cluster.stop() is False
    assert cluster.start() is True
    assert cluster.bootstrap == bootstrap
    assert cluster.start() is False


def test_a_paused_broker_keeps_its_port_and_does_not_answer(cluster: DevBroker) -> None:
    cluster.pause()
    eventually(lambda: cluster.state() == "paused", "paused")
    assert taken(port_of(cluster))
    assert ask_metadata(port_of(cluster)) is None
    cluster.resume()
    eventually(lambda: cluster.state() == "ready", "ready again")


def test_it_outlives_the_thread_that_started_it(cluster: DevBroker) -> None:
    thread = threading.Thread(target=cluster.restart)
    thread.start()
    thread.join(60)
    pid = cluster.pid()
    assert ask_metadata(port_of(cluster)) is not None
    assert cluster.pid() == pid


def test_another_port_is_refused_while_it_runs(cluster: DevBroker) -> None:
    with pytest.raises(DevBrokerError, match=f"already runs on port {port_of(cluster)}"):
        DevBroker(cluster.dir, port=FREE_PORTS[-1] + 1).start()


def test_another_number_of_brokers_is_refused_on_existing_data(cluster: DevBroker) -> None:
    with pytest.raises(DevBrokerError, match=r"made with 1 broker\(s\), not 3"):
        DevBroker(cluster.dir, brokers=3).start()


def test_a_running_cluster_of_somebody_else_is_not_adopted(cluster: DevBroker) -> None:
    with pytest.raises(DevBrokerError, match="already runs"), DevBroker(cluster.dir):
        pass
    assert cluster.state() == "ready"


def test_a_start_that_fails_shows_the_log_and_leaves_no_process(cluster: DevBroker) -> None:
    cluster.stop()
    broken = DevBroker(cluster.dir, settings={"num.io.threads": "several"})
    with pytest.raises(DevBrokerError) as failed:
        broken.start()
    assert "num.io.threads" in str(failed.value)
    assert str(broken.log_file()) in str(failed.value)
    assert broken.pid() is None
    cluster.start()


def test_a_format_that_fails_shows_the_log(tmp_path: Path) -> None:
    with (
        pytest.raises(DevBrokerError, match=r"Formatting node 1 failed(.|\n)*num\.io\.threads"),
        DevBroker(tmp_path, port=0, settings={"num.io.threads": "several"}),
    ):
        pass


def test_a_port_that_is_still_being_released_is_waited_for(tmp_path: Path) -> None:
    """A killed broker's last threads hold its port a little longer than the process is to be seen."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        released = threading.Timer(0.5, other.close)
        released.start()
        with DevBroker(tmp_path, port=other.getsockname()[1]) as broker:
            assert broker.state() == "ready"
        released.join()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(DevBrokerError, match=f"Port {port} is taken .*--port"):
            DevBroker(tmp_path, port=port).start()
    assert not (tmp_path / "cluster.json").exists()


def test_a_pid_file_of_the_dead_or_of_a_stranger_is_not_believed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    pid_file = tmp_path / "pid"
    for pid, started in ((ended.pid, "then"), (os.getpid(), "before this process was born")):
        pid_file.write_text(json.dumps({"pid": pid, "started": started}))
        assert BrokerProcess.read(pid_file) is None
    for nonsense in ("", "17", '{"pid": 1}', '["pid"]'):
        pid_file.write_text(nonsense)
        assert BrokerProcess.read(pid_file) is None
    own = BrokerProcess(os.getpid(), start_time(os.getpid()) or "")
    own.write(pid_file)
    assert BrokerProcess.read(pid_file) == own


def test_what_its_starter_has_open_does_not_stay_open_in_it(tmp_path: Path) -> None:
    """A pipe or a lock of the script that calls `onceward kafka start` would be held for as long as the broker runs."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    process = BrokerProcess.spawn(["/bin/sleep", "600"], log=tmp_path / "log")
    watchdog = Watchdog(process)
    try:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert select.select([pipe], [], [], 20)[0], "somebody else has it open"
            assert pipe.read() == b""
        assert os.getsid(process.pid) == process.pid  # a terminal that closes does not end it
    finally:
        watchdog.dismiss()
        process.send(signal.SIGKILL)
        eventually(lambda: not process.alive(), "it has ended")


def test_a_recycled_pid_is_neither_taken_for_the_broker_nor_killed(cluster: DevBroker) -> None:
    cluster.kill()
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        pid_file = cluster.log_dir().parent / "pid"
        pid_file.write_text(json.dumps({"pid": stranger.pid, "started": "long ago"}))
        assert cluster.stop() is False
        assert stranger.poll() is None
        assert cluster.start() is True
    finally:
        stranger.kill()
        stranger.wait()


def test_an_unreadable_cluster_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"format": 99}')
    with pytest.raises(DevBrokerError, match=r"cluster\.json cannot be read"):
        DevBroker(tmp_path).start()


def test_a_folder_from_before_detours_is_read_and_written_as_it_was(tmp_path: Path) -> None:
    old = {"format": 1, "cluster_id": "x", "ports": [20_001], "controller_ports": [20_002]}
    (tmp_path / "cluster.json").write_text(json.dumps(old))
    found = Layout.read(tmp_path)
    assert found is not None
    found.write(tmp_path)
    assert json.loads((tmp_path / "cluster.json").read_text()) == old
    detoured = found.on(20_001, (Detour(listener=20_003, proxy=40_000),))
    detoured.write(tmp_path)
    assert Layout.read(tmp_path) == detoured


def test_a_detour_that_is_missing_for_a_broker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DevBrokerError, match=r"3 broker\(s\) need a detour each"):
        DevBroker(tmp_path, port=0, brokers=3, detours=[Detour(20_003, 40_000)]).start()


@pytest.mark.parametrize("options", [{"brokers": 2}, {"port": 70_000}, {"port": -1}])
def test_impossible_options_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(DevBrokerError, match="--"):
        DevBroker(tmp_path, **options)


def test_brokers_do_not_outlive_an_owner_killed_with_9(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert start_time(pid) is not None
        owner.send_signal(signal.SIGKILL)
        owner.wait(10)
        eventually(lambda: start_time(pid) is None, "the broker ended with its owner")


@pytest.mark.slow
def test_three_brokers_survive_the_loss_of_one(tmp_path: Path) -> None:
    with DevBroker(tmp_path, port=0, brokers=3) as cluster:
        bootstrap = cluster.bootstrap
        assert bootstrap.count(":") == 3
        create_topic(bootstrap, "replicated")
        cluster.kill(node=2)
        assert [cluster.state(node) for node in (1, 2, 3)] == ["ready", "stopped", "ready"]
        produce(bootstrap, "replicated", b"written to two of three")
        cluster.restart(node=2)
        assert cluster.bootstrap == bootstrap
        cluster.kill(node=1)
        assert consume_one(bootstrap, "replicated") == b"written to two of three"

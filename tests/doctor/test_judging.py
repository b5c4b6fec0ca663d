"""What the words of a cluster, a database, a session and a disk mean for the guarantee (I5). No servers."""

from dataclasses import replace
from pathlib import Path

import pytest

from onceward.doctor import cluster, database, homes, machine, spark_settings
from onceward.doctor.durations import in_words, seconds
from onceward.doctor.finding import Finding, Level
from onceward.errors import ConfigurationError
from onceward.kafka.cluster_facts import DESCRIBE, READ, WRITE, ClusterFacts, TopicFacts
from onceward.sinks.postgres import PostgresSink

DAY = 86_400.0
TOPIC = TopicFacts(
    name="t", partitions=4, replicas=3, in_sync=3, leaderless=0, allowed=frozenset({READ, WRITE, DESCRIBE}),
    settings={"min.insync.replicas": "2", "retention.ms": "604800000", "retention.bytes": "-1"},
)  # fmt: skip
BROKERS = {
    "offsets.retention.minutes": "10080",
    "transactional.id.expiration.ms": "604800000",
    "transaction.max.timeout.ms": "900000",
    "unclean.leader.election.enable": "false",
}
INTERNAL = {name: replace(TOPIC, name=name) for name in cluster.INTERNAL}
CLUSTER = ClusterFacts(brokers=3, transaction_version=2, settings=BROKERS, topics={"t": TOPIC, **INTERNAL})


def levels(found: list[Finding]) -> set[Level]:
    return {finding.level for finding in found}


def said(found: list[Finding], level: Level) -> str:
    assert all(finding.fix for finding in found if finding.level is not Level.OK)
    return "\n".join(finding.says for finding in found if finding.level is level)


class TestCluster:
    def test_one_that_keeps_everything_has_nothing_to_be_told(self) -> None:
        assert levels(cluster.judge_brokers(CLUSTER, "h:1", 3 * DAY, 60_000)) == {Level.OK}
        assert levels(cluster.judge_source(CLUSTER, "t", 3 * DAY)) == {Level.OK}
        assert levels(cluster.judge_target(CLUSTER, "t")) == {Level.OK}

    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({"offsets.retention.minutes": "60"}, "the pipeline's marker"),
            ({"transactional.id.expiration.ms": "1000"}, "transactional id"),
            ({"transaction.max.timeout.ms": "30000"}, "is over transaction.max.timeout.ms=30000"),
            ({"unclean.leader.election.enable": "true"}, "may become leader and lose records"),
        ],
    )
    def test_settings_that_forget_or_lose_are_risks(self, settings: dict[str, str], told: str) -> None:
        facts = replace(CLUSTER, settings=BROKERS | settings)
        assert told in said(cluster.judge_brokers(facts, "h:1", 3 * DAY, 60_000), Level.RISK)

    def test_the_old_transaction_protocol_is_a_risk(self) -> None:
        facts = replace(CLUSTER, transaction_version=1)
        assert "transaction.version 1" in said(cluster.judge_brokers(facts, "h:1", DAY), Level.RISK)

    def test_settings_that_may_not_be_seen_are_noted(self) -> None:
        found = cluster.judge_brokers(replace(CLUSTER, settings={}), "h:1", DAY)
        assert "may not be looked at" in said(found, Level.NOTE)

    def test_a_coordinator_whose_log_has_one_replica_is_a_risk(self) -> None:
        topics = {**CLUSTER.topics, "__transaction_state": replace(TOPIC, replicas=1)}
        assert "one replica" in said(cluster.judge_brokers(replace(CLUSTER, topics=topics), "h:1", DAY), Level.RISK)

    def test_one_broker_is_noted_once_and_not_for_every_topic(self) -> None:
        alone = replace(TOPIC, replicas=1, in_sync=1, settings={**TOPIC.settings, "min.insync.replicas": "1"})
        facts = replace(CLUSTER, brokers=1, topics={"t": alone})
        assert said(cluster.judge_brokers(facts, "h:1", DAY), Level.NOTE).count("\n") == 0
        assert levels(cluster.judge_target(facts, "t")) == {Level.OK}


class TestTopics:
    @pytest.mark.parametrize(
        ("changed", "level", "told"),
        [
            ({"replicas": 1, "in_sync": 1}, Level.RISK, "one replica, although there are 3 brokers"),
            ({"in_sync": 2}, Level.NOTE, "2 of 3 replicas are in sync"),
            ({"leaderless": 1}, Level.RISK, "1 of 4 partitions have no leader"),
            ({"allowed": frozenset({DESCRIBE})}, Level.RISK, "we may not READ"),
            ({"settings": {"min.insync.replicas": "1"}}, Level.RISK, "what only one replica has counts as written"),
            ({"settings": {"min.insync.replicas": "3"}}, Level.NOTE, "no broker may be away"),
            (
                {"settings": {**TOPIC.settings, "retention.ms": "3600000"}},
                Level.RISK,
                "events are kept for 1 h (retention.ms), the pipeline may be down for 3 d",
            ),
            ({"settings": {**TOPIC.settings, "retention.bytes": "1000"}}, Level.NOTE, "deleted by size"),
            ({"settings": {**TOPIC.settings, "cleanup.policy": "compact"}}, Level.NOTE, "only the last may be left"),
        ],
    )
    def test_a_source_that_may_lose_events_is_told(self, changed: dict[str, object], level: Level, told: str) -> None:
        topic = replace(TOPIC, **changed)  # type: ignore[arg-type]
        facts = replace(CLUSTER, topics={"t": topic})
        assert told in said(cluster.judge_source(facts, "t", 3 * DAY), level)

    def test_a_topic_that_is_missing_or_hidden_is_a_risk(self) -> None:
        assert "does not exist" in said(cluster.judge_target(CLUSTER, "other"), Level.RISK)
        hidden = replace(CLUSTER, topics={"t": None})
        assert "may not look at it" in said(cluster.judge_source(hidden, "t", DAY), Level.RISK)

    def test_an_output_topic_may_not_elect_uncleanly_nor_forbid_writing(self) -> None:
        settings = {**TOPIC.settings, "unclean.leader.election.enable": "true"}
        topic = replace(TOPIC, settings=settings, allowed=frozenset({READ, DESCRIBE}))
        told = said(cluster.judge_target(replace(CLUSTER, topics={"t": topic}), "t"), Level.RISK)
        assert "committed records may be lost" in told
        assert "we may not WRITE" in told

    def test_rights_that_the_brokers_do_not_tell_are_not_guessed(self) -> None:
        facts = replace(CLUSTER, topics={"t": replace(TOPIC, allowed=None)})
        assert levels(cluster.judge_target(facts, "t")) == {Level.OK}


class TestDatabase:
    FACTS = database.DatabaseFacts(
        release=16, standby=False, fsync=True, full_page_writes=True, synchronous_commit="on",
        insert=True, select=True, update=True, schema=True,
    )  # fmt: skip
    SINK = PostgresSink("dbname=shop password=hidden", table="orders", mode="upsert", key=("id",))

    def judged(self, **changed: object) -> list[Finding]:
        facts = replace(self.FACTS, **changed)  # type: ignore[arg-type]
        return list(database.judge("sink postgres", facts, self.SINK))

    def test_a_server_that_keeps_its_word_is_fine_and_no_password_is_told(self) -> None:
        found = self.judged()
        assert levels(found) == {Level.OK}
        assert "hidden" not in repr(found)

    @pytest.mark.parametrize(
        ("changed", "told"),
        [
            ({"release": 12}, "PostgreSQL 12"),
            ({"standby": True}, "a standby"),
            ({"fsync": False}, "may lose or tear committed rows"),
            ({"insert": None, "select": None, "update": None}, "there is no table"),
            ({"update": False}, "we may not UPDATE"),
            ({"schema": False}, "neither use nor make the schema 'onceward'"),
        ],
    )
    def test_what_endangers_rows_is_a_risk(self, changed: dict[str, object], told: str) -> None:
        assert told in said(self.judged(**changed), Level.RISK)

    def test_asynchronous_commits_of_the_user_are_noted(self) -> None:
        assert "Onceward's own transactions switch it on" in said(self.judged(synchronous_commit="off"), Level.NOTE)


class TestSpark:
    GOOD = {"spark.master": "local[2]", "spark.stage.maxConsecutiveAttempts": "1"}  # noqa: RUF012

    def judged(self, **settings: str) -> list[Finding]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return list(spark_settings.judge(self.GOOD | named, "PySpark 4.2.0"))

    def test_our_own_settings_are_fine(self) -> None:
        assert levels(self.judged()) == {Level.OK}

    def test_what_endangers_the_guarantee_is_a_risk(self) -> None:
        assert "speculation" in said(self.judged(spark_speculation="true"), Level.RISK)
        assert "snapshot" in said(self.judged(spark_hadoop_fs_file_impl="X"), Level.RISK)
        assert "authenticate" in said(self.judged(spark_master="spark://h:7077"), Level.RISK)

    def test_a_cluster_without_encryption_is_noted(self) -> None:
        found = self.judged(spark_master="yarn", spark_authenticate="true")
        assert "not encrypted" in said(found, Level.NOTE)
        assert levels(self.judged(
            spark_master="yarn", spark_authenticate="true", spark_network_crypto_enabled="true"
        )) == {Level.OK}  # fmt: skip

    def test_stages_that_may_be_repeated_are_noted(self) -> None:
        assert "redone" in said(self.judged(spark_stage_maxConsecutiveAttempts="4"), Level.NOTE)


class TestPlaces:
    def test_a_full_disk_is_a_risk_and_a_nearly_full_one_is_noted(self) -> None:
        assert machine.room(Path("/d"), 1 << 20).level is Level.RISK
        assert machine.room(Path("/d"), 1 << 30).level is Level.NOTE
        assert machine.room(Path("/d"), 1 << 40).level is Level.OK

    def test_a_disk_is_named_once(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        found = [it.about for it in machine.disks([tmp_path / "a", tmp_path / "a" / "not" / "there", tmp_path])]
        assert len(found) == len(set(found)) <= 2

    def test_a_home_that_is_not_there_yet_is_fine(self, tmp_path: Path) -> None:
        (found,) = homes.examine(str(tmp_path / "home"))
        assert (found.level, "first start makes it" in found.says) == (Level.OK, True)

    def test_a_file_in_the_homes_place_is_a_risk(self, tmp_path: Path) -> None:
        (tmp_path / "home").write_text("")
        (found,) = homes.examine(str(tmp_path / "home"))
        assert found.level is Level.RISK

    def test_a_home_that_others_may_see_is_noted(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir(mode=0o755)
        assert "others may look" in said(list(homes.examine(str(home))), Level.NOTE)

    def test_a_damaged_home_is_a_risk(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir(mode=0o700)
        (home / "pipeline.json").write_text("{")
        assert "pipeline.json" in said(list(homes.examine(str(home))), Level.RISK)

    def test_homes_that_are_no_directory_of_this_machine_are_noted(self) -> None:
        assert levels(list(homes.examine("memory:"))) == {Level.NOTE}
        assert levels(list(homes.examine("hdfs://n/home"))) == {Level.NOTE}


def test_durations() -> None:
    assert [seconds(text) for text in ("3d", "12h", "90min", "30s")] == [259_200, 43_200, 5_400, 30]
    assert [in_words(of) for of in (259_200, 43_200, 5_400, 30, 0)] == ["3 d", "12 h", "1.5 h", "30 s", "0 s"]
    with pytest.raises(ConfigurationError, match="3d, 12h"):
        seconds("soon")

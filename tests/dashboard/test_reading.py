"""What the page is told of homes: from their files alone, without writing any, whatever is in them."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dashboard.homes import MadeHome, ago, now
from epoch.test_regular_file import STRANGE
from onceward.dashboard import watch as watching
from onceward.dashboard.home_reader import HomeReader
from onceward.dashboard.model import PipelineDetail, PipelineFacts
from onceward.dashboard.watch import Watch, ids_of
from onceward.epoch import source_topics
from onceward.epoch.checkpoint import NOTES
from onceward.epoch.deeds import Deed, Origin
from onceward.epoch.deeds import Slot as DeedSlot
from onceward.epoch.home import CHECKPOINTS
from onceward.epoch.ledger import SinkEntry
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.sealed import seal
from onceward.epoch.source_topics import SourceTopics
from onceward.snapshot.manifest import Member, Snapshot
from onceward.telemetry.activity import Event, StepActivity
from savepoint.homes import LINEAGE, NOW, saved_home


@pytest.fixture
def made(tmp_path: Path) -> MadeHome:
    return MadeHome(tmp_path / "orders")


def only(*places: Path) -> PipelineFacts:
    (facts,) = Watch(places).overview().pipelines
    return facts


def detail(home: MadeHome) -> PipelineDetail:
    watch = Watch([home.path])
    watched = watch.find(home.path.name)
    assert watched is not None
    return watched.detail(now())


def epochs(home: MadeHome, first: int | None = None, last: int | None = None, limit: int = 300) -> Any:
    watched = Watch([home.path]).find(home.path.name)
    assert watched is not None
    return watched.epochs(now(), first, last, limit)


class TestOverview:
    def test_a_running_pipeline_is_told_with_its_rates_and_what_it_lags_behind(self, made: MadeHome) -> None:
        """I2."""
        made.driven()
        made.epochs(10)
        made.says(state="running", epoch=10, lag={"clicks": 7}, last_error="a try failed")
        facts = only(made.path)
        assert (facts.id, facts.name, facts.state, facts.epoch) == ("orders", "orders", "running", 10)
        assert facts.rows_in_per_s == pytest.approx(15, rel=0.2)
        assert facts.rows_out_per_s == pytest.approx({"files": 5, "kafka": 5}, rel=0.2)
        assert facts.latency_ms.p50 == facts.latency_ms.p95 == 70.0
        assert (facts.lag, facts.last_error, facts.guarantee) == ({"clicks": 7}, "a try failed", "exactly-once")
        assert facts.last_commit_age_s == pytest.approx(1, abs=1)
        assert facts.recent[-1] == (9, 70.0, 15, 1)
        assert [(it.name, it.kind, it.decides, it.place) for it in facts.sinks] == [
            ("files", "files", False, "/data/orders"),
            ("kafka", "kafka", True, "out"),
        ]
        assert (facts.sources, facts.targets, facts.term) == (["clicks"], ["out"], 1)

    @pytest.mark.parametrize("word", ["waiting", "paused", "killed", "stopped", "failed"])
    def test_of_one_that_does_not_run_it_is_not_known_what_has_come_since(self, made: MadeHome, word: str) -> None:
        """I2: the 0 of its last life would say that nothing is unread."""
        made.driven()
        made.epochs(10)
        states = {"waiting": "waiting", "stopped": "stopped", "failed": "failed"}
        made.says(state=states.get(word, "running"), lag={"clicks": 0}, age_s=60 if word == "paused" else 0)
        if word == "paused":
            made.lease(age_s=60)
        if word == "killed":
            made.holder(process_start="another")
        facts = only(made.path)
        assert (facts.state, facts.lag) == (word, {})
        assert {it.lag for it in Watch([made.path]).overview().graph.edges} == {None}

    def test_where_one_that_does_not_run_has_read_up_to_is_told_with_its_topics_ids(self, made: MadeHome) -> None:
        """I2: without the ids its lag would never be measured. The newest driver's note counts."""
        made.epochs(2)
        for term, number in enumerate(("old", "new"), start=1):
            notes = f"{CHECKPOINTS}/{term:06d}/{NOTES}"
            made.storage.replace(f"{notes}/{source_topics.FILE}", seal(SourceTopics(ids=[{"clicks": number}])))
        reader = HomeReader(made.path)
        found = reader.read_up_to(reader.look(now()))
        assert found.positions == {TopicPartition("clicks", 0): 20, TopicPartition("clicks", 1): 10}
        assert found.ids == {"clicks": "new"}

    def test_a_pipeline_that_commits_nothing_any_more_has_no_rate(self, made: MadeHome) -> None:
        made.driven()
        made.epochs(10, last_ago_s=120)
        assert only(made.path).rows_in_per_s == 0

    def test_pipelines_are_joined_by_the_topics_between_them(self, tmp_path: Path) -> None:
        """I2."""
        first, second = MadeHome(tmp_path / "a", "a"), MadeHome(tmp_path / "b", "b")
        for home in (first, second):
            home.driven()
        first.epochs(5)
        second.ledger(second.entry(0, positions=['{"out":{"0":5}}'], finished_at=ago(2)))
        second.says(state="running", lag={"out": 3})
        graph = Watch([tmp_path]).overview().graph
        edges = {(it.source, it.target): it for it in graph.edges}
        assert set(edges) == {
            ("topic:clicks", "pipeline:a"),
            ("pipeline:a", "topic:out"),
            ("pipeline:a", "files:/data/orders"),
            ("topic:out", "pipeline:b"),
            ("pipeline:b", "topic:out"),
            ("pipeline:b", "files:/data/orders"),
        }
        assert edges["pipeline:a", "topic:out"].rows_per_s == pytest.approx(5, rel=0.3)
        assert edges["topic:out", "pipeline:b"].lag == 3
        assert len([it for it in graph.nodes if it.id == "topic:out"]) == 1

    def test_a_home_that_comes_into_a_folder_later_is_shown(self, tmp_path: Path) -> None:
        MadeHome(tmp_path / "orders")
        watch = Watch([tmp_path])
        assert [it.name for it in watch.overview().pipelines] == ["orders"]
        MadeHome(tmp_path / "later", "later")
        watch._shown = None
        assert [it.name for it in watch.overview().pipelines] == ["orders", "later"]

    def test_homes_with_equal_names_have_ids_of_their_own_that_stay(self, tmp_path: Path) -> None:
        paths = [tmp_path / "x" / "Home 1", tmp_path / "y" / "Home 1", tmp_path / "!"]
        ids = ids_of(paths)
        assert len(set(ids.values())) == 3
        assert ids[paths[2]] == "home"
        assert ids_of(reversed(paths)) == ids

    def test_nothing_in_a_home_is_touched_by_looking(self, made: MadeHome) -> None:
        """J5: not even what a start would sync or put right."""
        made.driven()
        made.epochs(3)
        made.decided(3)
        made.says(state="running")
        before = made.files()
        watch = Watch([made.path])
        watched = watch.find("orders")
        assert watched is not None
        moment = now()
        watched.detail(moment)
        watched.epochs(moment, None, None, 10)
        watched.epoch(moment, 2)
        assert made.files() == before


class TestDamage:
    def test_a_damaged_home_is_named_with_its_reason_and_the_others_are_shown(self, tmp_path: Path) -> None:
        """I2, J6."""
        bad, good = MadeHome(tmp_path / "bad", "bad"), MadeHome(tmp_path / "good", "good")
        for home in (bad, good):
            home.driven()
            home.epochs(3)
        entry = bad.path / "ledger/000000000002-000001.json"
        entry.write_bytes(entry.read_bytes().replace(b"done", b"DONE"))
        found = {it.name: it for it in Watch([tmp_path]).overview().pipelines}
        assert found["bad"].state == "damaged"
        assert "000000000002-000001.json is damaged" in found["bad"].reason
        assert found["good"].state == "running"

    def test_damage_that_comes_while_a_home_is_watched_is_seen(self, made: MadeHome) -> None:
        made.driven()
        made.epochs(3)
        watch = Watch([made.path])
        assert watch.overview().pipelines[0].state == "running"
        (made.path / "ledger/000000000001-000001.json").write_bytes(b"{}")
        watch._shown = None
        assert watch.overview().pipelines[0].state == "damaged"

    def test_a_home_that_disappears_is_gone_and_still_known(self, made: MadeHome) -> None:
        made.driven()
        made.epochs(3)
        watch = Watch([made.path])
        watch.overview()
        shutil.rmtree(made.path)
        watch._shown = None
        (facts,) = watch.overview().pipelines
        assert (facts.state, facts.name, facts.epoch) == ("gone", "orders", 2)
        assert "there is no directory" in facts.reason
        assert detail(made).state == "gone"

    @pytest.mark.parametrize("deed", [b"", b"\x00" * 100, b"[" * 100_000, b'{"format": 99}\n'])
    def test_a_deed_that_is_no_deed_is_told(self, made: MadeHome, deed: bytes) -> None:
        (made.path / "pipeline.json").write_bytes(deed)
        facts = only(made.path)
        assert facts.state == "damaged"
        assert "pipeline.json" in facts.reason

    def test_a_forged_entry_that_passes_its_checksum_hides_no_other_home(self, tmp_path: Path) -> None:
        bad = MadeHome(tmp_path / "bad", "bad")
        MadeHome(tmp_path / "good", "good")
        forged = SinkEntry(kind="x:KafkaSink", settings={"topic": ["not", "a", "name"]}, rows=-1, digest="nonsense")
        bad.ledger(bad.entry(0, sinks={"<script>": forged}, finished_at="yesterday", positions=["{]"]))
        found = {it.name: it.state for it in Watch([tmp_path]).overview().pipelines}
        assert found["good"] == "stopped"
        assert set(found) == {"bad", "good"}

    def test_activity_that_is_torn_or_of_a_later_release_is_not_missed(self, made: MadeHome) -> None:
        made.driven()
        made.says(state="running", lag={"clicks": 7})
        file = made.path / "activity/000001.json"
        whole = json.loads(file.read_bytes())
        for content in (b"", b"{", json.dumps({**whole, "format": 99}).encode(), b'{"term": "x"}'):
            file.write_bytes(content)
            assert (only(made.path).state, only(made.path).lag) == ("running", {})

    def test_a_directory_that_is_no_home_says_so(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        facts = only(tmp_path / "empty")
        assert (facts.state, facts.name) == ("damaged", "empty")
        assert "not the home of a pipeline" in facts.reason


class TestEpochs:
    def test_the_layers_of_an_epoch_add_up_to_its_time(self, made: MadeHome) -> None:
        """I2."""
        made.epochs(3)
        found = epochs(made)
        assert (found.epoch, found.rows_in, found.rows_out["kafka"]) == ([0, 1, 2], [15] * 3, [5] * 3)
        for number in range(3):
            assert sum(phase.ms[number] for phase in found.phases) == pytest.approx(70.0)
        layers = {(phase.name, phase.sink): phase.ms[0] for phase in found.phases}
        assert layers["compute", "kafka"] == 10
        assert layers["write", "kafka"] == 20
        assert layers["other", None] == 7

    def test_a_sink_that_joined_later_has_nothing_in_older_epochs(self, made: MadeHome) -> None:
        made.ledger(made.entry(0, sinks={"files": made.entry(0).sinks["files"]}), made.entry(1))
        assert epochs(made).rows_out == {"files": [5, 5], "kafka": [0, 5]}

    def test_the_newest_of_a_range_are_given(self, made: MadeHome) -> None:
        made.epochs(10)
        assert epochs(made, limit=3).epoch == [7, 8, 9]
        assert epochs(made, first=2, last=5).epoch == [2, 3, 4, 5]
        assert epochs(made, last=5, limit=2).epoch == [4, 5]

    def test_what_an_overtaken_driver_wrote_afterwards_does_not_count(self, made: MadeHome) -> None:
        """C6."""
        made.ledger(made.entry(0), made.entry(1, attempts=2, term=1), made.entry(1, term=2), made.entry(2, term=1))
        made.driven(2, after_epoch=0)
        found = epochs(made)
        assert list(zip(found.epoch, found.term, strict=True)) == [(0, 1), (1, 2)]

    def test_an_entry_that_is_completed_later_is_read_again(self, made: MadeHome) -> None:
        made.prepared(0)
        watch = Watch([made.path])
        assert watch.overview().pipelines[0].recent == []
        made.ledger(made.entry(0))
        watch._shown = None
        assert [it[0] for it in watch.overview().pipelines[0].recent] == [0]

    def test_memory_is_bounded_however_many_epochs_somebody_looks_at(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watching, "SUMMARIES", 300)
        homes = [MadeHome(tmp_path / name, name) for name in ("a", "b")]
        for home in homes:
            home.epochs(200)
        watch = Watch([tmp_path])
        moment = now()
        for name in ("a", "b"):
            watched = watch.find(name)
            assert watched is not None
            assert len(watched.epochs(moment, None, None, 2000).epoch) == 200
        watch._shown = None
        watch.overview()
        assert sum(it.kept for it in watch._watched.values()) <= 300
        assert watch._watched[homes[1].path].kept == 200  # who was looked at last is kept

    def test_an_epoch_is_told_with_ranges_digests_votes_tries_and_who_decided(self, made: MadeHome) -> None:
        """I2."""
        made.driven()
        made.ledger(made.entry(0), made.entry(1, attempts=2, skipped=["clicks/0/12"]))
        made.tells(
            Event(
                at=ago(5), kind="aborted", epoch=1, attempt=1, cause="SinkUnreachable", reason="gone password=geheim"
            ),
            Event(at=ago(4), kind="aborted", epoch=7, attempt=1, cause="Other"),
        )
        watched = Watch([made.path]).find("orders")
        assert watched is not None
        found = watched.epoch(now(), 1)
        assert found is not None
        assert [(it.topic, it.partition, it.begins, it.ends) for it in found.positions] == [
            ("clicks", 0, 10, 20),
            ("clicks", 1, 5, 10),
        ]
        assert (found.decider, found.decided_by, found.attempts) == ("kafka", "sink 'kafka'", 2)
        assert [(it.attempt, it.cause, it.reason) for it in found.aborted] == [
            (1, "SinkUnreachable", "gone password=***")
        ]
        kafka = found.sinks[1]
        assert (kafka.voted, kafka.digest, [it.rows for it in kafka.partitions]) == (True, "fe", [2, 3])
        assert found.skipped == ["clicks/0/12"]
        assert watched.epoch(now(), 99) is None

    def test_an_epoch_that_the_ledger_decided_and_nobody_completed_is_told(self, made: MadeHome) -> None:
        made.decided(0)
        watched = Watch([made.path]).find("orders")
        assert watched is not None
        found = watched.epoch(now(), 0)
        assert found is not None
        assert (found.phase, found.decided_by) == ("decided", "the ledger")


class TestPipeline:
    def test_each_start_is_told_with_how_it_ended(self, made: MadeHome) -> None:
        """I2."""
        for term, after in ((1, -1), (2, 0), (3, 1), (4, 2)):
            made.driven(term, after, **({"process_start": "another"} if term == 3 else {}))
        made.lease(1, released=True, age_s=40)
        made.says(2, state="fenced", ended_at=ago(30))
        made.says(3, state="running", age_s=20)
        made.says(4, state="running")
        found = detail(made).starts
        assert [(it.term, it.boundary, it.how) for it in found] == [
            (1, -1, "stopped"),
            (2, 0, "fenced"),
            (3, 1, "killed"),
            (4, 2, "running"),
        ]
        assert found[3].ended_at is None

    def test_take_overs_aborted_tries_pauses_kills_and_skips_are_marked(self, made: MadeHome) -> None:
        made.driven(1, -1, process_start="another")
        made.lease(1, age_s=30)
        made.driven(2, 0)
        made.start(2, 0, "epoch 1 was committed in files")
        made.ledger(made.entry(0), made.entry(1, term=2, skipped=["clicks/0/3"]))
        made.tells(
            Event(at=ago(20), kind="started"),
            Event(at=ago(10), kind="aborted", epoch=1, attempt=2, cause="X", reason="no answer"),
            Event(at=ago(9), kind="paused", reason="the driver stood still for 8 s"),
            Event(at=ago(8), kind="failed", cause="Y", reason="out of disk"),
            term=2,
        )
        marks = {it.kind: it for it in detail(made).marks}
        assert set(marks) == {"takeover", "aborted", "paused", "failed", "killed", "skipped"}
        assert marks["takeover"].text.endswith("(epoch 1 was committed in files)")
        assert (marks["aborted"].epoch, marks["aborted"].text) == (1, "try 2: no answer")

    @pytest.mark.parametrize(("savepoint", "kind"), [("5f3a" * 8, "restored"), ("", "reset")])
    def test_a_lineage_that_began_with_a_savepoint_or_a_reset_is_marked(
        self, made: MadeHome, savepoint: str, kind: str
    ) -> None:
        made.driven(2, 4)
        origin = Origin(savepoint=savepoint, pipeline="orders", lineage="L", epoch=4, begins_after=4, first_term=2)
        deed = Deed(
            pipeline="orders", lineage="M", guarantee="exactly-once", folder="lineages/M", origin=origin, format=2
        )
        made.storage.replace("terms/000002.lineage", seal(DeedSlot(term=2, deed=deed)))
        made.storage.replace("lineages/M/ledger/000000000005-000002.json", seal(made.entry(5, lineage="M", term=2)))
        found = detail(made)
        assert [it.kind for it in found.marks] == ["takeover", kind]
        assert (found.lineage, found.epoch, found.epochs.count) == ("M", 5, 1)

    @pytest.mark.parametrize(
        ("steps", "phase", "states"),
        [
            ([], "planning", ["idle", "idle"]),
            (["files begin", "kafka begin"], "voting", ["begun", "begun"]),
            (["files begin", "kafka begin", "files write ..."], "voting", ["writing", "begun"]),
            (["files write", "kafka write", "files pre_commit"], "voting", ["voted", "written"]),
            (["files pre_commit", "kafka pre_commit", "kafka decide ..."], "deciding", ["voted", "committing"]),
            (["files pre_commit", "kafka decide", "files commit ..."], "committing", ["committing", "committed"]),
            (["kafka decide", "files commit"], "committing", ["committed", "committed"]),
        ],
    )
    def test_the_two_phase_commit_is_told_as_it_happens(
        self, made: MadeHome, steps: list[str], phase: str, states: list[str]
    ) -> None:
        """I2, B3."""
        made.driven()
        said = []
        for step in steps:
            sink, name, *under_way = step.split()
            said.append(StepActivity(sink=sink, name=name, began_at=ago(2), ended_at=None if under_way else ago(1)))
        made.says(state="running", epoch=3, attempt=2, began_at=ago(3), steps=said)
        current = detail(made).current
        assert current is not None
        assert (current.epoch, current.attempt, current.phase) == (3, 2, phase)
        assert [it.state for it in current.sinks] == states

    @pytest.mark.parametrize(
        ("decided", "will"),
        [(True, "commit it in files, kafka"), (False, "fence, ask sink 'kafka', then commit it in files, or abort")],
    )
    def test_an_epoch_in_doubt_is_told_with_what_the_next_start_will_do(
        self, made: MadeHome, decided: bool, will: str
    ) -> None:
        """B10."""
        made.driven(process_start="another")
        made.ledger(made.entry(0))
        if decided:
            made.decided(1)
        else:
            made.prepared(1)
        found = detail(made)
        (doubt,) = found.in_doubt_epochs
        assert (found.state, found.in_doubt, doubt.epoch) == ("in doubt", 1, 1)
        assert doubt.votes == {"files": True, "kafka": True}
        assert doubt.next_start.startswith(will)

    def test_savepoints_and_snapshots_are_told_where_they_are(self, tmp_path: Path) -> None:
        """I2: also those that cannot be used."""
        saved = saved_home(tmp_path / "home")
        saved.save(name="good")
        (tmp_path / "home/savepoints/torn").mkdir()
        member = Member(pipeline="p", home="", lineage=LINEAGE, epoch=9, savepoint="s", sha256="0" * 64)
        (tmp_path / "snapshot-1").mkdir()
        snapshot = Snapshot(id="1" * 32, created_at=NOW, members=[member], channels=[])
        (tmp_path / "snapshot-1/snapshot.json").write_bytes(seal(snapshot))
        (tmp_path / "snapshot-2").mkdir()
        (tmp_path / "snapshot-2/snapshot.json").write_bytes(b"torn")
        watched = Watch([tmp_path / "home"]).find("home")
        assert watched is not None
        found = watched.detail(now())
        assert [(it.name, it.epoch, it.at) for it in found.savepoints] == [("good", 9, NOW), ("torn", None, None)]
        assert found.savepoints[1].problem
        assert found.savepoints[0].bytes
        assert [(it.name, it.epoch, it.pipelines) for it in found.snapshots] == [("snapshot-1", 9, ["p"])]

    def test_how_large_the_state_is_and_which_epochs_there_are_is_told(self, made: MadeHome) -> None:
        made.driven()
        made.epochs(4)
        made.says(state="running", state_rows=12, state_bytes=3400)
        found = detail(made)
        assert (found.state_rows, found.state_bytes) == (12, 3400)
        assert (found.epochs.first, found.epochs.last, found.epochs.count) == (0, 3, 4)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("strange", STRANGE)
def test_nothing_that_is_put_into_a_home_stops_the_page(tmp_path: Path, strange: Callable[[Path], None]) -> None:
    """J5: a pipe would be waited at for ever, and a device has no end; the other homes are shown as before."""
    good, bad = MadeHome(tmp_path / "good"), tmp_path / "bad"
    good.driven()
    good.epochs(3)
    good.says(state="running")
    (good.path / "savepoints" / "one").mkdir(parents=True)
    (good.path / "savepoints" / "one" / "savepoint.json").write_bytes(b"{}")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "snapshot.json").write_bytes(b"{}")
    files = [it.relative_to(good.path) for it in good.path.rglob("*") if it.is_file()]
    assert len(files) > 6
    for name in files:
        shutil.copytree(good.path, bad)
        (bad / name).unlink()
        strange(bad / name)
        watch = Watch([good.path, bad])
        states = {it.name: it.state for it in watch.overview().pipelines if it.home == str(good.path)}
        assert states == {"orders": "running"}
        for watched in filter(None, map(watch.find, ("good", "bad"))):
            watched.detail(now())
            watched.epochs(now(), None, None, 10)
            with suppress(OSError):  # the server tells it
                watched.epoch(now(), 2)
        shutil.rmtree(bad)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("name", ["pipeline.json", "ledger/000000000002-000001.json", "terms/000001.json"])
def test_what_is_no_file_is_named_in_the_home_that_has_it(
    made: MadeHome, name: str, strange: Callable[[Path], None]
) -> None:
    """J5: whether it was there at the first look or came later."""
    made.driven()
    made.epochs(3)
    watch = Watch([made.path])
    assert [it.state for it in watch.overview().pipelines] == ["running"]
    (made.path / name).unlink()
    strange(made.path / name)
    watch._shown = None
    for facts in (*watch.overview().pipelines, only(made.path)):
        assert facts.state == "damaged"
        assert f"{name.rpartition('/')[2]}'" in facts.reason
        assert "is a link, a pipe or a device, and no file" in facts.reason


@pytest.mark.timeout(60)
@pytest.mark.parametrize("strange", STRANGE)
def test_nothing_in_the_place_of_a_folder_stops_the_page(made: MadeHome, strange: Callable[[Path], None]) -> None:
    """J5: a link to a folder may be one; anything else is no folder."""
    made.driven()
    made.epochs(3)
    made.says(state="running")
    folders = [it for it in made.path.iterdir() if it.is_dir()]
    assert len(folders) > 2
    for folder in folders:
        folder.rename(made.path.parent / "aside")
        strange(folder)
        assert only(made.path).name == "orders"
        detail(made)
        folder.unlink()
        (made.path.parent / "aside").rename(folder)


def test_no_secret_of_a_home_reaches_the_page(made: MadeHome) -> None:
    """J4: neither by the settings of somebody else's sink, nor by an error's text."""
    made.driven()
    theirs = SinkEntry(
        kind="theirs:Sink",
        settings={"table": "postgresql://me:geheim@db/x", "api_key": "geheim"},
        committable={"dsn": "host=db password=geheim", "token": "geheim", "nested": [{"secret": "geheim"}]},
    )
    made.ledger(made.entry(0, sinks={"theirs": theirs}))
    made.says(state="waiting", waits_for="db: password=geheim", last_error="sasl.password: geheim")
    made.tells(Event(at=ago(1), kind="aborted", epoch=0, attempt=1, cause="X", reason="http://u:geheim@h/ refused"))
    watch = Watch([made.path])
    watched = watch.find("orders")
    assert watched is not None
    moment = now()
    answers = [
        watch.overview(),
        watched.detail(moment),
        watched.epochs(moment, None, None, 10),
        watched.epoch(moment, 0),
    ]
    assert b"geheim" not in msgspec.json.encode(answers)
    assert b"***" in msgspec.json.encode(answers)

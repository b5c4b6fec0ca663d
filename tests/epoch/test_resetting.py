# ruff: noqa: ARG002 - what a lineage begins with takes what the protocol says
"""A reset ends a lineage and begins another: at once, or not at all, and nobody of the old one adds anything."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from epoch.memory import Meanwhile
from epoch.started import ListSink, Pipeline, Place
from onceward import crashpoints
from onceward.epoch import deeds, source_topics
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.contract import EpochContext, Guarantee, LastCommit, Owner, Verdict
from onceward.epoch.expected import DECIDER, Held
from onceward.epoch.home import FIRST
from onceward.epoch.journal import Journal
from onceward.epoch.ledger import Entry
from onceward.epoch.new_lineage import Ending, Found, NewLineage
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.epoch.resetting import Resetting, meaning, parse_offsets
from onceward.epoch.sealed import seal
from onceward.epoch.source_topics import SourceTopics, of_sources
from onceward.errors import (
    CommitUnfinished,
    ForeignLineage,
    HomeMismatch,
    MarkerMissing,
    PipelineFenced,
    ResetRefused,
    SourceReplaced,
)

IN_0, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)


class Crash(BaseException):
    """A process that dies."""


def resetting(pipeline: Pipeline, **more: Any) -> tuple[NewLineage, Resetting]:
    begins = Resetting(**{"pipeline": "p", "sources": [frozenset({"in"})], **more})
    names = replace(pipeline.process, fresh=lambda: f"M{len(pipeline.storage.names('terms'))}")
    reset = NewLineage(start=replace(pipeline.starting, process=names), begins=begins)
    return reset, begins


def reset(pipeline: Pipeline, **more: Any) -> deeds.Deed:
    return pipeline.starting.begin(resetting(pipeline, **more)[0])


def means(pipeline: Pipeline, **more: Any) -> list[str]:
    return meaning(*resetting(pipeline, **more))


def held(deed: deeds.Deed) -> dict[str, tuple[str, int]]:
    assert deed.origin is not None
    return deed.origin.held


def decider(pipeline: Pipeline) -> str:
    """How what the sink `s` holds is recorded."""
    return DECIDER if pipeline.decides else "s"


def dies_at(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    def reach(reached: str, epoch: int | None = None) -> None:
        if reached == point:
            raise Crash(f"{reached} {epoch}")

    monkeypatch.setattr(crashpoints, "reach", reach)


@pytest.fixture(params=[False, True], ids=["the-ledger-decides", "a-sink-decides"])
def pipeline(request: pytest.FixtureRequest) -> Pipeline:
    made = Pipeline(decides=request.param, others={"o": Place()})
    driver = made.start()
    driver.run(0, "a")
    driver.run(1, "b")
    driver.runner.close()
    return made


def test_epochs_begin_again_with_0_and_what_the_sinks_hold_stays(pipeline: Pipeline) -> None:
    """I3: every later start finds the new lineage, and each sink takes its epochs for new ones."""
    deed = reset(pipeline)
    assert held(deed) == {decider(pipeline): ("L", 1), "o": ("L", 1)}
    assert pipeline.home.deed() == deed
    for epoch, value in enumerate(("a", "b", "c")):
        driver = pipeline.start()
        assert driver.taken.owner.lineage == deed.lineage
        assert driver.taken.recovered.committed == epoch - 1
        driver.run(epoch, value)
        driver.runner.close()
    assert pipeline.place.rows == pipeline.others["o"].rows == ["a", "b", "a", "b", "c"]


def test_a_start_before_the_first_epoch_may_die_as_often_as_it_likes(pipeline: Pipeline) -> None:
    """The old lineage's marker, which is still there, is not taken for one of the new lineage's that is gone."""
    reset(pipeline)
    for _ in range(3):
        assert pipeline.start().taken.recovered.committed == -1


def test_once_the_new_lineage_has_a_marker_it_may_not_go_missing() -> None:
    pipeline = Pipeline(decides=True)
    pipeline.start().run(0, "a")
    reset(pipeline)
    driver = pipeline.start()
    driver.run(0, "a")
    assert "marker -1" in pipeline.steps[-12:]
    pipeline.place.marker = None
    with pytest.raises(
        MarkerMissing,
        match=r"is to hold (a marker from before the first epoch|epoch 0), and has no marker",
    ):
        pipeline.start()


@pytest.mark.parametrize("lost", ["s", "o"])
def test_what_was_lost_before_the_reset_is_not_expected_after_it(pipeline: Pipeline, lost: str) -> None:
    """I3: a group whose offsets went with their topic, a table that was emptied; the reset has looked there."""
    (pipeline.place if lost == "s" else pipeline.others["o"]).marker = None
    reset(pipeline)
    pipeline.start().run(0, "x")
    assert pipeline.start().taken.recovered.committed == 0


def test_a_sink_that_was_emptied_after_the_reset_is_noticed(pipeline: Pipeline) -> None:
    reset(pipeline)
    pipeline.others["o"].marker = None
    with pytest.raises(
        MarkerMissing, match=r"sink 'o' of 'p' is to hold epoch 1 of lineage L, and has no marker of it"
    ):
        pipeline.start()
    assert pipeline.start(trust=["o"]).taken.recovered.committed == -1
    assert pipeline.start().taken.recovered.committed == -1, "what a person has said is on record"


def test_an_epoch_that_is_decided_while_its_lineage_is_closed_stops_the_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """E8: the old driver wakes just before its next decision is closed to it."""

    def ready(journal: Journal) -> None:
        journal.positions_synced()  # and its term was current, when it asked

    def wakes() -> None:
        with suppress(PipelineFenced):
            driver.run(0, "a")

    monkeypatch.setattr(Journal, "ready", ready)
    storage = Meanwhile()
    pipeline = Pipeline(storage=storage)
    driver = pipeline.start()
    driver.plan(0, 1)
    storage.at("decisions/000000000000-000001.json", wakes)
    with pytest.raises(ResetRefused, match="epoch 0 of 'p' is in doubt"):
        reset(pipeline)
    assert pipeline.start().taken.recovered.committed == 0
    assert pipeline.place.rows == ["a"]


@pytest.mark.parametrize(("point", "lineage"), [("reset-ready", "L"), ("reset-begun", "M")])
def test_a_reset_that_dies_is_done_or_not(
    pipeline: Pipeline, point: str, lineage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E8, I3: every named point. The next start goes on with the one lineage or with the other."""
    assert set(crashpoints.OF_RESETS) == {"reset-ready", "reset-begun"}
    with monkeypatch.context() as patched:
        dies_at(patched, point)
        with pytest.raises(Crash):
            reset(pipeline, offsets=[{IN_0: 1}])
    assert [name for name in pipeline.storage.files if "sources/0/0" in name]
    driver = pipeline.start()
    assert driver.taken.owner.lineage[0] == lineage
    epoch = driver.taken.recovered.committed + 1
    assert epoch == (2 if lineage == "L" else 0)
    driver.run(epoch, "c")
    driver.runner.close()
    assert pipeline.place.rows == pipeline.others["o"].rows == ["a", "b", "c"]
    again = reset(pipeline)
    folders = {name.split("/")[1] for name in pipeline.storage.files if name.startswith("lineages/")}
    assert folders <= {again.folder.removeprefix("lineages/"), *([] if lineage == "L" else driver.inside.split("/"))}


def test_a_driver_that_sleeps_through_a_reset_adds_nothing(pipeline: Pipeline) -> None:
    """C6: it wakes in the middle of an epoch, and is told that it was overtaken."""
    asleep = pipeline.start()
    asleep.plan(2, 3)
    reset(pipeline)
    with pytest.raises(PipelineFenced):
        asleep.run(2, "late")
    driver = pipeline.start()
    driver.run(0, "a")
    assert pipeline.place.rows == pipeline.others["o"].rows == ["a", "b", "a"]


def test_a_reset_that_sleeps_through_a_start_changes_nothing(pipeline: Pipeline) -> None:
    """C6: its successor has closed its slot."""
    term = pipeline.claim()
    deeds.enter(pipeline.storage, term.number)
    asleep, _ = resetting(pipeline, offsets=[{IN_0: 1}])
    driver = pipeline.start()
    with pytest.raises(PipelineFenced):
        asleep(term)
    assert pipeline.home.deed() == deeds.first(pipeline.storage)
    driver.run(2, "c")


class StubbornSink(ListSink):
    """Decided epochs cannot be made visible here."""

    def commit(self, context: EpochContext, committable: Any) -> None:
        raise MarkerMissing("not now")


@pytest.mark.parametrize("decides", [False, True])
def test_an_epoch_in_doubt_is_finished_first(decides: bool) -> None:
    """I3: a reset would throw away what is decided, and nothing tells which rows those were."""
    pipeline = Pipeline(decides=decides, others={"o": Place()})
    driver = pipeline.start()
    pipeline.kind = StubbornSink if not decides else None
    broken = pipeline.start()
    if decides:
        stubborn = StubbornSink(pipeline.others["o"], pipeline.steps)
        stubborn.owner = broken.taken.sinks["o"].owner
        broken.taken.coordinator.sinks["o"] = stubborn
    with pytest.raises(CommitUnfinished):
        broken.run(0, "a")
    pipeline.kind = None
    with pytest.raises(ResetRefused, match=r"epoch 0 of 'p' is in doubt in home: .* `onceward resolve`"):
        reset(pipeline)
    assert pipeline.start().taken.recovered.committed == 0
    assert driver.taken.owner.lineage == "L"
    reset(pipeline)
    assert pipeline.others["o"].rows == ["a"]


class MovingSink(ListSink):
    """Somebody commits between two looks."""

    def last_commit(self) -> LastCommit | None:
        found = self.place.marker
        self.place.marker = replace(found, epoch=found.epoch + 1) if found is not None else None
        return found


class LostSink(ListSink):
    """Somebody takes it over between two looks."""

    def open(self, owner: Owner) -> None:
        super().open(owner)
        if "looked" in self.steps:
            raise ForeignLineage("it is another's now", self.place.marker)

    def close(self) -> None:
        self.steps.append("looked")


@pytest.mark.parametrize("kind", [MovingSink, LostSink])
def test_whoever_is_quicker_while_it_is_reset_is_noticed(pipeline: Pipeline, kind: type[ListSink]) -> None:
    """Looked at, taken over, looked at again: what came in between refuses it, and the old lineage counts."""
    pipeline.kind = kind
    with pytest.raises(ResetRefused, match=r"sink 'o' got another epoch of 'p' during the reset"):
        reset(pipeline)
    assert pipeline.home.deed() == deeds.first(pipeline.storage)


def test_offsets_are_noted_as_the_engine_notes_them(pipeline: Pipeline) -> None:
    """Each source has those of its own topics; one of another kind has none."""
    other = TopicPartition("größe", 3)
    deed = reset(
        pipeline,
        sources=[frozenset({"in"}), frozenset(), frozenset({"größe"})],
        offsets=[{IN_1: 7, IN_0: 5}, {}, {other: 9}],
    )
    room = pipeline.home.of_lineage(deed)
    assert room.storage.read(f"{FIRST}/sources/0/0") == b'\0v1\n{"in":{"0":5,"1":7}}'
    assert room.storage.read(f"{FIRST}/sources/1/0") is None
    assert room.storage.read(f"{FIRST}/sources/2/0") == '\0v1\n{"größe":{"3":9}}'.encode()
    started = pipeline.start().taken.checkpoint
    assert isinstance(started, Checkpoint)
    assert started.initial()[IN_0] == 5


def test_from_the_group_it_begins_where_the_last_committed_epoch_ended() -> None:
    """Even one that the ledger does not have yet: the marker was committed with the epoch."""
    pipeline = Pipeline(decides=True)
    pipeline.start().run(0, "a")
    held = LastCommit(lineage="L", epoch=4, term=1, positions={IN_0: 40, TopicPartition("out", 0): 4})
    pipeline.place.marker = held
    deed = reset(pipeline, from_group=True)
    assert pipeline.home.of_lineage(deed).storage.read(f"{FIRST}/sources/0/0") == b'\0v1\n{"in":{"0":40}}'
    driver = pipeline.start()
    driver.plan(0, 41)
    driver.run(0, "b", end=41)
    assert pipeline.place.marker is not None
    assert pipeline.place.marker.lineage == deed.lineage


@pytest.mark.parametrize("torn", [False, True])
def test_an_epoch_that_only_the_deciding_sink_has_gets_its_entry_before_the_lineage_ends(torn: bool) -> None:
    """C5: what readers have seen is in the books, also where the engine's log is damaged."""
    pipeline = Pipeline(decides=True)
    driver = pipeline.start()
    driver.run(0, "a")
    driver.runner.close()
    driver.plan(1, 9)
    if torn:
        pipeline.storage.files[f"{driver.taken.checkpoint.folder}/offsets/1"] = b""
    outcome = Outcome(rows=3, digest=7)
    pipeline.place.marker = LastCommit(lineage="L", epoch=1, term=1, outcome=outcome, positions={IN_0: 9})
    deed = reset(pipeline, from_group=True)
    entry = driver.taken.ledger.last()
    assert entry is not None
    assert (entry.epoch, entry.outcome_of("s")) == (1, outcome)
    assert entry.positions == ([] if torn else ['{"in":{"0":9}}'])
    assert deed.origin is not None
    assert deed.origin.epoch == 1


def test_an_epoch_that_has_its_entry_keeps_it() -> None:
    pipeline = Pipeline(decides=True)
    driver = pipeline.start()
    driver.run(0, "a", "b")
    driver.runner.close()
    assert pipeline.place.marker is not None
    pipeline.place.marker = replace(pipeline.place.marker, outcome=Outcome(rows=3, digest=7))
    reset(pipeline)
    entry = driver.taken.ledger.last()
    assert entry is not None
    assert (sum(part.rows for part in entry.sinks.values()), entry.term) == (2, 1)


class ForgetfulSink(ListSink):
    """Has no marker of its own."""

    remembers = False

    def last_commit(self) -> LastCommit | None:
        raise AssertionError("nobody knows")


def test_a_sink_without_a_memory_is_not_asked() -> None:
    pipeline = Pipeline(kind=ForgetfulSink)
    driver = pipeline.start()
    driver.run(0, "a")
    driver.runner.close()
    assert held(reset(pipeline, from_group=True)) == {"s": ("L", 0)}, "as the ledger has it"


def test_what_cannot_be_laid_out_leaves_nothing(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Checkpoint, source: int, places: Any) -> None:
        self._storage.replace(f"{self.folder}/sources/{source}/half", repr(places).encode())
        raise OSError("no space left")

    monkeypatch.setattr(Checkpoint, "begin_at", refuse)
    with pytest.raises(OSError, match="no space left"):
        reset(pipeline, offsets=[{IN_0: 1}])
    assert not [name for name in pipeline.storage.files if name.startswith("lineages/")]
    assert pipeline.home.deed() == deeds.first(pipeline.storage)


def test_without_a_deciding_sink_the_ledger_knows_where_that_was(pipeline: Pipeline) -> None:
    """Also where the deciding sink's marker stands on another topic than the sources': they are elsewhere."""
    for _ in range(2):  # the second time nothing of the new lineage is committed yet
        deed = reset(pipeline, from_group=True)
        assert pipeline.home.of_lineage(deed).storage.read(f"{FIRST}/sources/0/0") == b'\0v1\n{"in":{"0":2}}'
        pipeline.place.marker = replace(pipeline.place.marker, positions={}) if pipeline.place.marker else None


def test_where_the_last_commit_ended_is_asked_of_who_knows() -> None:
    """Nothing is committed; a marker that is gone, or of another epoch than the ledger's; another topic."""
    empty = Pipeline(decides=True)
    with pytest.raises(ResetRefused, match=r"ended is not known of in: nothing is committed.*--offsets TOPIC/PARTIT"):
        reset(empty, from_group=True)
    empty.start()
    with pytest.raises(ResetRefused, match="is not known of in"):
        reset(empty, from_group=True)
    pipeline = Pipeline(decides=True)
    driver = pipeline.start()
    driver.run(0, "a")
    driver.runner.close()
    with pytest.raises(ResetRefused, match="is not known of another"):
        reset(pipeline, from_group=True, sources=[frozenset({"another"})])
    for marker in (None, LastCommit(lineage="L", epoch=1, term=1), LastCommit(lineage="K", epoch=0, term=1)):
        pipeline.place.marker = marker
        with pytest.raises(
            ResetRefused, match=r"is not known of in|holds (no epoch|epoch 0 of lineage K), and the last"
        ):
            reset(pipeline, from_group=True)
    assert pipeline.home.deed() == deeds.first(pipeline.storage)


@pytest.mark.parametrize(("held", "told"), [(None, "no epoch"), (0, "epoch 0 of lineage L")])
def test_a_sink_that_lacks_epochs_refuses_to_go_on_after_them(pipeline: Pipeline, held: int | None, told: str) -> None:
    """I3: nothing would write them again. From the beginning it may, knowingly."""
    marker = LastCommit(lineage="L", epoch=held, term=1) if held is not None else None
    pipeline.others["o"].marker = marker
    with pytest.raises(ResetRefused, match=rf"sink 'o' holds {told}, and the last committed one is 1 of lineage L"):
        reset(pipeline, from_group=True)
    reset(pipeline, offsets=[{IN_0: 0}])
    pipeline.others["o"].marker = LastCommit(lineage="L", epoch=9, term=1)
    if held is not None:
        with pytest.raises(ResetRefused, match="sink 'o' holds epoch 9 of lineage L, and the last committed one is 0"):
            reset(pipeline, from_group=True)


def test_a_home_that_nobody_has_used_can_be_reset_too() -> None:
    """Its pipeline's home was lost, and the sinks still know it."""
    pipeline = Pipeline(decides=True, others={"o": Place()})
    pipeline.place.marker = LastCommit(lineage="lost", epoch=7, term=9, positions={IN_0: 70})
    pipeline.others["o"].marker = LastCommit(lineage="lost", epoch=7, term=9)
    deed = reset(pipeline, from_group=True)
    assert held(deed) == {DECIDER: ("lost", 7), "o": ("lost", 7)}
    assert deed.origin is not None
    assert (deed.origin.lineage, deed.origin.epoch) == ("", -1)
    driver = pipeline.start()
    driver.run(0, "a", end=71)
    assert pipeline.start().taken.recovered.committed == 0


def test_weaker_guarantees_have_no_markers_to_look_at() -> None:
    pipeline = Pipeline(guarantee=Guarantee.AT_LEAST_ONCE)
    pipeline.start().run(0, "a")
    deed = reset(pipeline)
    assert held(deed) == {}
    assert means(pipeline)[-1].startswith("s: keeps what it has; events that are read again are written")
    assert pipeline.start().taken.owner.lineage == deed.lineage


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, ["input: from where the source itself says (starting=)", "s: keeps epochs up to 1; events that are read"]),
        ({"offsets": [{IN_0: 5}]}, ["input: in/0 from 5", "o: keeps epochs up to 1; events that are read again"]),
    ],
)
def test_what_it_means_is_said_for_the_state_the_input_and_each_sink(
    pipeline: Pipeline, more: Any, wanted: list[str]
) -> None:
    before = dict(pipeline.storage.files)
    lines = means(pipeline, **more)
    assert lines[0].startswith("state: p forgets all")
    for line in wanted:
        assert any(it.startswith(line) for it in lines), lines
    assert before == pipeline.storage.files


def test_from_the_group_nothing_is_written_again() -> None:
    pipeline = Pipeline(decides=True)
    pipeline.place.marker = LastCommit(lineage="L", epoch=-1, term=1, positions={IN_0: 0})
    assert means(pipeline, from_group=True)[1:] == [
        "input: in/0 from 0",
        "s: holds no epoch; nothing is written again",
    ]


def test_offsets_as_people_write_them() -> None:
    assert parse_offsets("a/b/0=17, clicks/12=0") == {(None, "a/b", 0): 17, (None, "clicks", 12): 0}
    assert parse_offsets("0:clicks/0=1,1:clicks/0=2") == {(0, "clicks", 0): 1, (1, "clicks", 0): 2}


@pytest.mark.parametrize("text", ["", "clicks=1", "clicks/0", "/0=1", "clicks/x=1", "clicks/0=-1", "clicks/0=1,"])
def test_offsets_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(ResetRefused, match="does not say where to begin; write TOPIC/PARTITION=OFFSET"):
        parse_offsets(text)


def test_two_offsets_of_one_partition_are_refused() -> None:
    with pytest.raises(ResetRefused, match="clicks/0 is given two offsets"):
        parse_offsets("clicks/0=1,clicks/0=2")


def test_another_reset_leaves_the_folder_of_the_lineage_that_lives(pipeline: Pipeline) -> None:
    """E8: only what was never begun is cleared away; the old lineage's ledger may still be asked for."""
    first = reset(pipeline, offsets=[{IN_0: 1}])
    pipeline.storage.replace("lineages/000001-never-begun/left", b"")
    pipeline.storage.replace("lineages/notes", b"not ours")
    reset(pipeline, offsets=[{IN_0: 0}])
    kept = {name.split("/")[1] for name in pipeline.storage.files if name.startswith("lineages/")}
    assert first.folder.removeprefix("lineages/") in kept
    assert "000001-never-begun" not in kept
    assert "notes" in kept


class Tells(ListSink):
    """As Kafka's marker does: up to where was read."""

    def decide(self, context: EpochContext, committable: Mapping[str, Any]) -> Verdict:
        ListSink.commit(self, context, committable)
        self.place.marker = LastCommit(
            lineage=self.owner.lineage,
            epoch=context.epoch,
            term=1,
            outcome=Outcome(rows=1),
            positions=context.positions,
        )
        return Verdict.COMMITTED


def whose_decider_was_out() -> Pipeline:
    """It has epoch 0 alone, up to 10; the other sink has epoch 1 too, up to 20."""
    pipeline = Pipeline(decides=True, kind=Tells, others={"o": Place()})
    for epoch, out in enumerate((set[str](), {"s"})):
        pipeline.out = out
        driver = pipeline.start()
        driver.run(epoch, str(epoch), end=10 * (epoch + 1))
        driver.end()
    pipeline.out = set()
    return pipeline


class TestFromWhereTheLastCommitEnded:
    """I3, E9: positions are about topics, which Kafka knows by ids."""

    TOPICS = ({"in": "the-id"},)

    @pytest.fixture
    def noted(self, pipeline: Pipeline) -> Pipeline:
        pipeline.notes.replace(source_topics.FILE, seal(SourceTopics(ids=[dict(ids) for ids in self.TOPICS])))
        return pipeline

    def test_a_topic_that_was_made_again_is_named_before_anybody_is_disturbed(self, noted: Pipeline) -> None:
        """Its first events would be passed over, in silence."""
        terms = noted.storage.names("terms")
        asked = {"from_group": True, "topics": [{"in": "another"}]}
        for do in (means, reset):
            with pytest.raises(SourceReplaced, match="'in' was deleted and made again"):
                do(noted, **asked)
            if do is means:
                assert noted.storage.names("terms") == terms

    @pytest.mark.parametrize("times", [1, 2, 3])
    def test_is_where_it_was_however_often_it_is_asked_for(self, times: int) -> None:
        """I3: the deciding sink was out, so its marker is older than what the other one has."""
        pipeline = whose_decider_was_out()
        for _ in range(times):
            reset(pipeline, from_group=True)
        ending = Ending(pipeline.home, "s")
        assert Checkpoint.newest(ending.room).begins_of_sources(0) == [{IN_0: 20}]

    def test_is_not_known_once_a_lineage_was_to_begin_elsewhere(self) -> None:
        """The marker says where an older lineage was, and other sinks may have more."""
        pipeline = whose_decider_was_out()
        reset(pipeline)
        with pytest.raises(ResetRefused, match="where the last committed epoch of 'p' ended is not known of in"):
            reset(pipeline, from_group=True)

    def test_one_of_another_source_is_another_topic(self, noted: Pipeline) -> None:
        noted.notes.replace(source_topics.FILE, seal(SourceTopics(ids=[{"other": "x"}, {"in": "another"}])))
        reset(noted, from_group=True, topics=self.TOPICS)

    def test_the_new_lineage_knows_which_topics_its_positions_are_about(self, noted: Pipeline) -> None:
        """The topic may be made again before its first start."""
        reset(noted, from_group=True, topics=self.TOPICS)
        assert of_sources(noted.notes.read(source_topics.FILE)) == list(self.TOPICS)


class Saved(Resetting):
    """As a savepoint: it knows what sinks held."""

    def held(self, ending: Ending) -> Mapping[str, Held]:
        return {"s": ("K", 3), "o": ("K", 2)}


def test_in_a_new_home_a_sink_that_is_out_still_holds_what_the_savepoint_knows() -> None:
    """E8: it comes back as what it was, and not as a stranger."""
    pipeline = Pipeline(others={"o": Place()}, out={"o"})
    pipeline.place.marker = LastCommit(lineage="K", epoch=3, term=1)
    pipeline.others["o"].marker = LastCommit(lineage="K", epoch=2, term=1)
    begins, _ = resetting(pipeline)
    deed = pipeline.starting.begin(replace(begins, begins=Saved(pipeline="p", sources=[])))
    assert held(deed) == {"s": ("K", 3), "o": ("K", 2)}
    pipeline.start().run(0, "a")
    pipeline.out.clear()
    driver = pipeline.start()
    driver.run(1, "b")
    driver.end()
    assert pipeline.others["o"].rows == ["b"]


def test_a_spark_checkpoint_is_no_home_to_begin_a_lineage_in() -> None:
    """K3: as for a start."""
    pipeline = Pipeline()
    pipeline.storage.files["offsets/0"] = b"v1"
    with pytest.raises(HomeMismatch, match="is the checkpoint of a Spark query"):
        reset(pipeline)
    assert [*pipeline.storage.files] == ["offsets/0"]


def test_what_is_refused_is_refused_before_anybody_is_disturbed(pipeline: Pipeline) -> None:
    """E8: also where the promise is weaker."""

    class Refused(Resetting):
        def judge(self, ending: Ending, found: Found, begun: Entry | None) -> None:
            raise ResetRefused("it would be written again")

    begins, _ = resetting(pipeline)
    for guarantee in Guarantee:
        asked = replace(
            begins, start=replace(begins.start, guarantee=guarantee), begins=Refused(pipeline="p", sources=[])
        )
        with pytest.raises(ResetRefused, match="written again"):
            asked.look_first()

"""A sequence out of a seed: which action comes next, as the world stands, and where it is killed. Pure."""

import random
from dataclasses import dataclass, field, replace
from typing import Final

from onceward import crashpoints
from onceward.proof.sequences.actions import BEGINS_IT, OF_EPOCHS, Action, How, Kill, Result
from onceward.proof.sequences.expecting import OUTDATED, expected
from onceward.proof.sequences.world import KAFKA, Log, Pipeline, World

SINKS: Final = (KAFKA, "postgres", "files")
ACTIONS: Final = (4, 8)
MOST_PIPELINES: Final = 3
WITH_KILLS: Final = 0.5  # of sequences
KILLED: Final = 0.25  # of their actions, and of what repeats a killed one
KILLED_AGAIN: Final = 0.6  # while it finishes what it had decided
WEIGHTS: Final = {"run": 28, "save": 20, "restore": 28, "fork": 10, "reset": 9, "delete": 4}
ENDED: Final = 0.06  # of runs are the pipeline's last: its checkpoint is not kept
MOSTLY, RARELY = 40, 3  # in place of a weight
NEW_RECORDS: Final = (8, 40)
SAME_COMMAND: Final = ("save", "delete", "reset", "restore", "fork")


@dataclass(slots=True)
class Sequence:
    """The dice, and what they have led to so far. Ask `next`, carry it out, tell `done`; until `next` is None."""

    seed: int
    world: World = field(init=False)
    backend: str = field(init=False)
    _dice: random.Random = field(init=False)
    _left: int = field(init=False)
    _kills: bool = field(init=False)
    _following: list[Action] = field(default_factory=list)  # what has to come next
    _ids: int = 0

    def __post_init__(self) -> None:
        self._dice = dice = random.Random(self.seed)  # noqa: S311 - the same seed, the same sequence
        self.world = World(Log(partitions=dice.choice((1, 2)), limit=dice.choice((12, 20, 30))))
        self.backend = dice.choice(("rocksdb", "hashmap", "hashmap"))
        self._left = dice.randint(*ACTIONS)
        self._kills = dice.random() < WITH_KILLS

    def next(self) -> Action | None:
        """The next one; None: it is over, and every pipeline has read all there is."""
        if self._following:
            return self._following.pop(0)
        if self._left > 0:
            self._left -= 1
            return self._killed(self._choose())
        world = self.world
        behind = [it for it in world.pipelines if it.wreck is not None or it.now.position != world.log.end]
        last = next((it for it in behind if not it.ended), None)
        return Action(kind="run", pipeline=last.number, sinks=_old_sinks(last)) if last is not None else None

    def done(self, action: Action, result: Result) -> None:
        """What follows from how it went; the world knows of it already."""
        if result.died:
            self._after_a_kill(action)
        elif result.refused:
            self._after_a_refusal(action, result)

    def _after_a_kill(self, action: Action) -> None:
        assert action.kill is not None
        again = replace(action, feed=(), kill=None)  # people repeat their command
        begun = action.kind in ("restore", "fork") and action.kill.point in (*OF_EPOCHS, "recovered", "replaying")
        if action.kind in SAME_COMMAND and not begun:
            there = action.pipeline < len(self.world.pipelines)
            if not (action.kill.point in BEGINS_IT and there and self._dice.random() < 0.3):
                self._following.insert(0, self._killed(again))
                return
        chance = self._dice.random()
        if self._left > 0 and chance < 0.25:
            return  # somebody does something else before it is started again
        pipeline = self._pipeline(action)
        sinks = _old_sinks(pipeline) if pipeline is not None else action.sinks
        if pipeline is not None and chance > 0.85:
            sinks = self._changed(sinks)
        plain = Action(kind="run", pipeline=action.pipeline, sinks=sinks, feed=self._more(action.pipeline))
        decided = pipeline is not None and pipeline.wreck is not None and pipeline.wreck.decided
        self._following.insert(0, self._killed(plain, KILLED_AGAIN if decided else KILLED))

    def _after_a_refusal(self, action: Action, result: Result) -> None:
        """A person who was refused reads why: does it knowingly, or starts the pipeline first."""
        pipeline = self.world.pipelines[action.pipeline]
        if result.refused == OUTDATED and not action.knowingly:
            if self._dice.random() < 0.75:
                self._following.insert(0, self._killed(replace(action, knowingly=True, feed=(), kill=None)))
            return
        if pipeline.wreck is not None or pipeline.unsettled:
            self._following.insert(0, Action(kind="run", pipeline=pipeline.number, sinks=_old_sinks(pipeline)))
            if self._dice.random() < 0.5:
                self._following.insert(1, replace(action, feed=(), kill=None))

    def _choose(self) -> Action:
        if not self.world.pipelines:
            return Action(kind="run", pipeline=0, sinks=self._some_sinks(), feed=self._records())
        pipeline = self._dice.choice(self.world.pipelines)
        makers = {
            "run": self._run,
            "save": self._save,
            "restore": self._restore,
            "fork": self._fork,
            "reset": self._reset,
            "delete": self._delete,
        }
        weights: dict[str, int] = {kind: WEIGHTS[kind] for kind in makers if self._fits(kind, pipeline)}
        if "restore" not in weights:  # there is nothing to go back to yet
            weights["save"] = MOSTLY if pipeline.has_epoch else RARELY
        if pipeline.ended:
            weights = {**weights, "run": RARELY, "save": 0}
        return makers[self._dice.choices([*weights], [*weights.values()])[0]](pipeline)

    def _fits(self, kind: str, pipeline: Pipeline) -> bool:
        if kind == "restore":
            return bool(self._own(pipeline))
        if kind == "fork":
            return bool(self.world.saved) and len(self.world.pipelines) < MOST_PIPELINES
        if kind == "save":
            return not pipeline.ended
        return kind != "delete" or len(self.world.saved) > 1

    def _run(self, pipeline: Pipeline) -> Action:
        number, retain = pipeline.number, pipeline.ended or self._dice.random() > ENDED
        sinks, feed = self._sinks_of(pipeline), self._more(pipeline.number)
        return Action(kind="run", pipeline=number, sinks=sinks, feed=feed, retain=retain)

    def _save(self, pipeline: Pipeline) -> Action:
        self.world.savepoints += 1
        return Action(kind="save", pipeline=pipeline.number, savepoint=self.world.savepoints)

    def _delete(self, _: Pipeline) -> Action:
        saved = self.world.saved[self._dice.choice(sorted(self.world.saved))]
        return Action(kind="delete", pipeline=saved.pipeline, savepoint=saved.number)

    def _own(self, pipeline: Pipeline) -> list[int]:
        return sorted(it.number for it in self.world.saved.values() if it.pipeline == pipeline.number)

    def _restore(self, pipeline: Pipeline) -> Action:
        own, dice = self._own(pipeline), self._dice
        savepoint = own[-1] if dice.random() < 0.6 else dice.choice(own)
        action = Action(
            kind="restore",
            pipeline=pipeline.number,
            sinks=self._sinks_of(pipeline),
            savepoint=savepoint,
            partitions=self._partitions(),
            knowingly=dice.random() < 0.15,
        )
        return replace(action, feed=self._more(pipeline.number) if dice.random() < 0.6 else ())

    def _fork(self, _: Pipeline) -> Action:
        saved = self.world.saved[self._dice.choice(sorted(self.world.saved))]
        return Action(
            kind="fork",
            pipeline=len(self.world.pipelines),
            sinks=self._some_sinks(),
            savepoint=saved.number,
            partitions=self._partitions(),
            feed=self._records() if self._dice.random() < 0.4 else (),
        )

    def _reset(self, pipeline: Pipeline) -> Action:
        hows: tuple[How, ...] = ("earliest", "offsets", "group") if pipeline.has_epoch else ("earliest", "offsets")
        how = self._dice.choice(hows)
        offsets = tuple(self._dice.randint(0, end) for end in self.world.log.end) if how == "offsets" else ()
        return Action(kind="reset", pipeline=pipeline.number, sinks=self._sinks_of(pipeline), how=how, offsets=offsets)

    def _partitions(self) -> int | None:
        return self._dice.choice((1, 2, 3, 4)) if self._dice.random() < 0.4 else None

    def _some_sinks(self) -> tuple[str, ...]:
        return tuple(
            self._dice.choice(((KAFKA,), *((KAFKA, it) for it in SINKS[1:]), SINKS, SINKS, SINKS[1:], SINKS[2:]))
        )

    def _sinks_of(self, pipeline: Pipeline) -> tuple[str, ...]:
        """Mostly those of the last start; sometimes one is taken out, brought back, or new."""
        return pipeline.sinks if self._dice.random() < 0.7 else self._changed(pipeline.sinks)

    def _changed(self, sinks: tuple[str, ...]) -> tuple[str, ...]:
        changed = set(sinks) ^ {self._dice.choice(SINKS)}
        return tuple(it for it in SINKS if it in changed) or sinks

    def _more(self, number: int) -> tuple[tuple[int, ...], ...]:
        """None where it would blur which epoch was planned before a kill."""
        wreck = self.world.pipelines[number].wreck if number < len(self.world.pipelines) else None
        return () if (wreck is not None and wreck.recorded) or self._dice.random() < 0.1 else self._records()

    def _records(self) -> tuple[tuple[int, ...], ...]:
        """New ids, and some once more."""
        fed: list[list[int]] = [[] for _ in range(self.world.log.partitions)]
        for _ in range(self._dice.randint(*NEW_RECORDS)):
            repeated = self._ids > 0 and self._dice.random() < 0.3
            number = self._dice.randrange(self._ids) if repeated else self._ids
            self._ids += not repeated
            self._dice.choice(fed).append(number)
        return tuple(map(tuple, fed))

    def _killed(self, action: Action, chance: float = KILLED) -> Action:
        if not self._kills or self._dice.random() > chance:
            return action
        kills = self._kills_of(action)
        return replace(action, kill=self._dice.choice(kills)) if kills else action

    def _kills_of(self, action: Action) -> list[Kill]:
        """The points that it will come to. Not where it is to be refused: then it comes to none of them."""
        wanted = expected(self.world, action)
        if wanted.must or wanted.may:
            return []
        if action.kind == "save":
            return [Kill(it) for it in crashpoints.OF_SAVEPOINTS if it != "savepoint-deleting"]
        if action.kind == "delete":
            return [Kill("savepoint-deleting")]
        if action.kind == "reset":
            return [Kill(it) for it in crashpoints.OF_RESETS] + [Kill("fenced")] * (KAFKA in action.sinks)
        points = [Kill("recovered"), *self._of_epochs(action)]
        if action.kind == "run":
            points += self._of_recovery(action)
        else:
            points += [Kill(it) for it in ("restore-copied", "restore-ready", "restore-begun", "restore-begun")]
            points += [Kill("restore-rescaled")] * (3 if action.partitions not in (None, 2) else 0)
        return points + [Kill("fenced")] * (KAFKA in action.sinks)

    def _of_recovery(self, action: Action) -> list[Kill]:
        pipeline = self._pipeline(action)
        wreck = pipeline.wreck if pipeline is not None else None
        if wreck is None or not wreck.decided or wreck.recorded:
            return []
        return [Kill("replaying")] * 4 + [Kill("resolving")] * (4 if wreck.in_doubt else 0)

    def _of_epochs(self, action: Action) -> list[Kill]:
        """One epoch of those to come, and each of its points."""
        log, sinks, pipeline = self.world.log, action.sinks, self._pipeline(action)
        begin, planned = (0,) * log.partitions, None
        if action.savepoint is not None:
            begin = self.world.saved[action.savepoint].moment.position
        elif pipeline is not None:
            begin, planned = pipeline.now.position, pipeline.planned
        ahead = Log(log.partitions, log.limit, [list(it) for it in log.ids])
        for ids, more in zip(ahead.ids, action.feed, strict=False):
            ids.extend(more)
        count = len(ahead.epochs(begin, planned))
        if not count:
            return []
        epoch = self._dice.randint(1, count)
        others = [it for it in sinks if it != KAFKA]
        wreck = pipeline.wreck if pipeline is not None else None
        found = [Kill(it, epoch, epoch) for it in ("begun", "written", "decided", "recorded")]
        found += [Kill("writing")] * (epoch == 1)
        found += [Kill("voted", (epoch - 1) * len(sinks) + self._dice.randint(1, len(sinks)), epoch)]
        if others and not (wreck is not None and wreck.in_doubt):  # a start that finishes an epoch comes there, too
            found += [Kill("committed", (epoch - 1) * len(others) + self._dice.randint(1, len(others)), epoch)]
        if KAFKA in sinks and others:
            found += [Kill("prepared", epoch, epoch)]
        if KAFKA in sinks and not (pipeline is not None and pipeline.re_marks(sinks)) and action.kind == "run":
            found += [Kill("marked", epoch, epoch)]
        return found

    def _pipeline(self, action: Action) -> Pipeline | None:
        return self.world.pipelines[action.pipeline] if action.pipeline < len(self.world.pipelines) else None


def _old_sinks(pipeline: Pipeline) -> tuple[str, ...]:
    """With which what a killed driver has left can be finished."""
    return pipeline.wreck.sinks if pipeline.wreck is not None else pipeline.sinks

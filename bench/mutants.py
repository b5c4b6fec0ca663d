"""Small changes to the core, each of which some test must notice: `make mutants`.

A mutant is one text replaced in one file of a copy of the source; then the tests that guard it run on that copy. One
that survives is a hole in the tests, or is listed with the reason why nothing can tell it from the original.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
EPOCH: Final = ("tests/epoch",)
TIMEOUT_S: Final = 600
SPARKS_HASHES: Final = (
    "tests/kafka/test_row_hashes.py::test_spark_gives_rows_of_every_length_the_same_hashes"  # slower than the others
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is changed, and who has to notice: tests, or that many simulated schedules."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    schedules: int = 0
    survives: str = ""  # why nothing can tell it


MUTANTS: Final = (
    # What must be durable before it counts.
    Mutant(
        "a file is not synced",
        "epoch/storage.py",
        "                if sync:\n                    os.fsync(file.fileno())",
        "                pass",
        ("tests/epoch/test_storage.py",),
    ),
    Mutant(
        "a folder is not synced after a rename",
        "epoch/storage.py",
        "        if sync:\n            _sync(target.parent)",
        "        if sync:\n            pass",
        ("tests/epoch/test_storage.py",),
    ),
    Mutant(
        "a folder is not synced after a link",
        "epoch/storage.py",
        "        if won:\n            _sync(target.parent)",
        "",
        ("tests/epoch/test_storage.py",),
    ),
    Mutant(
        "another's file is not synced",
        "epoch/storage.py",
        "        _sync(self.root / name)\n",
        "        pass\n",
        ("tests/epoch/test_storage.py",),
    ),
    Mutant(
        "a decision that another wrote is not synced",
        "epoch/decisions.py",
        "self._storage.sync(_name(slot.epoch, slot.slot))",
        "pass",
        EPOCH,
        schedules=6000,
    ),
    Mutant(
        "the newest entry is not synced",
        "epoch/takeover.py",
        "            self.ledger.sync(done)",
        "            pass",
        ("tests/proof/test_findings.py",),
        survives="the last epoch's entry is synced once more before the term begins",
    ),
    Mutant(
        "positions are not synced before the decision",
        "epoch/journal.py",
        "        self.positions_synced()\n",
        "",
        ("tests/epoch/test_runner.py",),
    ),
    Mutant(
        "an epoch overtakes its predecessor's entry",
        "epoch/journal.py",
        "        self.runner.await_record()\n",
        "",
        ("tests/epoch/test_runner.py",),
    ),
    # Who may act.
    Mutant(
        "a term is never asked",
        "epoch/term.py",
        "if self.storage.read(_file(self.number + 1)) is not None:",
        "if False:",
        ("tests/epoch/test_term.py",),
    ),
    Mutant(
        "the term is not asked after the decision",
        "epoch/journal.py",
        "            self.runner.taken.decisions.decide(self._entry(attempted, DECIDED))\n"
        "            self.runner.taken.term.require_current()",
        "            self.runner.taken.decisions.decide(self._entry(attempted, DECIDED))",
        ("tests/epoch/test_runner.py",),
    ),
    Mutant(
        "the term is not asked before the decision",
        "epoch/journal.py",
        "        self.runner.await_record()\n        self.runner.taken.term.require_current()\n",
        "        self.runner.await_record()\n",
        schedules=3000,
    ),
    Mutant(
        "an overtaken start tells its own error",
        "epoch/takeover.py",
        "with fenced_first(self.term):",
        "with __import__('contextlib').nullcontext():",
        schedules=1500,
    ),
    Mutant(
        "a start takes no folder of its own",
        "epoch/takeover.py",
        "        return Checkpoint.adopt(self.home, self.term.number)",
        "        return Checkpoint(self.home.storage, 'checkpoint', 'checkpoint')",
        ("tests/epoch/test_runner.py",),
    ),
    Mutant(
        "an older start takes the folder back",
        "epoch/checkpoint.py",
        "            if found > mine:",
        "            if False:",
        ("tests/epoch/test_checkpoint.py",),
    ),
    Mutant(
        "a start that is refused fences first",
        "epoch/takeover.py",
        "        if exactly_once:\n            self._require_welcome()",
        "        if exactly_once:\n            pass",
        ("tests/pipeline/test_holes.py", "-k", "strange_home"),
    ),
    Mutant(
        "a slot is closed without a claim",
        "epoch/decisions.py",
        "            if self._claim(epoch, free, None):",
        "            if True:",
        EPOCH,
    ),
    Mutant(
        "a taken slot is decided all the same",
        "epoch/decisions.py",
        "            if holder.decided is not None or holder.term > self._term:",
        "            if False:",
        EPOCH,
    ),
    Mutant(
        "at-most-once writes before it claims",
        "epoch/runner.py",
        "            taken.decisions.decide(self.entries.entry(context, positions, Attempted({}, 1), STARTED))\n",
        "",
        ("tests/epoch/test_runner.py",),
    ),
    # What is believed.
    Mutant(
        "a marker's lineage is not compared",
        "epoch/recovery.py",
        "    if last.lineage != owner.lineage:\n        raise ForeignLineage(",
        "    if False:\n        raise ForeignLineage(",
        ("tests/epoch/test_recovery.py",),
    ),
    Mutant(
        "a marker's term is not compared",
        "epoch/recovery.py",
        "    if last.term > owner.term:",
        "    if False:",
        ("tests/epoch/test_recovery.py",),
    ),
    Mutant(
        "a missing marker means never",
        "epoch/recovery.py",
        "    if (fault := known.fault_of_decider(sink, last)) is not None:",
        "    if (fault := known.fault_of_decider(sink, last)) is not None and last is not None:",
        ("tests/epoch/test_recovery.py",),
    ),
    Mutant(
        "an epoch in doubt is assumed to be aborted",
        "epoch/recovery.py",
        "        if known.consent.in_doubt is None:",
        "        if False:",
        ("tests/epoch/test_recovery.py",),
    ),
    Mutant(
        "no marker before the first epoch",
        "epoch/journal.py",
        "            self.runner.establish_marker(self.context)\n",
        "",
        ("tests/epoch/test_runner.py",),
    ),
    Mutant(
        "that a marker was written is not noted",
        "epoch/runner.py",
        "        taken.term.begin(NEVER, taken.resolved, held, taken.sinks, decider)\n",
        "",
        ("tests/epoch/test_runner.py",),
    ),
    Mutant(
        "a sink that was set back is not noticed",
        "epoch/journal.py",
        "            self.runner.require_all_hold()\n",
        "",
        ("tests/epoch/test_runner.py",),
    ),
    Mutant(
        "a sink with another writer is not noticed",
        "epoch/expected.py",
        "        if held == wanted or (",
        "        if held == wanted or (held is not None and wanted is not None and held > wanted) or (",
        ("tests/epoch/test_expected.py",),
    ),
    Mutant(
        "others' offsets are taken for none",
        "sinks/kafka/transactional.py",
        "        if marker is None and found.positions:",
        "        if False:",
        ("tests/pipeline/test_holes.py", "-k", "stranger or others_use"),
    ),
    Mutant(
        "an altered plan is believed",
        "epoch/plans.py",
        "    if found is not None and found.texts == entry.positions:",
        "    if found is not None:",
        ("tests/epoch/test_plans.py",),
    ),
    Mutant(
        "a plan that goes back is run",
        "epoch/plans.py",
        "    if behind := _behind(kafka_positions(positions), plan.kafka):",
        "    if behind := '':",
        ("tests/epoch/test_plans.py",),
    ),
    Mutant(
        "a torn plan is taken for whole",
        "epoch/checkpoint.py",
        "        if len(lines) < 3 or not is_whole(data):",
        "        if len(lines) < 3:",
        ("tests/epoch/test_checkpoint.py",),
    ),
    Mutant(
        "a half restored home is not noticed",
        "epoch/checkpoint.py",
        "        if max(finished, default=-1) > committed:",
        "        if False:",
        ("tests/epoch/test_checkpoint.py",),
    ),
    # The two-phase commit.
    Mutant(
        "a start does not abort what was staged",
        "epoch/takeover.py",
        "        self._ask(None, lambda: self.coordinator.abort(EpochContext(epoch=following, attempt=0)))\n",
        "",
        schedules=1500,
    ),
    Mutant(
        "a decided epoch is not finished",
        "epoch/takeover.py",
        "            resolved.append(self._roll_forward(entry))\n",
        "",
        schedules=1500,
    ),
    Mutant(
        "votes are not durable before Kafka decides",
        "epoch/journal.py",
        "            self.runner.taken.ledger.write(self._entry(attempted, PREPARED))",
        "            pass",
        schedules=1500,
    ),
    Mutant(
        "a failed try is not aborted",
        "epoch/coordinator.py",
        "tries.failed(error, began, away=self._abort_patiently(trying))",
        "tries.failed(error, began, away=None)",
        ("tests/epoch/test_coordinator.py",),
    ),
    # Records that are passed over, and lineages that begin anew.
    Mutant(
        "a committed record can be skipped",
        "epoch/skips.py",
        "    if place.offset >= end:\n        return",
        "    return",
        ("tests/epoch/test_skips.py",),
    ),
    Mutant(
        "a lineage that lives is cleared away",
        "epoch/new_lineage.py",
        'if found is None or found.folder != f"{LINEAGES}/{name}":',
        "if True:",
        ("tests/epoch/test_resetting.py",),
    ),
    # Tasks that take turns at a partition.
    Mutant(
        "who dies in a turn leaves the old number",
        "sinks/kafka/turns.py",
        "                self._write(descriptor, place, UNFINISHED)",
        "                pass",
        ("tests/sinks/kafka/test_turns.py",),
    ),
    Mutant(
        "turns are not locked",
        "sinks/kafka/turns.py",
        "                fcntl.lockf(descriptor, fcntl.LOCK_EX, NUMBER.size, self._at(place))",
        "                pass",
        ("tests/sinks/kafka/test_turns.py",),
    ),
    # Records that are copied past Spark.
    Mutant(
        "aborted records are copied",
        "kafka/ranges.py",
        "        if new.is_hidden or not (section := unpacked(new.entry)):",
        "        if not (section := unpacked(new.entry)):",
        ("tests/kafka/test_ranges_answers.py",),
    ),
    Mutant(
        "damaged records are copied",
        "kafka/entries.py",
        "    if google_crc32c.value(pa.py_buffer(entry.data[CRC_COUNTS_FROM:])) != header.crc:",
        "    if False:",
        ("tests/kafka/test_ranges_answers.py",),
    ),
    Mutant(
        "an empty answer is the end",
        "kafka/cursor.py",
        "        self.is_caught_up = self.at >= bound",
        "        self.at = max(self.at, min(bound, self.end or 0))",
        ("tests/kafka/test_cursor_answers.py",),
    ),
    Mutant(
        "what is missing between batches is passed over",
        "kafka/cursor.py",
        "            if entry.first > self.at and not self.is_compacted:",
        "            if False:",
        ("tests/kafka/test_cursor_answers.py",),
    ),
    Mutant(
        "a batch that is given again is read again",
        "kafka/cursor.py",
        "            if entry.last < self.at:",
        "            if False:",
        ("tests/kafka/test_cursor_answers.py",),
    ),
    Mutant(
        "older formats are read as this one",
        "kafka/entries.py",
        "        yield _v2(place, data[at:end]) if magic == MAGIC else _old(place, data[at:end], magic)",
        "        yield _v2(place, data[at:end])",
        ("tests/kafka/test_cursor_answers.py",),
    ),
    Mutant(
        "whoever throttles has no patience left",
        "kafka/cursor.py",
        "        if silent_s <= throttled_s + self.patience_s:",
        "        if silent_s <= self.patience_s:",
        ("tests/kafka/test_cursor_answers.py",),
    ),
    Mutant(
        "ranges are copied that do not add up",
        "sinks/kafka/copying.py",
        " or sum(it.end - it.start for it in ranges) != context.input_rows",
        "",
        ("tests/sinks/kafka/test_copying.py",),
    ),
    Mutant(
        "the hash of a copied row forgets which value is null",
        "sinks/kafka/copying.py",
        "hashed_flags(_missing(value), hashes)",
        "hashes",
        ("tests/sinks/kafka/test_copying.py",),
    ),
    Mutant(
        "a turn ends before all is acknowledged",
        "sinks/kafka/tasks.py",
        "        spans = sender.flush()\n",
        "        spans = {}\n",
        ("tests/sinks/kafka/test_tasks.py",),
    ),
    Mutant(
        "a task does not go on with another's numbers",
        "sinks/kafka/tasks.py",
        "            sender.go_on(place, sequence)",
        "            pass",
        ("tests/sinks/kafka/test_tasks.py",),
    ),
    Mutant(
        "a failed commit is not repeated",
        "epoch/coordinator.py",
        "            waiting = list(failures)\n",
        "            waiting = []\n",
        ("tests/epoch/test_completion.py",),
    ),
    Mutant(
        "a replay is not compared",
        "epoch/runner.py",
        "        if diverged is not None:",
        "        if False:",
        ("tests/epoch/test_runner.py",),
    ),
    # Kafka.
    Mutant(
        "a lost answer is taken for a no",
        "kafka/transactor.py",
        "                event: Event | None = Event.ANSWER_LOST",
        "                event: Event | None = Event.IDENTITY_LOST",
        ("tests/kafka/test_transactor.py",),
        schedules=2000,
    ),
    Mutant(
        "an identity is not taken from the answer",
        "kafka/transactor.py",
        "        self._identity = following or self._identity\n",
        "",
        schedules=1500,
    ),
    Mutant(
        "a repeated task writes",
        "sinks/kafka/tasks.py",
        "    attempt = _context().attemptNumber()",
        "    attempt = 0",
        ("tests/sinks/kafka/test_tasks.py",),
    ),
    Mutant(
        "batches fly before the partition is enrolled",
        "kafka/sender.py",
        "        return len(self.flying) < (IN_FLIGHT if self.enrolled else 1)",
        "        return len(self.flying) < IN_FLIGHT",
        ("tests/kafka/test_sender_answers.py",),
    ),
    # Snapshots across pipelines: where output stands, and where a cut may be.
    Mutant(
        "the transaction's end marker is not counted",
        "sinks/kafka/boundaries.py",
        "END_MARKER: Final = 1",
        "END_MARKER: Final = 0",
        ("tests/sinks/kafka/test_boundaries.py",),
    ),
    Mutant(
        "a span that no broker told leaves the old boundary",
        "sinks/kafka/boundaries.py",
        "                self._known.pop(place, None)",
        "                pass",
        ("tests/sinks/kafka/test_boundaries.py",),
    ),
    Mutant(
        "a span is taken for known though a broker did not tell",
        "kafka/sender.py",
        "            lane.span_known = False",
        "            pass",
        ("tests/kafka/test_sender_answers.py",),
    ),
    Mutant(
        "a reader may stand past the boundary",
        "snapshot/cut.py",
        "if bound is None or reads.read_up_to(place) > bound:",
        "if bound is None:",
        ("tests/snapshot/test_cut.py",),
    ),
    Mutant(
        "a boundary that nobody knows is taken for none",
        "snapshot/cut.py",
        "            if not later.is_told:\n                break",
        "            if not later.is_told:\n                continue",
        ("tests/snapshot/test_cut.py", "tests/snapshot/test_networks.py"),
    ),
    Mutant(
        "what an epoch did not write is forgotten",
        "sinks/kafka/boundaries.py",
        "        self._known = {**ends, **self._known}",
        "        self._known = dict(ends)",
        ("tests/sinks/kafka/test_boundaries.py",),
    ),
    Mutant(
        "a topic that was made again is taken for the same",
        "snapshot/histories.py",
        'reads[topic] in ("", number)',
        "True",
        ("tests/snapshot/test_histories.py",),
    ),
    Mutant(
        "the newest epoch is saved instead of that of the cut",
        "snapshot/creating.py",
        "        one.pin(epoch.number)\n",
        "        one.pin(None)\n",
        ("tests/snapshot/test_creating.py",),
    ),
    # Whose epochs they are: every lineage, sink and pipeline counts from 0.
    Mutant(
        "an epoch of an older lineage is taken for this one's, in PostgreSQL",
        "sinks/postgres/marker.py",
        "return self.lineage == lineage and self.epoch is not None",
        "return self.epoch is not None",
        ("tests/sinks/postgres/test_conformance.py", "-k", "lineage"),
    ),
    Mutant(
        "an epoch of an older lineage is taken for this one's, in files",
        "sinks/files/markers.py",
        "for _, epoch, found in _names(staging.root) if found == lineage), default=None)",
        "for _, epoch, found in _names(staging.root)), default=None)",
        ("tests/sinks/files/test_conformance.py", "-k", "TestParquet and lineage"),
    ),
    Mutant(
        "a driver of an older lineage is not fenced by a newer one's first term",
        "sinks/postgres/marker.py",
        "return self.owner_lineage != owner.lineage or self.owner_term > owner.term",
        "return self.owner_term > owner.term",
        ("tests/sinks/postgres/test_conformance.py", "-k", "lineage"),
    ),
    Mutant(
        "two sinks stage under one name",
        "sinks/postgres/names.py",
        r'f"{owner.pipeline}\0{owner.sink}"',
        'f"{owner.pipeline}"',
        ("tests/sinks/postgres/test_conformance.py", "-k", "apart"),
    ),
    Mutant(
        "the page goes on with the ledger of the lineage that ended",
        "dashboard/home_reader.py",
        "if self.index is None or self._lineage != (deed.lineage, deed.folder):",
        "if self.index is None:",
        ("tests/dashboard/test_lineages.py",),
    ),
    # Zero is not nothing.
    Mutant(
        "epoch 0, which Kafka has decided, is not finished elsewhere",
        "epoch/recovery.py",
        "if last.epoch in (NEVER, known.done):",
        "if last.epoch in (0, known.done):",
        ("tests/epoch/test_zero.py",),
    ),
    Mutant(
        "a checkpoint may lose what epoch 0 committed",
        "epoch/checkpoint.py",
        "if committed >= 0 and committed not in planned:",
        "if committed > 0 and committed not in planned:",
        ("tests/epoch/test_zero.py",),
    ),
    Mutant(
        "a moment at a partition's first record begins at its end",
        "pipeline/first_positions.py",
        "at if at >= 0 else end",
        "at if at > 0 else end",
        ("tests/pipeline/test_first_positions.py",),
    ),
    Mutant(
        "broker 0 leads nothing",
        "kafka/sender.py",
        "                if node >= 0:",
        "                if node > 0:",
        ("tests/kafka/test_sender_answers.py",),
    ),
    Mutant(
        "values of exactly one stripe are hashed as shorter ones",
        "kafka/row_hashes.py",
        "long = int(np.searchsorted(lengths, STRIPE))",
        "long = int(np.searchsorted(lengths, STRIPE + 1))",
        ("tests/kafka/test_row_hashes.py", "--deselect", SPARKS_HASHES),
    ),
    Mutant(
        "keys are ordered by lengths that do not fit",
        "kafka/partitioning.py",
        "narrow = counts.max() <= np.iinfo(np.uint16).max",
        "narrow = True",
        ("tests/kafka/test_partitioning.py",),
    ),
    # What answers mean.
    Mutant(
        "the echo of a missing batch is taken for done",
        "kafka/codes.py",
        '"OUT_OF_ORDER_SEQUENCE_NUMBER", Meaning.RETRY',
        '"OUT_OF_ORDER_SEQUENCE_NUMBER", Meaning.ACCEPTED',
        ("tests/kafka/test_codes.py",),
    ),
    Mutant(
        "a code that nobody knows is repeated",
        "kafka/codes.py",
        'f"ERROR_{number}", Meaning.REFUSED',
        'f"ERROR_{number}", Meaning.RETRY',
        ("tests/kafka/test_codes.py",),
    ),
    # Computed once.
    Mutant(
        "each sink computes the rows",
        "pipeline/batch.py",
        "return len(self.transforms) > 1 or self.look_twice",
        "return self.look_twice",
        ("tests/pipeline/test_computed_once.py",),
    ),
    Mutant(
        "good rows and dead letters are computed apart",
        "pipeline/batch.py",
        "> 1 or self.look_twice or not all",
        "> 1 or not all",
        ("tests/pipeline/test_computed_once.py",),
    ),
    # The runner's wires, and its clocks.
    Mutant(
        "a commit is tried again under a newer term",
        "epoch/runner.py",
        '        """Between two tries of a commit."""\n        self.taken.term.require_current()\n',
        '        """Between two tries of a commit."""\n',
        ("tests/epoch/test_wiring.py",),
    ),
    Mutant(
        "the coordinator tells no observer",
        "epoch/runner.py",
        "        taken.coordinator.observer = self.observer\n",
        "",
        ("tests/epoch/test_wiring.py",),
    ),
    Mutant(
        "the marker's age is counted from the clock's zero",
        "epoch/runner.py",
        "        self._marked_at = self.clock()\n        self._before: tuple",
        "        self._marked_at = 0.0\n        self._before: tuple",
        ("tests/epoch/test_wiring.py",),
    ),
    Mutant(
        "an error of the disk ends the lease",
        "pipeline/lease.py",
        "            except Exception as error:  # noqa: BLE001 - it says so",
        "            except ValueError as error:  # it says so",
        ("tests/pipeline/test_lease.py",),
    ),
    Mutant(
        "one renewal in a lease",
        "epoch/term.py",
        "RENEW_S: Final = 1.0",
        "RENEW_S: Final = 4.0",
        ("tests/pipeline/test_lease.py",),
    ),
    Mutant(
        "an error of the disk ends a stop",
        "pipeline/query.py",
        "        except OSError:\n            return False\n",
        "        except ValueError:\n            return False\n",
        ("tests/pipeline/test_closing.py",),
    ),
    # What is staged, saved and committed twice.
    Mutant(
        "a savepoint is taken of any plan with as many sources",
        "savepoint/creating.py",
        "if its is not None and said is not None and said != its.plan:",
        "if its is not None and said is not None and len(said.splitlines()) != len(its.plan.splitlines()):",
        ("tests/savepoint/test_needed.py",),
    ),
    Mutant(
        "staged rows may be too many",
        "sinks/postgres/publish.py",
        "        if there != plan.rows:",
        "        if there < plan.rows:",
        ("tests/sinks/postgres/test_staged_rows.py",),
    ),
    Mutant(
        "a late commit takes the newer marker away, in files",
        "sinks/files/markers.py",
        "        if lineage == marker.lineage and epoch < marker.epoch:",
        "        if lineage == marker.lineage and epoch != marker.epoch:",
        ("tests/sinks/files/test_commits.py",),
    ),
    Mutant(
        "a commit whose answer is lost is an error, in a lake table",
        "sinks/parquet/sink.py",
        "                if _has(again := self._read(), epoch):\n                    return again\n",
        "",
        ("tests/sinks/delta/test_commits.py", "-k", "Paused"),
    ),
)


def main() -> int:
    """Each mutant, and a line for it; how many survive without a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", dest="wanted", default="", help="only mutants whose name or file has this text")
    wanted = parser.parse_args().wanted
    chosen = [mutant for mutant in MUTANTS if wanted in mutant.name or wanted in mutant.file]
    surviving = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        for number, mutant in enumerate(chosen, start=1):
            began = time.monotonic()
            killer = _killed_by(mutant, copy)
            said = f"killed by {killer}" if killer else f"SURVIVES{': ' + mutant.survives if mutant.survives else ''}"
            surviving += not killer and not mutant.survives
            print(
                f"{number:3d}/{len(chosen)}  {mutant.name:55s} {said}  ({time.monotonic() - began:.0f} s)", flush=True
            )
    print(f"{len(chosen)} mutants, {surviving} survive without a reason")
    return min(surviving, 1)


def _killed_by(mutant: Mutant, copy: Path) -> str:
    file = copy / "onceward" / mutant.file
    original = file.read_text("utf-8")
    if original.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name!r}: its text stands {original.count(mutant.old)} times in {mutant.file}")
    file.write_text(original.replace(mutant.old, mutant.new), "utf-8")
    try:
        for command in _commands(mutant):
            if _fails(command, copy):
                return " ".join(command[2:5])
        return ""
    finally:
        file.write_text(original, "utf-8")


def _commands(mutant: Mutant) -> Iterable[list[str]]:
    if mutant.tests:
        yield ["-m", "pytest", *mutant.tests, "-n", "0", "-q", "-x", "-p", "no:cacheprovider", "--tier", "all"]
    if mutant.schedules:
        yield ["-m", "onceward", "simulate", "--schedules", str(mutant.schedules), "--jobs", "2"]


def _fails(command: list[str], copy: Path) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode not in (0, 1, 3):  # 3: the simulation has found a broken promise
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())

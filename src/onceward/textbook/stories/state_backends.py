"""State backends: what rocksdb and hashmap write down with each epoch, looked up in the checkpoint's own files."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from onceward.errors import ConfigurationError
from onceward.textbook.pictures.bars import LONGEST, Bar, Bars, Group
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.spending import Spending
from onceward.textbook.stage import Stage
from onceward.textbook.story import Ending, Need, Story

if TYPE_CHECKING:
    import onceward as ow

KEYS: Final = 20_000
CHANGED: Final = 20
SHARE: Final = 10  # an epoch that writes less than a tenth of what the first one wrote is called small
EPOCHS: Final = 3
INCREMENTAL, FULL, HASHMAP = "rocksdb", "rocksdb, full", "hashmap"


@dataclass(frozen=True, slots=True)
class Written:
    """What one epoch has added to the state's folder: kinds of files, and whether it is little."""

    files: tuple[str, ...]
    small: bool


@dataclass(frozen=True, slots=True)
class Last:
    written: dict[str, tuple[Written, ...]]  # by pipeline, epoch by epoch
    keys: dict[str, int]  # in the state at the end
    refused: str  # the error of a start with another backend


def tell(stage: Stage) -> Ending:
    import onceward as ow

    job = Spending(stage.spark(), stage.folder())
    stage.say(
        f"A pipeline adds up what each customer has spent. Its first epoch has orders of {KEYS:,} customers, the "
        f"second and the third have {CHANGED} orders each. The same orders go through three pipelines, which keep "
        "their state in different ways: in RocksDB, in RocksDB with full snapshots, and in a hashmap in the JVM's heap."
    )
    job.orders("1-monday", {f"c{number}": 100 for number in range(KEYS)})
    job.orders("2-tuesday", {f"c{number}": 50 for number in range(CHANGED)})
    job.orders("3-wednesday", {f"c{number}": 25 for number in range(CHANGED)})
    written: dict[str, tuple[Written, ...]] = {}
    keys: dict[str, int] = {}
    for kind, state in _kinds().items():
        name = kind.replace(", ", "-")
        job.run(job.pipeline(name, state))
        written[kind] = _written(job.state_files(name))
        keys[kind] = ow.state(job.home(name), job.spark).count()
    _show(stage, written)
    stage.say(
        f"Read back from its files, the state has {keys[INCREMENTAL]:,} customers in each of the three: "
        "they differ in how it is kept, not in what."
    )
    refused = _refused(job)
    stage.heading("A home stays with its backend")
    stage.say(
        f"A start of the first pipeline with `hashmap` is refused with `{refused}`: its files are RocksDB's. Going "
        "over to another backend takes a savepoint, whose state is rewritten when it is restored."
    )
    return Ending(
        last=Last(written, keys, refused),
        takeaways=(
            "rocksdb keeps the state on disk, so it may be larger than memory; hashmap keeps it in the JVM's heap.",
            "Both write only the changes with an epoch. Whole snapshots follow beside the epochs, about once a minute.",
            "With full snapshots each epoch ends with one: RocksDB then copies the files that are new.",
        ),
        lives_in=("src/onceward/pipeline/state.py", "docs/state.md", "bench/state.py"),
    )


def _show(stage: Stage, written: dict[str, tuple[Written, ...]]) -> None:
    stage.say("These are the files that each epoch has added to the state's folder in the checkpoint:")
    stage.show(
        "epoch",
        *written,
        rows=[(epoch, *(" and ".join(epochs[epoch].files) for epochs in written.values())) for epoch in range(EPOCHS)],
    )
    stage.say(
        "A `.changelog` (RocksDB) and a `.delta` (hashmap) hold what the epoch has changed. A `.zip` and its `.sst` "
        "files are a snapshot: RocksDB's own files, of which only new ones are copied."
    )
    stage.draw(
        Bars(
            title="How much each epoch wrote. Short: less than a tenth of what epoch 0 wrote.",
            groups=tuple(Group(kind, _bars(epochs)) for kind, epochs in written.items()),
        )
    )
    stage.say(
        "After the first epoch each of them writes little, because little has changed. A hashmap's snapshot, which "
        "this short run does not reach, is always the whole map."
    )


def _bars(epochs: tuple[Written, ...]) -> tuple[Bar, ...]:
    return tuple(
        Bar(f"epoch {number}", 2 if it.small else LONGEST, " and ".join(it.files), Tone.GOOD if it.small else Tone.MARK)
        for number, it in enumerate(epochs)
    )


def _kinds() -> "dict[str, ow.State]":
    import onceward as ow

    return {INCREMENTAL: ow.State("rocksdb"), FULL: ow.State("rocksdb", snapshots="full"), HASHMAP: ow.State("hashmap")}


def _written(folder: Path) -> tuple[Written, ...]:
    """Spark's version N is the state after epoch N - 1. Each snapshot adds one .sst; their names count up."""
    added = sorted((folder / "SSTs").glob("*.sst"))
    assert len(added) in {0, EPOCHS}, "every epoch has ended with a snapshot, or none has"
    found: list[Written] = []
    first = 0
    for epoch in range(EPOCHS):
        (file,) = folder.glob(f"{epoch + 1}.*")
        files = [file, *added[epoch : epoch + 1]]
        size = sum(it.stat().st_size for it in files)
        first = first or size
        names = (file.name, "a new .sst") if added else (file.name,)
        found.append(Written(names, size < first / SHARE))
    return tuple(found)


def _refused(job: Spending) -> str:
    try:
        job.run(job.pipeline("rocksdb", _kinds()[HASHMAP]))
    except ConfigurationError as error:
        return type(error).__name__
    raise AssertionError("a home was started with another backend than it began with")


STORY: Final = Story(
    name="state-backends",
    title="State backends: what each epoch writes down",
    question="What does a checkpoint write when little has changed?",
    needs=(Need.SPARK,),
    tell=tell,
)

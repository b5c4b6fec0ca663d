"""G3: what an epoch of 10,000 rows costs with one sink and with four."""

from functools import partial
from statistics import median

from bench import targets
from bench.rounds import Outcome
from bench.stage import Stage
from onceward.servers.postgres import PostgresServer

TITLE = "The cost of an epoch with one sink and with four"
BASE = "1 sink"
ROWS, EPOCHS, WARM_UP = 10_000, 20, 3
SINKS = {"1 sink": ["kafka"], "4 sinks": ["kafka", "files", "postgres", "delta"]}


def run(stage: Stage) -> None:
    records = ROWS * (EPOCHS + WARM_UP)
    source = stage.topics.filled(records, 100)
    with PostgresServer() as postgres:
        dsn = postgres.dsn()
        _once(stage, source, records, SINKS["4 sinks"], dsn)
        subjects = [
            stage.subject(name, "onceward", partial(_once, stage, source, records, sinks, dsn))
            for name, sinks in SINKS.items()
        ]
        stage.rounds.interleave(f"epochs of {ROWS:,} rows", subjects, stage.options.rounds or 3)


def _once(stage: Stage, source: str, records: int, sinks: list[str], dsn: str) -> Outcome:
    name = stage.topics.new()
    answer = stage.worker("onceward").ask("drain", source=source, target=name, sinks=sinks, dsn=dsn, epoch_records=ROWS)

    def check() -> list[str]:
        others = [it for it in sinks if it != "kafka"]
        return [
            f"{kind}: {said}"
            for kind in others
            for said in targets.wrong(targets.numbers(kind, name, stage.folder, dsn), records)
        ]

    return Outcome({"epoch ms": median(answer["epochs_ms"][WARM_UP:])}, records, check)

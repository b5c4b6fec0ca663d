"""The story of two-phase commit, on a real Kafka, a real PostgreSQL that is really stopped, and a real Spark."""

import pytest
from pyspark.sql import SparkSession

from onceward.servers.broker import DevBroker
from onceward.servers.postgres import PostgresServer
from onceward.textbook.payments import GONE, Seen
from onceward.textbook.servers import Servers
from onceward.textbook.stories import two_phase_commit
from textbook.told import told


@pytest.mark.slow
def test_whichever_phase_fails_every_payment_is_in_every_place_once(
    broker: DevBroker, postgres: PostgresServer, spark: SparkSession
) -> None:
    """Requirements B2-B5, B9, B10, A6, H1."""
    last = told("two-phase-commit", Servers(broker=broker, postgres=postgres, spark=spark)).ending.last
    every = [str(number) for number in range(1, 10)]
    assert last == two_phase_commit.Last(
        staged={"files": 3, "PostgreSQL": 3, "Kafka": 3},
        seen={
            two_phase_commit.VOTED: Seen(files=0, postgres=0, kafka=0, uncommitted=3),
            two_phase_commit.DECIDED: Seen(files=0, postgres=0, kafka=3, uncommitted=3),
            two_phase_commit.COMMITTED: Seen(files=3, postgres=3, kafka=3, uncommitted=3),
            two_phase_commit.ABORTED: Seen(files=3, postgres=3, kafka=3, uncommitted=6),
            two_phase_commit.REDONE: Seen(files=6, postgres=6, kafka=6, uncommitted=9),
            two_phase_commit.UNFINISHED: Seen(files=9, postgres=GONE, kafka=9, uncommitted=12),
            two_phase_commit.BACK: Seen(files=9, postgres=6, kafka=9, uncommitted=12),
            two_phase_commit.FINISHED: Seen(files=9, postgres=9, kafka=9, uncommitted=12),
        },
        paid={"files": every, "PostgreSQL": every, "Kafka": every},
        unfinished="CommitUnfinished",
        resolved=(
            "epoch 2 is decided and may not be visible everywhere: finishing it",
            "epoch 2 was decided by sink 'kafka' in term 1 and not finished: committed in files, postgres",
        ),
    )

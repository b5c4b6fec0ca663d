"""A transaction that is really open, on a real broker: it is seen, and so is whom it holds back."""

import json
import time
from typing import Any

from typer.testing import CliRunner

from onceward.cli.main import app
from onceward.epoch.outcome import TopicPartition
from onceward.kafka.open_transactions import look


def test_an_open_transaction_is_seen_with_the_readers_that_it_holds_back(lab: Any) -> None:
    """I2: others' records behind it wait too; once it has ended nothing is held back."""
    topic, transactor, other = lab.topic(2), lab.transactor(timeout_ms=45_000), lab.transactor()
    held, free = TopicPartition(topic, 0), TopicPartition(topic, 1)
    lab.epoch(transactor, 0, {held: [b"a", b"b"]})
    transaction = transactor.begin(1)
    began = time.time()
    lab.write(transactor.wire, transaction.identity, transactor.pipeline, {held: [b"c"]})
    lab.epoch(other, 0, {held: [b"d", b"e"], free: [b"f"]})

    sight = look(lab.wire, [topic])
    (mine,) = [it for it in sight.transactions if it.transactional_id == transactor.pipeline]
    identity = transaction.identity
    assert (mine.producer_id, mine.producer_epoch) == (identity.producer_id, identity.producer_epoch)
    assert (mine.state, mine.timeout_ms, mine.partitions) == ("Ongoing", 45_000, (held,))
    assert mine.began_ms is not None
    assert abs(mine.began_ms / 1000 - began) < 60
    ends = {it.place: it for it in sight.partitions if it.place.topic == topic}
    assert (ends[held].stable, ends[held].end, ends[held].held_back) == (3, 7, 4)  # c, d, e and an end marker
    assert ends[held].holder is not None
    assert ends[held].holder[:2] == (mine.producer_id, transactor.pipeline)
    assert (ends[free].held_back, ends[free].holder) == (0, None)
    assert lab.read(topic) == [[b"a", b"b"], [b"f"]]

    command = ["kafka", "transactions", "--kafka", lab.cluster.bootstrap]
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "80"})
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.output.splitlines())) <= 80
    assert transactor.pipeline in shown.output.replace("\n", "")
    facts = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
    (told,) = [it for it in facts["partitions"] if (it["topic"], it["partition"]) == held]
    assert (told["held_back"], told["holder"]["transactional_id"]) == (4, transactor.pipeline)

    lab.commit(transactor, transaction, {held: [b"c"]})
    after = look(lab.wire, [topic])
    assert transactor.pipeline not in {it.transactional_id for it in after.transactions}
    assert {it.held_back for it in after.partitions if it.place.topic == topic} == {0}
    assert lab.read(topic)[0] == [b"a", b"b", b"c", b"d", b"e"]

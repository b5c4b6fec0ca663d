"""The Kafka sink keeps the contract, as one that decides: on a real broker, judged by another client's reader."""

import pytest

import onceward as ow
from onceward.testing import SinkConformance, SinkUnderTest
from support.judge import Kafka


class TestKafkaSink(SinkConformance):
    """B6, B8."""

    @pytest.fixture
    def under_test(self, kafka: Kafka) -> SinkUnderTest:
        topic = kafka.topic(2)

        def open_transactions() -> list[str]:
            stable, ends = kafka.end_offsets(topic, "read_committed"), kafka.end_offsets(topic)
            return [f"{topic}-{number}" for number, end in ends.items() if stable[number] < end]

        return SinkUnderTest(
            make=lambda: ow.KafkaSink(kafka.bootstrap, topic=topic),
            visible=lambda: [int(value) for value in kafka.values(topic)],
            leftovers=open_transactions,
            rows=lambda frame: frame.selectExpr("cast(id as string) as value"),
        )

"""The suite: every case is a fact that a sink of the contract must keep."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from onceward.testing.anywhere import Anywhere
from onceward.testing.crashes import Crashes
from onceward.testing.lineages import Lineages
from onceward.testing.memory import Memory
from onceward.testing.rehearsal import Rehearsal, SinkUnderTest
from onceward.testing.repeats import Repeats
from onceward.testing.visibility import Visibility
from onceward.testing.zombies import Zombies


class SinkConformance(Visibility, Memory, Lineages, Crashes, Repeats, Zombies, Anywhere):
    """Subclass it as `TestMySink` and give it a fixture `under_test` that returns a `SinkUnderTest`."""

    @pytest.fixture
    def under_test(self) -> SinkUnderTest:
        """Yours to write; its target must be new for every test."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture `under_test` that returns a SinkUnderTest")

    @pytest.fixture
    def rehearsal(self, spark: SparkSession, under_test: SinkUnderTest) -> Iterator[Rehearsal]:
        """A pipeline over the sink under test."""
        made = Rehearsal(spark, under_test)
        yield made
        made.close()

"""The tutorial as a reader follows it: its files, its commands, and a kill."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from onceward.kafka.wire import Cluster, Wire
from onceward.servers.broker import DevBroker
from onceward.servers.postgres import PostgresServer
from support.driver import Driver
from support.judge import Kafka
from support.postgres import Database
from support.tutorial import tutorial_file
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
ASKED = "select (select sum(count) from ad_minutes), (select count(*) from ad_minutes), count(*) from attributed_orders"


@pytest.fixture
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """On a broker of its own: the page's topics have names that others could use too."""
    with (
        DevBroker(tmp_path_factory.mktemp("own"), port=0) as broker,
        closing(Wire(Cluster(broker.bootstrap))) as wire,
        closing(Kafka(broker.bootstrap, wire)) as kafka,
    ):
        yield kafka


def test_who_follows_the_page_and_kills_finds_what_the_shop_said(
    kafka: Kafka,
    postgres: PostgresServer,
    drivers: Callable[[str], Driver],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F1, F2: what is in PostgreSQL is what `shop.py` printed, though the application was killed."""
    dsn = Database.new(postgres).dsn()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADS_KAFKA", kafka.bootstrap)
    monkeypatch.setenv("ADS_POSTGRES", dsn)
    said = _run("shop.py")
    _, counted, minutes, orders = (int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", said))

    def found() -> tuple[object, ...] | None:
        with psycopg.connect(dsn) as connection:
            return connection.execute(ASKED).fetchone()

    driver = drivers(tutorial_file("ads.py"))
    driver.start("--trigger", "1s", "--json")
    cleaned = Path("data/homes/ads-clean/ledger")
    eventually(lambda: driver.alive() and cleaned.is_dir() and any(cleaned.iterdir()), "an epoch is out", 180)
    driver.kill()
    driver.start("--trigger", "1s", "--json")
    eventually(lambda: driver.alive() and len(kafka.values("ad_events")) == counted, "every event is cleaned", 180)
    _run("time_passes.py")
    eventually(lambda: driver.alive() and found() == (counted, minutes, orders), f"what is right: {said}", 180)
    driver.finish()
    assert found() == (counted, minutes, orders)


def _run(name: str) -> str:
    command = [sys.executable, "-c", tutorial_file(name)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout

"""The how-to guides as a reader follows them: every shell block, as it stands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from onceward.servers.postgres import PostgresServer
from support.judge import Kafka
from support.pages import Reader, blocks, own_kafka, write_files
from support.postgres import PASSWORD, Database

DOCS: Final = Path(__file__).parents[2] / "docs"
# In an order in which each finds the home that it speaks of.
PAGES: Final = ("deploy", "monitor", "upgrade", "recover", "replay", "back-up", "move")
ROTATE: Final = "rotate-secrets"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with own_kafka(tmp_path_factory.mktemp("own")) as kafka:
        yield kafka


class Customer(Reader):
    """Somebody buys before each run, so that every run has something to commit."""

    kafka: Kafka
    spent = 0

    def give(self, line: str) -> None:
        if " run " in f" {line} " and not line.endswith("# refused"):
            self.kafka.feed("orders", [("ann", "1000")])
            self.spent += 1000
        super().give(line)


def page(name: str) -> str:
    return (DOCS / "how-to" / f"{name}.md").read_text("utf-8")


def test_every_guide_with_commands_is_followed_by_a_test() -> None:
    guides = {
        it.stem for it in (DOCS / "how-to").glob("*.md") if any(b.language == "sh" for b in blocks(page(it.stem)))
    }
    assert guides == {*PAGES, ROTATE}


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_who_follows_the_guides_keeps_every_order(
    kafka: Kafka, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7: deployed, upgraded and back, recovered, replayed, restored, moved: no order is lost or doubled."""
    monkeypatch.setenv("KAFKA", kafka.bootstrap)
    write_files((DOCS / "savepoints.md").read_text("utf-8"), tmp_path)
    reader = Customer(monkeypatch, spark, tmp_path)
    reader.kafka = kafka
    for name in PAGES:
        reader.follow(page(name))
        topic = "totals-staging" if name == "replay" else "totals"  # a replay writes elsewhere
        assert int(kafka.read(topic)[-1].value()) == reader.spent, name
    assert (tmp_path / "there" / "orders").is_dir()
    assert not (tmp_path / "orders").exists()


@pytest.mark.slow
def test_who_follows_the_guide_on_secrets_goes_on_with_the_new_password(
    kafka: Kafka, postgres: PostgresServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7, J3: the role needs a password, and the file that has it is changed between two epochs."""
    database = Database.new(postgres)
    database.admin(f"GRANT CREATE ON DATABASE {database.name} TO locked")
    database.admin("GRANT CREATE ON SCHEMA public TO locked")
    monkeypatch.setenv("KAFKA", kafka.bootstrap)
    monkeypatch.setenv("DATABASE", database.dsn(user="locked"))
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "db").write_text(PASSWORD)
    write_files(page(ROTATE), tmp_path)
    reader = Customer(monkeypatch, spark, tmp_path)
    reader.kafka = kafka
    before = len(kafka.read("orders"))
    try:
        for language, block in blocks(page(ROTATE)):
            if language == "sql":
                database.admin(block.replace("ROLE pipeline", "ROLE locked"))
            elif language == "sh":
                reader.follow(f"```sh\n{block}```")
    finally:
        database.admin(f"ALTER ROLE locked PASSWORD '{PASSWORD}'")
    assert database.column("SELECT count(*) FROM payments") == [before + reader.spent // 1000]
    database.drop()

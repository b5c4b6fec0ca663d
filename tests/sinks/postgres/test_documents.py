"""What docs/sinks/postgres.md says is what the code does."""

import inspect
import re
from pathlib import Path

from onceward import errors
from onceward.sinks.postgres import PostgresSink
from onceward.sinks.postgres.columns import FITS

TEXT = (Path(__file__).parents[3] / "docs" / "sinks" / "postgres.md").read_text("utf-8")


def first_column(heading: str) -> list[str]:
    """The code words in the first column of the table under a heading."""
    table = TEXT.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [word for line in table.splitlines()[2:] for word in re.findall(r"`([^`]+)`", line.split("|")[1])]


def test_the_options_are_the_constructors() -> None:
    assert first_column("option") == list(inspect.signature(PostgresSink).parameters)


def test_the_errors_exist() -> None:
    assert [name for name in first_column("error") if not hasattr(errors, name)] == []


def test_every_type_is_in_the_table() -> None:
    made = [kind.typeName() for kind in FITS if kind.__name__ not in ("CharType", "VarcharType")]
    sql_names = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "decimal": "decimal(p,s)"}
    assert set(first_column("Spark")) == {sql_names.get(name, name) for name in made} | {"array"}


def test_the_example_makes_a_sink() -> None:
    example = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]
    made: dict[str, object] = {}
    exec(compile(example, "postgres.md", "exec"), made)
    assert isinstance(made["sink"], PostgresSink)

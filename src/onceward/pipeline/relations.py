"""The sources in Spark's plan of a query, as Spark numbers them: from the top, left before right, equal ones once."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame

V2: Final = "StreamingRelationV2"
V1: Final = "StreamingRelation"


def numbered(frame: DataFrame) -> list[Any]:
    """The relations of a streaming DataFrame; the number of each is its folder in Spark's checkpoint."""
    found: list[Any] = []
    for relation in _relations(frame._jdf.queryExecution().analyzed()):  # noqa: SLF001 - PySpark shows no plans
        if not any(relation.equals(other) for other in found):
            found.append(relation)
    return found


def is_kafka(relation: Any) -> bool:
    """Whether it is Spark's Kafka source."""
    return kind_of(relation) == V2 and str(relation.sourceName()).lower() == "kafka"


def options_of(relation: Any) -> Mapping[str, str]:
    """Of a V2 source, by their names in lower case."""
    options = relation.extraOptions().asCaseSensitiveMap()
    return {str(key).lower(): str(options[key]) for key in options}


def kind_of(plan: Any) -> str:
    """The class of a node of the plan."""
    return str(plan.getClass().getSimpleName())


def children_of(plan: Any) -> list[Any]:
    """The nodes below, from the left."""
    children = plan.children()
    return [children.apply(index) for index in range(children.size())]


def _relations(plan: Any) -> Iterator[Any]:
    if kind_of(plan) in {V1, V2}:
        yield plan
    for child in children_of(plan):
        yield from _relations(child)

"""What a pipeline reads and writes, under OpenLineage's names for datasets, without keys that were in them. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from onceward.telemetry.outward import outward

Options = Mapping[str, Any]
Offsets = dict[str, dict[str, int]]  # topic, partition as text, offset: as Spark writes them


class Dataset(NamedTuple):
    namespace: str
    name: str


class Read(NamedTuple):
    """From where to where a dataset was read: by partition of a topic; of any other source as Spark says it."""

    dataset: Dataset
    begins: object
    ends: object


def reads(sources: Sequence[tuple[str, Options]], before: Sequence[str], after: Sequence[str]) -> list[Read]:
    """Each source's datasets, with its positions before and after some epochs; those of Spark's offset log."""
    found: list[Read] = []
    for number, (name, options) in enumerate(sources):
        begin, end = (texts[number] if number < len(texts) else "" for texts in (before, after))
        begins, ends = _offsets(begin), _offsets(end)
        if name == "kafka" and ends is not None:
            found += [Read(kafka(options, topic), (begins or {}).get(topic, {}), ends[topic]) for topic in sorted(ends)]
        elif name == "kafka":
            topics = str(options.get("subscribe", "")).split(",")
            found += [Read(kafka(options, topic.strip()), {}, {}) for topic in topics if topic.strip()]
        else:
            found.append(Read(_other(name, options), outward(begin or None), outward(end or None)))
    return found


def written(kind: str, settings: Options, topics: Sequence[str] = ()) -> list[Dataset]:
    """A sink's datasets, from its class and its settings (`describe`). `topics`: those that a Kafka sink wrote to."""
    name = kind.rpartition(":")[2]
    if name == "KafkaSink":
        named = [str(settings["topic"])] if settings.get("topic") else []
        return [kafka(settings, topic) for topic in sorted({*named, *topics})]
    if name == "PostgresSink":
        return [_postgres(settings)]
    if name == "IcebergSink":
        return [Dataset(f"iceberg://{settings.get('catalog', {}).get('name', 'catalog')}", str(settings.get("table")))]
    if name in {"FileSink", "DeltaSink"}:
        return [Dataset("file", _place(settings.get("path")))]
    return [Dataset("onceward", name)]


def kafka(options: Options, topic: str) -> Dataset:
    """The first of the servers that are named: they all lead to the same cluster."""
    servers = options.get("kafka.bootstrap.servers") or options.get("bootstrap") or ""
    return Dataset(f"kafka://{str(servers).split(',')[0].strip() or 'unknown'}", topic)


def _postgres(settings: Options) -> Dataset:
    from psycopg.conninfo import conninfo_to_dict

    found = conninfo_to_dict(str(settings.get("dsn", "")))
    table = str(settings.get("table", "")).replace('"', "")
    schema, _, name = table.rpartition(".")
    where = f"postgres://{found.get('host') or 'localhost'}:{found.get('port') or 5432}"
    return Dataset(where, f"{found.get('dbname') or 'default'}.{schema or settings.get('schema') or 'public'}.{name}")


def _other(name: str, options: Options) -> Dataset:
    path = options.get("path")
    return Dataset("file", _place(path)) if path else Dataset("spark", name)


def _place(path: object) -> str:
    """Of a URL neither the user nor the query, which may have keys in them."""
    text = str(path)
    scheme, is_url, rest = text.partition("://")
    if is_url:
        host, slash, name = rest.partition("?")[0].partition("/")
        text = f"{scheme}://{host.rpartition('@')[2]}{slash}{name}"
    return str(outward(text))


def _offsets(text: str) -> Offsets | None:
    try:
        return msgspec.convert(json.loads(text), Offsets)
    except (ValueError, msgspec.ValidationError):
        return None

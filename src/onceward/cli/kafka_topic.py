"""`onceward kafka topic`: make topics, and look at them."""

from typing import Annotated

import typer

from onceward.cli.clusters import DirOption, KafkaOption, SettingOption, connected, named_values
from onceward.cli.output import AsJson, result
from onceward.cli.savepoint_tables import table

app = typer.Typer(help="Make topics, and look at them.", no_args_is_help=True)


@app.command()
def create(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", show_default=False)],
    *,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Of each topic. Default: as the brokers say (num.partitions).")
    ] = None,
    replicas: Annotated[int | None, typer.Option(min=1, help="Of each partition. Default: as the brokers say.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="NAME=VALUE", help="A setting of the topics, such as retention.ms=86400000."),
    ] = None,
    kafka: KafkaOption = None,
    setting: SettingOption = None,
    folder: DirOption = None,
    as_json: AsJson = False,
) -> None:
    """Make topics that are not there yet, and return when every partition has a leader."""
    configs = named_values("--config", config)
    with connected(kafka, setting, folder) as wire:
        from onceward.kafka import topics

        default = topics.BROKERS_CHOICE
        topics.create(wire, names, partitions or default, replicas or default, configs)
        made = wire.layouts(names)
    facts = [{"name": name, "partitions": it.partitions, "replicas": it.replicas} for name, it in made.items()]
    text = "\n".join(f"made {it['name']}: {_shape(it['partitions'], it['replicas'])}" for it in facts)
    result({"created": facts}, text, as_json=as_json)


@app.command("list")
def list_(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Kafka's own topics too.")] = False,
    kafka: KafkaOption = None,
    setting: SettingOption = None,
    folder: DirOption = None,
    as_json: AsJson = False,
) -> None:
    """The topics there are."""
    with connected(kafka, setting, folder) as wire:
        from onceward.kafka import topics

        found = [it for it in topics.listed(wire) if everything or not it.internal]
        bootstrap = wire.cluster.bootstrap
    rows = [[it.name, str(it.partitions), str(it.replicas)] for it in found]
    text = table("", ("topic", "partitions", "replicas"), rows)
    facts = [
        {"name": it.name, "partitions": it.partitions, "replicas": it.replicas, "internal": it.internal} for it in found
    ]
    result({"topics": facts}, text or f"There is no topic at {bootstrap} yet", as_json=as_json)


@app.command()
def describe(
    name: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    *,
    kafka: KafkaOption = None,
    setting: SettingOption = None,
    folder: DirOption = None,
    as_json: AsJson = False,
) -> None:
    """A topic's partitions, with their leaders, replicas and offsets, and the settings that are its own."""
    with connected(kafka, setting, folder) as wire:
        from onceward.kafka import topics

        found = topics.described(wire, name)
    rows = [
        [str(it.number), _leader(it.leader), _nodes(it.replicas), _nodes(it.in_sync), str(it.first), str(it.end)]
        for it in found.partitions
    ]
    text = table(found.name, ("partition", "leader", "replicas", "in sync", "first", "end"), rows)
    own = [f"  {key} = {value}" for key, value in sorted(found.settings.items())]
    told = ["settings of its own:", *own] if own else ["no setting differs from the brokers' defaults"]
    facts = {
        "name": found.name,
        "partitions": [it._asdict() for it in found.partitions],
        "settings": dict(found.settings),
    }
    result(facts, "\n".join([text, *told]), as_json=as_json)


def _shape(partitions: object, replicas: object) -> str:
    counts = (
        f"{count} {word}{'' if count == 1 else 's'}"
        for count, word in ((partitions, "partition"), (replicas, "replica"))
    )
    return ", ".join(counts) + ("" if replicas == 1 else " of each")


def _leader(node: int) -> str:
    return "none" if node < 0 else str(node)


def _nodes(nodes: list[int]) -> str:
    return ", ".join(map(str, nodes))

"""`onceward kafka`: the development broker, and a look into any Kafka."""

from pathlib import Path
from typing import Annotated

import typer

from onceward.cli import kafka_topic
from onceward.cli.kafka_consume import consume
from onceward.cli.kafka_groups import groups
from onceward.cli.kafka_produce import produce
from onceward.cli.kafka_transactions import transactions
from onceward.cli.output import AsJson, progress, result
from onceward.servers.broker import SIZES, DevBroker, default_dir

app = typer.Typer(
    help="A Kafka for development (no Docker, one broker or three), and a look into any Kafka.", no_args_is_help=True
)

Dir = Annotated[Path | None, typer.Option("--dir", help="The cluster's folder. Default: the user's data folder.")]


def _one_or_three(brokers: int | None) -> int | None:
    if brokers not in (None, *SIZES):
        raise typer.BadParameter(f"a dev cluster has 1 or 3 brokers, not {brokers}")
    return brokers


def _facts(broker: DevBroker) -> dict[str, object]:
    layout = broker.layout
    nodes = [
        {"node": node, "port": layout.ports[node - 1], "pid": broker.pid(node), "state": broker.state(node)}
        for node in layout.nodes
    ]
    running = all(it["state"] != "stopped" for it in nodes)
    return {"running": running, "bootstrap": broker.bootstrap, "dir": str(broker.dir), "brokers": nodes}


@app.command()
def start(
    *,
    brokers: Annotated[
        int | None, typer.Option(callback=_one_or_three, help="1 or 3. Default: what the folder has, else 1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_532, help="0: a free one. Default: what the folder has, else 9092."),
    ] = None,
    folder: Dir = None,
    as_json: AsJson = False,
) -> None:
    """Start Kafka and return when it serves; it stays after this command has ended."""
    broker = DevBroker(folder or default_dir(), port=port, brokers=brokers, report=progress)
    fresh = broker.start()
    text = f"Kafka {'runs' if fresh else 'already runs'} on {broker.bootstrap} (data in {broker.dir})"
    result({**_facts(broker), "started": fresh}, text, as_json=as_json)


@app.command()
def stop(*, folder: Dir = None, as_json: AsJson = False) -> None:
    """Stop Kafka; its data stays."""
    broker = DevBroker(folder or default_dir(), report=progress)
    ran = broker.stop()
    text = "Kafka has stopped" if ran else f"Kafka was not running in {broker.dir}"
    result({"stopped": ran, "dir": str(broker.dir)}, text, as_json=as_json)


@app.command()
def status(*, folder: Dir = None, as_json: AsJson = False) -> None:
    """Which brokers run, and where."""
    broker = DevBroker(folder or default_dir())
    if not broker.exists():
        facts: dict[str, object] = {
            "running": False,
            "bootstrap": None,
            "dir": str(broker.dir),
            "brokers": [],
        }
        result(facts, f"There is no dev cluster in {broker.dir}", as_json=as_json)
        return
    layout = broker.layout
    lines = [f"node {it}  127.0.0.1:{layout.ports[it - 1]}  {broker.state(it)}" for it in layout.nodes]
    result(_facts(broker), "\n".join([*lines, f"data in {broker.dir}"]), as_json=as_json)


app.add_typer(kafka_topic.app, name="topic")
app.command()(produce)
app.command()(consume)
app.command()(groups)
app.command()(transactions)

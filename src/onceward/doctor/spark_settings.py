"""Settings of a Spark session that endanger the guarantee, or cost more than they seem. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from onceward.doctor.finding import Finding, note, ok, risk
from onceward.sinks.parcel import is_local

ABOUT: Final = "Spark"


def judge(settings: Mapping[str, str], version: str) -> Iterator[Finding]:
    """As the session has them; what is not there is at Spark's default."""

    def on(name: str, otherwise: str = "false") -> bool:
        return settings.get(name, otherwise).lower() == "true"

    found = [*_endangering(on, settings), *_on_a_cluster(on, settings)]
    yield from found or [ok(ABOUT, f"{version}, no setting that endangers the guarantee")]


def _endangering(on: Callable[..., bool], settings: Mapping[str, str]) -> Iterator[Finding]:
    if on("spark.speculation"):
        says = "spark.speculation is on: two copies of a task would write under the same sequence numbers"
        yield risk(ABOUT, says, "spark.speculation=false (a start refuses it)")
    if int(settings.get("spark.stage.maxConsecutiveAttempts", "4")) > 1:
        says = (
            "a stage may be run again within an epoch (spark.stage.maxConsecutiveAttempts); it is noticed, and redone"
        )
        yield note(ABOUT, says, "spark.stage.maxConsecutiveAttempts=1, as ow.configure sets it")
    if settings.get("spark.hadoop.fs.file.impl"):
        says = "spark.hadoop.fs.file.impl is set: Spark could never take a snapshot of its state"
        yield risk(ABOUT, says, "remove the setting (a start refuses it)")
    if on("spark.sql.streaming.stateStore.skipNullsForStreamStreamJoins.enabled"):
        says = "skipNullsForStreamStreamJoins drops rows of a join's state that Spark takes for damaged"
        yield risk(ABOUT, says, "remove the setting")
    if not on("spark.sql.streaming.statefulOperator.checkCorrectness.enabled", "true"):
        says = "statefulOperator.checkCorrectness is off: Spark may drop rows of chained stateful operators"
        yield risk(ABOUT, says, "remove the setting")


def _on_a_cluster(on: Callable[..., bool], settings: Mapping[str, str]) -> Iterator[Finding]:
    if is_local(settings.get("spark.master", "local")):
        return
    if not on("spark.authenticate"):
        says = "spark.authenticate is off: whoever reaches the network reads what Spark ships, settings among it"
        yield risk(ABOUT, says, "spark.authenticate=true with a secret (docs/credentials.md)")
    elif not (on("spark.network.crypto.enabled") or on("spark.ssl.rpc.enabled")):
        says = "what Spark ships is not encrypted on the network"
        yield note(ABOUT, says, "spark.network.crypto.enabled=true (docs/credentials.md)")

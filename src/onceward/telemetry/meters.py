"""The names of our metrics, by Prometheus' rules: base units, `_total` for what only grows."""

from typing import Final, Literal, NamedTuple

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
STATES: Final = ("starting", "running", "waiting", "stopping", "ended", "failed")


class Meter(NamedTuple):
    """One metric. Every one has the label `pipeline` besides."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ()


EPOCHS: Final = Meter("onceward_epochs_committed_total", "counter", "Epochs committed in every sink")
ABORTED: Final = Meter(
    "onceward_attempts_aborted_total", "counter", "Tries of an epoch that were aborted, by class of error", ("cause",)
)
ROWS_READ: Final = Meter("onceward_rows_read_total", "counter", "Rows read in committed epochs, each counted once")
ROWS_WRITTEN: Final = Meter(
    "onceward_rows_written_total", "counter", "Rows committed to a sink, as it counts them", ("sink",)
)
EPOCH_SECONDS: Final = Meter(
    "onceward_epoch_seconds", "histogram", "From an epoch's first try to its commit in every sink"
)
PHASE_SECONDS: Final = Meter(
    "onceward_phase_seconds", "histogram", "The phases of an epoch's last try: vote, decide, commit", ("phase",)
)
SINK_SECONDS: Final = Meter(
    "onceward_sink_seconds",
    "histogram",
    "One sink's part in an epoch's last try: begin, write (compute is within it), pre_commit, decide, commit",
    ("sink", "phase"),
)
UP: Final = Meter("onceward_pipeline_up", "gauge", "1 while Spark runs the pipeline's query")
STATE: Final = Meter(
    "onceward_pipeline_state", "gauge", f"1 for the state that the pipeline is in: {', '.join(STATES)}", ("state",)
)
FENCED: Final = Meter("onceward_pipeline_fenced", "gauge", "1 if a newer driver has taken the pipeline over")
IN_DOUBT: Final = Meter(
    "onceward_epoch_in_doubt", "gauge", "1 while an epoch may be decided and is not committed in every sink"
)
WAITING: Final = Meter(
    "onceward_waiting_seconds", "gauge", "How long something has been out of reach and waited for", ("what",)
)
LAST_EPOCH: Final = Meter("onceward_last_committed_epoch", "gauge", "The number of the last committed epoch")
LAST_COMMIT: Final = Meter(
    "onceward_last_commit_timestamp_seconds", "gauge", "When the last epoch was committed, as Unix time"
)
LAG: Final = Meter(
    "onceward_lag_records", "gauge", "Records of a source topic not read yet when Spark looked last", ("topic",)
)
STATE_ROWS: Final = Meter("onceward_state_rows", "gauge", "Rows in a stateful operator's state", ("operator",))
STATE_MEMORY: Final = Meter(
    "onceward_state_memory_bytes", "gauge", "Memory that an operator's state takes", ("operator",)
)
STATE_DISK: Final = Meter(
    "onceward_state_disk_bytes", "gauge", "RocksDB's files of an operator's state, on local disks", ("operator",)
)
COUNTED: Final = (EPOCHS, ABORTED, ROWS_READ, ROWS_WRITTEN)
TIMED: Final = (EPOCH_SECONDS, PHASE_SECONDS, SINK_SECONDS)
SEEN: Final = (
    UP, STATE, FENCED, IN_DOUBT, WAITING, LAST_EPOCH, LAST_COMMIT, LAG, STATE_ROWS, STATE_MEMORY, STATE_DISK,
)  # fmt: skip
METERS: Final = (*COUNTED, *TIMED, *SEEN)

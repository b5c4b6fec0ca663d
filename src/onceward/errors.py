"""Every error Onceward raises on purpose. Names state the fact; messages name the setting and the fix.

OncewardError
├── ConfigurationError          refused before anything was read or written
│   ├── InvalidName             a pipeline name that is no valid id
│   ├── InvalidRows             columns or types a sink cannot take
│   ├── SourceNotReplayable     the first half of end to end is missing
│   ├── SourceRemoved           a topic that the home has positions of is no longer read
│   ├── SourceReplaced          a source topic was deleted and made again: positions are those of the old one
│   ├── SinkNotTransactional    the second half of end to end is missing
│   ├── SpeculationEnabled      Spark may run a task twice at once
│   ├── WorkerUnusable          an executor lacks the interpreter, or a package that tasks need
│   ├── TransactionsUnsupported the broker lacks transaction.version 2
│   ├── TopicUnusable           a topic is missing, too small, or not ours to write
│   ├── TargetUnusable          a table or directory is missing, not ours, or cannot be written as asked
│   ├── LookupUnusable          a lookup's query fails, or gives what cannot be kept
│   ├── DependencyMissing       an optional package is not installed
│   ├── SecretUnavailable       a setting refers to an environment variable or a file that is not there
│   ├── DestinationUnconfirmed  nobody has said that what a home names as a sink's place is the right one
│   ├── HomeUnusable            the home may not be written, or is no directory
│   ├── HomeMismatch            the home belongs to another pipeline or another format
│   │   ├── QueryChanged        the home holds the state of another query
│   │   ├── ForeignLineage      a sink's last commit is of another lineage than the home's
│   │   └── CheckpointDropped   the pipeline has ended, and its policy was to retain no checkpoint
│   ├── ResetRefused            a reset that would throw away what may be decided, or begin where nothing is
│   ├── SkipRefused             a record that is committed, not there, or not of a source cannot be skipped
│   ├── SavepointUnusable       a savepoint that is none, does not fit the query, or may not be restored here
│   ├── SavepointOutdated       sinks have committed more, or less, than the savepoint knows of
│   └── SnapshotUnusable        a snapshot that is none, cannot be had of these pipelines, or not restored here
├── SavepointDamaged            a file of a savepoint is missing, altered or not of it
├── SnapshotDamaged             a part of a snapshot is missing or altered, or topics have lost what was on its way
├── HomeInUse                   another driver holds the home and is alive
├── PipelineFenced              a newer driver owns the pipeline; this one adds nothing more
├── ReplayDiverged              a replay differs from what readers have already seen
├── MarkerMissing               committed epochs are known, but Kafka has no marker of them
├── InputLost                   Kafka has deleted events that the pipeline has not read yet
├── LedgerCorrupt               a file of ours fails its checksum, is cut short or is gone
├── EpochFailed                 an epoch was aborted as often as allowed; nothing of it is visible
├── EpochTooLong                an epoch takes longer than the broker's longest transaction; nothing of it is visible
├── CommitUnproven              whether an epoch is committed could not be learned in time
├── CommitUnfinished            an epoch is decided and not yet visible in every sink; the next start goes on
├── StagingLost                 what was staged for a decided epoch is gone
├── OutageTooLong               something was out of reach for longer than the pipeline's patience; nothing is lost
├── UserCodeFailed              a function or a file of the user's raises the same error again and again
├── QueryFailed                 Spark ended the query outside an epoch; nothing of the unfinished one is visible
├── SinkUnreachable             a database or catalogue did not answer; the epoch is redone or its commit repeated
├── LookupUnreachable           a lookup's database did not answer; the epoch has not begun, and the next start runs it
├── RowsDropped                 Spark dropped rows behind the watermark, where the pipeline says that none may be
├── RecordTooLarge              one record is over the topic's max.message.bytes
├── BrokerUnreachable           no broker answered before the deadline
│   └── PartitionSilent         brokers answer, and records that must be there do not come
├── BrokerRefused               a broker answered with an error code that is final
├── JarsUnavailable             a jar could not be fetched, or is not the locked one
├── JavaUnusable                Java is missing or too old
├── DevBrokerError              the development broker could not be started or stopped
└── PipelineFileError           the file given to `onceward run` has no usable build(spark)
"""

from typing import Final


class OncewardError(Exception):
    """The root: `except OncewardError` catches what Onceward says on purpose, and nothing else."""

    sink: str | None = None  # the name of the sink that it is about, where that is known


class ConfigurationError(OncewardError):
    """Refused before anything was read or written."""


class InvalidName(ConfigurationError):
    """A pipeline's name is its transactional id and its consumer group, for ever."""


class InvalidRows(ConfigurationError):
    """The rows handed to a sink have columns or types it cannot take."""


class SourceNotReplayable(ConfigurationError):
    """Exactly-once needs a source that can give the same events again."""


class SourceRemoved(ConfigurationError):
    """The home has positions of a topic that the pipeline no longer reads."""


class SourceReplaced(ConfigurationError):
    """A source topic has another id than the one that the home's positions are about."""


class SinkNotTransactional(ConfigurationError):
    """Exactly-once needs a sink that commits atomically or ignores repeats."""


class SpeculationEnabled(ConfigurationError):
    """Two copies of one task would write with the same sequence numbers."""


class WorkerUnusable(ConfigurationError):
    """An executor cannot run Onceward's tasks; the message names its host and what to install there."""


class TransactionsUnsupported(ConfigurationError):
    """Only the repaired transaction protocol (KIP-890) keeps the guarantee."""


class TopicUnusable(ConfigurationError):
    """A topic is missing, has too few partitions, or may not be written."""


class TargetUnusable(ConfigurationError):
    """A sink's table or directory is missing, belongs to somebody else, or cannot be written as asked."""


class LookupUnusable(ConfigurationError):
    """A lookup's query fails, or gives tables that cannot be kept or are not the ones asked for."""


class DependencyMissing(ConfigurationError):
    """A sink or a lookup needs a package that is not installed; the message names the extra that has it."""


class SecretUnavailable(ConfigurationError):
    """A setting such as `${env:NAME}` or `${file:/path}` refers to what is not there."""


class DestinationUnconfirmed(ConfigurationError):
    """A command would connect to what a home names, and nobody has confirmed that this is the right place."""


class HomeUnusable(ConfigurationError):
    """The home may not be written, or its path is no directory."""


class HomeMismatch(ConfigurationError):
    """The home was made by another pipeline, or by a format this version cannot read."""


class QueryChanged(HomeMismatch):
    """The home holds the state of another query, which this one would misread."""


class ForeignLineage(HomeMismatch):
    """A sink's last commit is of another lineage; nothing of it was touched."""

    def __init__(self, message: str, last: object) -> None:
        super().__init__(message)
        self.last = last  # a LastCommit


class CheckpointDropped(HomeMismatch):
    """The pipeline has ended, and its checkpoint was not retained: there is nothing to go on from."""


class ResetRefused(ConfigurationError):
    """A reset would throw away what may be decided, or begin where there is nothing to read; nothing has changed."""


class SkipRefused(ConfigurationError):
    """A record cannot be skipped: it is committed already, is not there, or is of no source."""


class SavepointUnusable(ConfigurationError):
    """It is none, it does not fit the query, or it may not be restored here."""


class SavepointOutdated(ConfigurationError):
    """Sinks have committed more, or less, than the savepoint knows of; going on would double or lose it."""


class SavepointDamaged(OncewardError):
    """A file of a savepoint is missing, altered, cut short, or not of it."""


class SnapshotUnusable(ConfigurationError):
    """It is none, or these pipelines have no consistent snapshot, or it may not be restored here."""


class SnapshotDamaged(OncewardError):
    """A part of a snapshot is missing or altered, or the topics no longer hold what was on its way."""


class HomeInUse(OncewardError):
    """Another driver holds this home and renews its lease."""


class PipelineFenced(OncewardError):
    """A newer driver owns the pipeline. Stop: whatever was open here has been aborted or finished there."""


class ReplayDiverged(OncewardError):
    """A replayed epoch differs from what was committed: the query is not deterministic."""


class MarkerMissing(OncewardError):
    """The ledger knows committed epochs and Kafka has no marker: starting from zero would duplicate."""


class InputLost(OncewardError):
    """Events between the last committed position and what Kafka still has are gone."""


class LedgerCorrupt(OncewardError):
    """A ledger file fails its checksum, is cut short or is missing."""


class EpochFailed(OncewardError):
    """The epoch was aborted as often as allowed; nothing of it is visible."""


class EpochTooLong(OncewardError):
    """The epoch's transaction was aborted by its timeout, and the broker grants no longer one."""


class CommitUnproven(OncewardError):
    """Whether the epoch is committed could not be learned in time. The next start resolves it."""


class CommitUnfinished(OncewardError):
    """The epoch is decided, and a sink has not made it visible yet. The next start goes on with it."""


class StagingLost(OncewardError):
    """What a sink had staged for a decided epoch is gone, and the epoch is not visible there."""


class OutageTooLong(OncewardError):
    """A sink, a broker or a lookup's database was out of reach for longer than the pipeline's patience."""


class UserCodeFailed(OncewardError):
    """A function of the user's raised an error that repeating does not cure; the message has its file and line."""


class QueryFailed(OncewardError):
    """Spark ended the query. The next start goes on after the last committed epoch."""


class SinkUnreachable(OncewardError):
    """A sink's database or catalogue did not answer."""


class LookupUnreachable(OncewardError):
    """A lookup's database did not answer, as often as it was asked. The epoch has not begun in any sink."""


class RowsDropped(OncewardError):
    """Rows were behind the watermark, so that Spark's state would not take them. The epoch is not committed."""


class RecordTooLarge(OncewardError):
    """One record exceeds what its topic accepts."""


class BrokerUnreachable(OncewardError):
    """No broker answered before the deadline."""


class PartitionSilent(BrokerUnreachable):
    """Records that are there did not come before the deadline. Empty answers are no statement that there are none."""


class BrokerRefused(OncewardError):
    """A broker answered with an error that repeating will not cure."""


class JarsUnavailable(OncewardError):
    """A locked jar could not be fetched, or what arrived is not what the lock names."""


class JavaUnusable(OncewardError):
    """Java is missing or older than 17."""


class DevBrokerError(OncewardError):
    """The development broker could not be started, stopped or found."""


class PipelineFileError(OncewardError):
    """The file has no usable build(spark)."""


# Doing these again would give the same: the pipeline stops and says so.
FINAL: Final = (
    BrokerRefused,
    CommitUnfinished,
    CommitUnproven,
    ConfigurationError,
    EpochTooLong,
    LedgerCorrupt,
    MarkerMissing,
    OutageTooLong,
    PipelineFenced,
    RecordTooLarge,
    ReplayDiverged,
    RowsDropped,
    StagingLost,
    UserCodeFailed,
)

# Starting again would give the same, until a person has done something (`onceward run --restart`, exit code 4).
NEEDS_PERSON: Final = (
    BrokerRefused,
    ConfigurationError,
    EpochTooLong,
    InputLost,
    JavaUnusable,
    LedgerCorrupt,
    MarkerMissing,
    PipelineFenced,
    PipelineFileError,
    RecordTooLarge,
    ReplayDiverged,
    RowsDropped,
    SavepointDamaged,
    SnapshotDamaged,
    StagingLost,
    UserCodeFailed,
)


def revive(name: str, message: str) -> OncewardError:
    """An error of ours that crossed a process as text, in its own type."""
    found = globals().get(name)
    kind = found if isinstance(found, type) and issubclass(found, OncewardError) else OncewardError
    return kind(message)

"""Events that Kafka has deleted before the pipeline read them: Spark's error for it, and ours."""

from typing import Final

from onceward.errors import InputLost

# Spark's name of the condition, and its text: an exception of a task carries only the latter.
TOLD: Final = ("KAFKA_DATA_LOSS", "Some data may have been lost because they are not available in Kafka any more")


def is_lost_input(error: BaseException) -> bool:
    """Doing it again would give the same."""
    return any(text in str(error) for text in TOLD)


def input_lost(error: BaseException) -> InputLost | None:
    """The error in our words, if it is that."""
    if not is_lost_input(error):
        return None
    reason = " ".join(str(error).partition("Reason:")[2].strip().splitlines()[:2])[:300]
    return InputLost(
        f"Kafka has deleted events that the pipeline has not read yet. {reason} Nothing of the epoch is "
        "visible. Restore the events, or raise the topic's retention.ms before the next outage. To go on without them, "
        "knowingly: read_kafka(..., options={'failOnDataLoss': 'false'}) and one start with --accept-lost-input "
        "(accept_lost_input=True)."
    )

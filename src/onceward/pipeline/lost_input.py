"""Events that Kafka has deleted before the pipeline read them: Spark's error for it, and ours."""

from typing import Final

from onceward.errors import InputLost

CONDITION: Final = "KAFKA_DATA_LOSS"  # Spark's name of the condition stands in its message


def is_lost_input(error: BaseException) -> bool:
    """Doing it again would give the same."""
    return CONDITION in str(error)


def input_lost(error: BaseException) -> InputLost | None:
    """The error in our words, if it is that."""
    if not is_lost_input(error):
        return None
    reason = next((line for line in str(error).splitlines() if CONDITION in line), "")
    reason = reason.partition(f"[{CONDITION}")[2].partition("] ")[2] or reason
    return InputLost(
        f"Kafka has deleted events that the pipeline has not read yet: {reason.strip()[-300:]} Nothing of the epoch is "
        "visible. Restore the events, or raise the topic's retention.ms before the next outage. To go on without them, "
        "knowingly: read_kafka(..., options={'failOnDataLoss': 'false'}) and one start with --accept-lost-input "
        "(accept_lost_input=True)."
    )

"""The Kafka sink: one transaction per epoch over every task, topic and partition."""

from onceward.sinks.kafka.sink import KafkaSink

__all__ = ["KafkaSink"]

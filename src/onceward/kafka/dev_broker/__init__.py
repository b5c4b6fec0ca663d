"""Kafka in KRaft mode from the locked jars, one node or three, without Docker."""

from onceward.kafka.dev_broker.cluster import SIZES, DevBroker, default_dir

__all__ = ["SIZES", "DevBroker", "default_dir"]

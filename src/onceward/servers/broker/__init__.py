"""Kafka in KRaft mode from the locked jars, one node or three, without Docker."""

from onceward.servers.broker.cluster import SIZES, DevBroker, default_dir
from onceward.servers.broker.layout import Detour

__all__ = ["SIZES", "Detour", "DevBroker", "default_dir"]

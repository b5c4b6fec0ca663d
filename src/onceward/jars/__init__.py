"""Jars as a lock file: each with its SHA-256, fetched once into the user's cache."""

from onceward.jars.cache import broker_jars, connector_jars
from onceward.jars.java import java_command

__all__ = ["broker_jars", "connector_jars", "java_command"]

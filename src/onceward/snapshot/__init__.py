"""Consistent snapshots across running pipelines that are joined by Kafka topics: `onceward snapshot`."""

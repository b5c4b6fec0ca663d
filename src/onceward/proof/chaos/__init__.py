"""Chaos: real Kafka, PostgreSQL and Spark, killed, paused and cut off on purpose while independent readers watch."""

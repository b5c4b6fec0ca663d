"""Servers for development, the demonstration, the proof and the tests: a real Kafka and a real PostgreSQL."""

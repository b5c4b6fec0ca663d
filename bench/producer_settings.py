"""Producer settings of those who want throughput: what "tuned" means for PyFlink and for Kafka's own tool.

It imports nothing: PyFlink's worker runs in an environment of its own.
"""

LARGE_BATCHES = {"linger.ms": "50", "batch.size": str(512 * 1024), "compression.type": "lz4"}

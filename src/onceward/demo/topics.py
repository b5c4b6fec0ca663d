"""The demo's topics: one in, two out."""

from typing import Final

PAYMENTS: Final = "payments"
OURS: Final = "balances-onceward"
SPARKS: Final = "balances-spark"
PARTITIONS: Final = 4

"""The three modes of barrier snapshots, measured in their simulation: the table of docs/snapshots-explained.md.

    python -m bench.barriers

Counted in steps and bytes, not in seconds: seeded, and the same on every machine.
"""

from random import Random

from onceward.snapshot_algorithms.barriers.comparison import compare, table


def main() -> None:
    print(table(compare(Random)))


if __name__ == "__main__":
    main()

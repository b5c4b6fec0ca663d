"""The two classic snapshot algorithms as pure machines: messages in, messages out. No engine, no clock, no dice.

`chandy_lamport/`: processes and channels of any shape. `barriers/`: dataflow graphs, as Flink takes their snapshots.
docs/snapshots-explained.md says what they do.
"""

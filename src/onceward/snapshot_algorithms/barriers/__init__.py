"""Asynchronous barrier snapshots (Carbone and others, 2015), the way Flink takes them.

`modes` is the algorithm: what an operator does when a barrier arrives. `graph` and `execution` are the dataflow it runs
in, with crashes and recoveries; `schedule` drives it, `checker` judges it, `comparison` measures the three modes.
"""

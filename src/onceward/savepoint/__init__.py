"""Savepoints: asked for by a person, complete and self-contained, to be restored anywhere (docs/savepoints.md).

`creating`, `verifying`, `keeping` (find and delete) and `unpacking`. No engine: files of a checkpoint, and which of
them one epoch needs.
"""

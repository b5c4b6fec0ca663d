"""Whose a target is: one sink of one pipeline, written down at its first start."""

from pathlib import Path
from typing import Final

import msgspec

from onceward.epoch.contract import Owner
from onceward.epoch.sealed import seal, unseal
from onceward.errors import TargetUnusable
from onceward.sinks.files.failures import explained
from onceward.sinks.files.layout import FORMAT
from onceward.sinks.files.staging import Staging

OWNER: Final = "owner.json"


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """Who may write to a target."""

    format: int = FORMAT
    pipeline: str
    sink: str


def require_ours(staging: Staging, target: Path, owner: Owner) -> None:
    """Claim the target, or find it claimed by this pipeline and sink."""
    mine = Deed(pipeline=owner.pipeline, sink=owner.sink)
    with explained("write to", staging.root):
        data = staging.claim(OWNER, seal(mine))
    deed = unseal(data, Deed, str(staging.root / OWNER), FORMAT)
    if deed != mine:
        raise TargetUnusable(
            f"{target} belongs to sink {deed.sink!r} of pipeline {deed.pipeline!r}, so sink {mine.sink!r} of "
            f"pipeline {mine.pipeline!r} may not write to it: give it a path of its own. If the other one is gone "
            f"for good, delete {staging.root}."
        )

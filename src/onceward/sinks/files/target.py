"""The target: published epochs, each a directory that came there by one rename."""

import os
from dataclasses import dataclass
from pathlib import Path

from onceward.epoch.contract import Owner
from onceward.epoch.sealed import unseal
from onceward.errors import LedgerCorrupt, StagingLost, TargetUnusable
from onceward.sinks.files.layout import FORMAT, MANIFEST, MANY, Manifest, epoch_folder, epoch_of
from onceward.sinks.files.staging import Try, sync_directory


@dataclass(frozen=True, slots=True)
class Target:
    """The directory that readers read."""

    path: Path
    epoch_column: str

    def folder(self, epoch: int, lineage: str) -> Path:
        """Where an epoch is published, or will be."""
        return self.path / epoch_folder(self.epoch_column, epoch, lineage)

    def newest(self, owner: Owner, lineage: str | None, since: int | None = None) -> Manifest | None:
        """What the newest directory of a lineage, or of any, says about itself; of this owner's, from an epoch on."""
        # Names sort as their epochs do while these have twelve digits, so that most are left out at a glance.
        least = "" if since is None or since >= MANY else epoch_folder(self.epoch_column, since, "")
        named = [
            (epoch, name)
            for name in os.listdir(self.path)  # noqa: PTH208 - asked before every epoch, and there may be many
            if name > least and (epoch := epoch_of(self.epoch_column, lineage, name)) is not None
        ]
        for epoch, name in sorted(named, reverse=True):
            if since is not None and epoch < since:
                return None
            manifest = _manifest(self.path / name)  # there is none in a copy without its hidden files
            if manifest is not None and (manifest.pipeline, manifest.sink) == (owner.pipeline, owner.sink):
                return manifest
        return None

    def require_free(self, epoch: int, lineage: str) -> None:
        """Find now what could make the commit fail for good."""
        folder = self.folder(epoch, lineage)
        if folder.exists():
            raise TargetUnusable(
                f"{folder} is there already, and epoch {epoch} is only now being written: the pipeline's home is an "
                "old copy, or somebody made this directory. Use the newest home, or move the directory away."
            )

    def publish(self, source: Path, staged: Try) -> bool:
        """The commit: one rename. False: there is nothing to rename, and nothing published either."""
        folder = self.folder(staged.epoch, staged.lineage)
        try:
            os.rename(source, folder)  # noqa: PTH104 - one system call
        except OSError:
            if self.path.is_dir() and not source.exists():
                return self._is_published(folder)
            if folder.exists():
                raise TargetUnusable(
                    f"epoch {staged.epoch} is decided and cannot be published: {folder} is in its place, and it is not "
                    "what this pipeline has staged. Move it away; the commit then goes on."
                ) from None
            raise
        sync_directory(self.path)
        return True

    def _is_published(self, folder: Path) -> bool:
        """Nobody but a commit of the same epoch makes this directory: pre_commit saw that it was not there."""
        if not folder.is_dir():
            return False
        sync_directory(self.path)  # whoever renamed it may have died before this
        return True


def lost(source: Path, folder: Path, epoch: int) -> StagingLost:
    """The error for a decided epoch that is nowhere."""
    return StagingLost(
        f"epoch {epoch} is decided, but what was staged for it is gone ({source}), and it is not published ({folder}). "
        "Restore either directory from a backup; the pipeline must not go on without it."
    )


def _manifest(folder: Path) -> Manifest | None:
    file = folder / MANIFEST
    try:
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return unseal(data, Manifest, str(file), FORMAT)
    except LedgerCorrupt as error:
        raise LedgerCorrupt(
            f"{file} is damaged, and the file sink cannot tell whether this epoch is its own: restore the file from a "
            "copy of the directory, or move the directory away if its rows are kept elsewhere."
        ) from error

"""What can be wrong with a backup, or with the place it is to be brought back to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from memory.engine.errors import LamboError
from memory.engine.ports import StoreRejected, StoreTransient


class InvalidBackup(LamboError):
    """The file is no whole backup that this version can read; nothing was written."""

    code: ClassVar[str] = "invalid_backup"


class BackupFailed(LamboError):
    """The backup could not be written; no file of its name was left."""

    code: ClassVar[str] = "backup_failed"


class RestoreRefused(LamboError):
    """The place is not one to restore this backup to; nothing was written."""

    code: ClassVar[str] = "restore_refused"


@contextmanager
def unwrapped() -> Iterator[None]:
    """Let our own errors leave a transaction as they are, not as the store's refusal of a row."""
    try:
        yield
    except (StoreTransient, StoreRejected) as error:
        if isinstance(error.__cause__, LamboError):
            raise error.__cause__ from error
        raise

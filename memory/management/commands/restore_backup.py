"""`lambo restore-backup FILE`: a whole backup into an empty folder, or one session beside others.

Owns the arguments, the order in which the folder is made sure of, and the exit codes: 0 done, 1 it
failed while running, 2 the command line makes no sense. The lock of the data folder is held all
the time, so no server runs on it meanwhile, and none that runs is disturbed.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connections

from memory.anchors import AnchorFile
from memory.backup.adopting import adopt_session, find_source
from memory.backup.archive import Archive
from memory.backup.errors import RestoreRefused
from memory.backup.restoring import check_archive, fitting_key, restore_all
from memory.cli.identity import default_agent
from memory.cli.main import DONE, INTERRUPTED, report
from memory.cli.progress import ProgressLine
from memory.cli.verb import UsageError
from memory.data_folder import DataFolder
from memory.engine.config import Durability
from memory.engine.errors import LamboError, StoreUnavailable
from memory.engine.ports import StoreRejected, StoreTransient
from memory.engine.requests import check_session_name
from memory.management.migrating import bring_tables_up_to_date
from memory.system import RandomIds, SystemClock


class Command(BaseCommand):
    help = "Bring a backup back. Example: lambo --data-dir new restore-backup monday.lambo"
    # Checks would open databases before the lock is held.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="what lambo backup made")
        parser.add_argument(
            "--into",
            metavar="NAME",
            help="bring one session back under this new name, beside what is there "
            "(default: everything, into an empty data folder)",
        )
        parser.add_argument(
            "--session", metavar="NAME", help="which session --into means, if there are several"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_args: Any, **options: Any) -> None:
        os.umask(0o077)  # what is made is its owner's alone
        line = ProgressLine("lambo restore-backup")
        try:
            told = _run(options, line)
            line.end()
            text = told.pop("text")
            print(json.dumps(told, indent=2) if options["json"] else text)
            code = DONE
        except LamboError as error:
            line.end()
            code = report("lambo restore-backup", error)
        except KeyboardInterrupt:
            print("lambo restore-backup: interrupted; nothing was written", file=sys.stderr)
            code = INTERRUPTED
        if code != DONE:
            sys.exit(code)


def _run(options: Mapping[str, Any], line: ProgressLine) -> dict[str, Any]:
    name: str | None = options["into"]
    if settings.PROCESS.config.durability is Durability.MEMORY:
        raise StoreUnavailable("this configuration keeps sessions in memory only")
    if name is not None:
        check_session_name(name)
    elif options["session"] is not None:
        raise UsageError("--session goes with --into; without it everything is brought back")
    with Archive(Path(options["file"])) as archive:
        check_archive(archive, line.show)
        source = None if name is None else find_source(archive, options["session"])
        with DataFolder(settings.PROCESS.data_dir).hold() as held:
            try:
                if name is None or source is None:
                    return _restore_all(archive, held.folder, line)
                return _adopt(archive, source, name, held.folder, line)
            except (StoreTransient, StoreRejected) as error:
                raise StoreUnavailable(
                    f"the store in {held.folder.path} cannot be written: {error}; nothing was"
                ) from error
            finally:
                connections.close_all()


def _own_key(folder: DataFolder) -> str | None:
    given: str | None = settings.PROCESS.chain_key
    if given is not None:
        return given
    return folder.chain_key() if folder.chain_key_path.exists() else None


def _restore_all(archive: Archive, folder: DataFolder, line: ProgressLine) -> dict[str, Any]:
    own = _own_key(folder)
    key = fitting_key(archive, own)
    if own is not None and key != own:
        raise RestoreRefused(
            f"{folder.path} has a chain key of its own, which does not fit the backup's audit "
            "rows; name a folder in which no server has run"
        )

    def keep_key() -> None:
        if own is None and key is not None:
            folder.keep_chain_key(key)

    bring_tables_up_to_date(may_migrate=True)
    count = restore_all(
        archive,
        chain_key=key,
        keep_key=keep_key,
        anchors=AnchorFile(folder.anchors_path),
        progress=line.show,
    )
    sessions = [part.session for part in archive.manifest.sessions]
    return {
        "text": f"brought {len(sessions)} sessions back into {folder.path}, {count:,} rows; "
        "their audit chains hold",
        "folder": str(folder.path),
        "rows": count,
        "sessions": sessions,
        "chains": len(archive.manifest.chains),
    }


def _adopt(
    archive: Archive, source: str, name: str, folder: DataFolder, line: ProgressLine
) -> dict[str, Any]:
    own = _own_key(folder)
    key = fitting_key(archive, own)
    bring_tables_up_to_date(may_migrate=True)
    adopted = adopt_session(
        archive,
        source,
        name,
        source_key=key if archive.manifest.chain_key_fingerprint is not None else None,
        own_key=own or folder.chain_key(),
        actor=default_agent(),
        now=SystemClock().now(),
        ids=RandomIds(),
        progress=line.show,
    )
    return {
        "text": f"brought session '{source}' back as '{name}' in {folder.path}: "
        f"{adopted.row_count:,} rows, {adopted.linked_count} of them audit rows",
        "folder": str(folder.path),
        "rows": adopted.row_count,
        "session": name,
        "source": source,
        "audit_rows": adopted.linked_count,
    }

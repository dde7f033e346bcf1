"""`lambo backup FILE`: everything in one file, beside a running server or without one.

Owns the arguments, what is told, and the exit codes: 0 done, 1 it failed while running, 2 the
command line makes no sense. How a backup is made is `memory.backup`.
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

from memory.backup.taking import Taken, take_backup
from memory.cli.main import DONE, INTERRUPTED, report
from memory.cli.progress import ProgressLine
from memory.data_folder import DataFolder
from memory.engine.config import Durability
from memory.engine.errors import LamboError, StoreUnavailable
from memory.engine.ports import StoreRejected, StoreTransient
from memory.system import SystemClock


class Command(BaseCommand):
    help = "Write everything to one file. Example: lambo backup monday.lambo"
    # Checks would open the engine's database for writing, which belongs to the server.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the file to make; it must not exist")
        parser.add_argument(
            "--without-chain-key",
            action="store_true",
            help="leave the key of the audit chains out; restoring then asks for it",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_args: Any, **options: Any) -> None:
        os.umask(0o077)  # what is made is its owner's alone
        try:
            code = _run(options)
        except LamboError as error:
            code = report("lambo backup", error)
        except KeyboardInterrupt:
            print("lambo backup: interrupted", file=sys.stderr)
            code = INTERRUPTED
        if code != DONE:
            sys.exit(code)


def _run(options: Mapping[str, Any]) -> int:
    if settings.PROCESS.config.durability is Durability.MEMORY:
        raise StoreUnavailable("this configuration keeps sessions in memory only; nothing to save")
    folder = DataFolder(settings.PROCESS.data_dir)
    line = ProgressLine("lambo backup")
    try:
        taken = take_backup(
            Path(options["file"]).absolute(),
            chain_key=None if options["without_chain_key"] else _chain_key(folder),
            now=SystemClock().now(),
            progress=line.show,
        )
    except (StoreTransient, StoreRejected) as error:
        raise StoreUnavailable(
            f"the store in {folder.path} cannot be read: {error}; has a server of this version "
            "run there?"
        ) from error
    finally:
        line.end()
    print(json.dumps(_as_wire(taken), indent=2) if options["json"] else _text(taken))
    return DONE


def _chain_key(folder: DataFolder) -> str | None:
    """The folder's own key. One that was given as a variable is kept elsewhere, and stays there."""
    if settings.PROCESS.chain_key is not None or not folder.chain_key_path.exists():
        return None
    return folder.chain_key()


def _as_wire(taken: Taken) -> dict[str, Any]:
    manifest = taken.manifest
    return {
        "file": str(taken.path),
        "bytes": taken.size_bytes,
        "rows": manifest.row_count,
        "sessions": [
            {"session": part.session, "position": part.position, "counts": dict(part.counts)}
            for part in manifest.sessions
        ],
        "chains": len(manifest.chains),
        "has_chain_key": manifest.has_chain_key,
    }


def _text(taken: Taken) -> str:
    manifest = taken.manifest
    key = "the chain key is in it" if manifest.has_chain_key else "the chain key is not in it"
    return (
        f"{taken.path}: {len(manifest.sessions)} sessions, {manifest.row_count:,} rows, "
        f"{taken.size_bytes:,} bytes; {key}"
    )

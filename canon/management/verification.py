"""`canon verify`: prove the audit rows against their hash chain, up to the last anchor.

Reads through the alias that cannot write, beside a server or without one. The chain key and the
anchors are the data folder's, unless others are named. Makes no key: where there is none, nothing
was ever sealed.

Invariant: exit code 0 means that every linked row was proven; 1, that a row is named, or that
nothing could be proven at all.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from canon.management.subcommand import Subcommand, print_json, say
from memory.anchors import AnchorFile
from memory.cli.verb import UsageError
from memory.data_folder import DataFolder, DataFolderUnusable
from memory.engine.config import Durability
from memory.engine.errors import StoreUnavailable
from memory.engine.ports import StoreRejected, StoreTransient
from memory.engine.requests import check_session_name
from memory.service.audit_check import AuditReport, check_trail
from memory.store.audit_trail import DjangoAuditTrail

OK: Final = 0
BROKEN: Final = 1


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--session", metavar="NAME", help="only rows of this name (default: all, deleted ones too)"
    )
    parser.add_argument(
        "--anchors", metavar="FILE", help="anchors to prove against (default: the data folder's)"
    )


def run(options: Mapping[str, Any]) -> int:
    session: str | None = options["session"]
    if session is not None:
        check_session_name(session)
    report = verify(session, options["anchors"])
    if options["json"]:
        print_json(report.as_wire())
    else:
        first, *rest = report.lines()
        print(first)
        for line in rest:
            print(line)
    if report.session_count == 0:
        say("verify", "there are no audit rows")
    return OK if report.is_sound else BROKEN


def verify(session: str | None, anchors_path: str | None) -> AuditReport:
    """Prove what the configured store holds."""
    if settings.PROCESS.config.durability is Durability.MEMORY:
        raise StoreUnavailable("this configuration keeps sessions in memory only; nothing to prove")
    folder = DataFolder(settings.PROCESS.data_dir)
    path = folder.anchors_path if anchors_path is None else Path(anchors_path)
    if anchors_path is not None and not path.is_file():
        raise UsageError(f"there is no file of anchors at {path}")
    key = _chain_key(folder)
    anchors = AnchorFile(path).read()  # before the rows: a server goes on meanwhile
    try:
        return check_trail(DjangoAuditTrail(), key, anchors, session_id=session)
    except (StoreTransient, StoreRejected) as error:
        raise StoreUnavailable(
            f"the store in {folder.path} cannot be read: {error}; has a server of this version "
            "run there?"
        ) from error


def _chain_key(folder: DataFolder) -> bytes:
    given: str | None = settings.PROCESS.chain_key
    if given is None and not folder.chain_key_path.exists():
        raise DataFolderUnusable(
            f"there is no chain key in {folder.path}, and LAMBO_CHAIN_KEY is not set: no server of "
            "this version has run there, or the key is elsewhere",
            path=str(folder.chain_key_path),
        )
    return (given or folder.chain_key()).encode()


SUBCOMMAND: Final = Subcommand(
    name="verify",
    summary="Prove the audit rows against their hash chain; name the first broken one.",
    example="lambo canon verify --anchors backup/anchors.jsonl",
    add_arguments=add_arguments,
    run=run,
)

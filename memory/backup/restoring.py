"""Bringing a whole backup back, into a data folder that holds nothing yet.

Everything is checked before the first row is written: the seal, every table's checksum, that the
tables are those of this version, that the place is empty, that the chain key fits. The rows then go
in within one transaction of the engine's database, in which their audit chains are proven as well,
up to the heads the manifest names; only then is it committed. Leases come back free, under the
token and position they had, so a server that still holds an older or a newer state is fenced.

Invariant: after a failure, wherever it strikes, no session, token or audit row is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Model

from memory.anchors import Anchor, AnchorFile, AnchorsRead, ChainKeyMismatch
from memory.backup import tables
from memory.backup.archive import Archive, Manifest
from memory.backup.errors import InvalidBackup, RestoreRefused, unwrapped
from memory.backup.taking import PROGRESS_ROWS, Progress
from memory.engine.audit_chain import key_fingerprint
from memory.service.audit_check import check_trail
from memory.store.audit_trail import DjangoAuditTrail
from memory.store.dialects import dialect_for
from memory.store.transactions import writing

_MUST_BE_EMPTY: Final = (
    *("lambo_session", "lambo_lease", "lambo_audit_event", "lambo_token", "lambo_interaction"),
)


def check_archive(archive: Archive, progress: Progress) -> None:
    """Prove all of a backup, and that its tables are those of this version. Writes nothing.

    Raises `InvalidBackup`.
    """
    manifest = archive.manifest
    known = {tables.table_of(model): model for model in tables.engine_models()}
    optional = {tables.table_of(model): model for model in tables.django_models()}
    for part in manifest.tables:
        model = known.pop(part.name, None) or optional.pop(part.name, None)
        if model is None or tables.columns_of(model) != part.columns:
            raise _other_version(archive, f"its table {part.name} is another")
    if known:
        raise _other_version(archive, f"it has no table {min(known)}")
    for part in archive.check_tables():
        progress(f"checked {part.name}", part.row_count)


def _other_version(archive: Archive, what: str) -> InvalidBackup:
    return InvalidBackup(
        f"{archive.path} is not used: {what} than that of this version; it was made by lambo "
        f"{archive.manifest.made_by}: bring it back with that version, then upgrade",
        path=str(archive.path),
    )


def fitting_key(archive: Archive, own: str | None) -> str | None:
    """The key that the backup's audit rows are linked with: its own, or the one that is given.

    None where no row was ever linked. Raises `ChainKeyMismatch`, or `RestoreRefused` where there
    is no key at all.
    """
    fingerprint = archive.manifest.chain_key_fingerprint
    if fingerprint is None:
        return own
    within = archive.chain_key
    for key in (within, own):
        if key is not None and key_fingerprint(key.encode()) == fingerprint:
            return key
    if own is None:
        raise RestoreRefused(
            f"{archive.path} holds no chain key, and there is none here: set LAMBO_CHAIN_KEY, or "
            "put the file chain-key of the folder it was made of into the data folder",
            path=str(archive.path),
        )
    raise ChainKeyMismatch(known=fingerprint, given=key_fingerprint(own.encode()))


def check_is_empty(cursor: CursorWrapper) -> None:
    """Refuse a database that holds anything. Raises `RestoreRefused`."""
    for name in _MUST_BE_EMPTY:
        cursor.execute(f"SELECT 1 FROM {name} LIMIT 1")
        if cursor.fetchone() is not None:
            raise RestoreRefused(
                "the data folder holds sessions, tokens or audit rows already; name an empty one "
                "with --data-dir, or bring one session back beside them with --into"
            )


def restore_all(
    archive: Archive,
    *,
    chain_key: str | None,
    keep_key: Callable[[], None],
    anchors: AnchorFile,
    progress: Progress,
) -> int:
    """Write every row of a checked backup into an empty database; how many.

    `keep_key` is called once the place is known to be empty, before anything is committed: rows
    without their key could be proven by nobody. `anchors` gets the heads the manifest names. Raises
    `RestoreRefused` or `InvalidBackup`, and then nothing is there.
    """
    alias = tables.ENGINE_WRITER
    count = 0
    with unwrapped(), writing(alias) as cursor:
        # Rows are taken as they were, also where some text of them was never UTF-8.
        dialect_for(cursor.db.vendor).decode_leniently(cursor.connection)
        check_is_empty(cursor)
        keep_key()
        cursor.execute("DELETE FROM lambo_setting")
        for model in tables.engine_models():
            name, done = tables.table_of(model), 0
            for step in tables.add_engine_rows(cursor, model, archive.rows(name)):
                done += step
                if done % PROGRESS_ROWS == 0:
                    progress(name, done)
            progress(name, done)
            count += done
        # Nobody holds what was brought back; token and position go on from where they were.
        cursor.execute("UPDATE lambo_lease SET node_id = '', endpoint = '', expires_at = 0")
        tables.set_counters(alias, tables.engine_models())
        prove_chains(archive, chain_key, cursor)
        # Django's part is committed first: if the engine's fails after it, doing it all again
        # writes the same logins once more.
        count += _restore_logins(archive)
    connections[alias].close()
    if archive.manifest.chains:
        anchors.append(_heads(archive.manifest))
    return count


def _restore_logins(archive: Archive) -> int:
    present = {part.name for part in archive.manifest.tables if part.database == "django"}
    models = [model for model in tables.django_models() if tables.table_of(model) in present]
    if not models:
        return 0
    with transaction.atomic(using=tables.DJANGO):
        parts: dict[type[Model], Iterator[list[Any]]] = {
            model: archive.rows(tables.table_of(model)) for model in models
        }
        return tables.put_django_rows(parts)


def _heads(manifest: Manifest) -> list[Anchor]:
    return [
        Anchor(manifest.made_at, part.session, part.session_created_at, part.sequence, part.hash)
        for part in manifest.chains
    ]


def prove_chains(archive: Archive, chain_key: str | None, cursor: CursorWrapper) -> None:
    """Prove the audit rows that were written, up to the heads in the manifest.

    Raises `InvalidBackup`: they do not fit, and were not sound when the backup was made.
    """
    if chain_key is None:
        return
    heads: dict[str, dict[int, str]] = {
        part.session: {part.sequence: part.hash} for part in archive.manifest.chains
    }
    report = check_trail(
        DjangoAuditTrail(within=cursor),
        chain_key.encode(),
        AnchorsRead(heads, line_count=len(heads)),
    )
    if not report.is_sound:
        fault = report.faults[0]
        raise InvalidBackup(
            f"{archive.path} is not used: audit row {fault.sequence} of session "
            f"'{fault.session_id}' does not fit its chain: {fault.sentence}",
            path=str(archive.path),
        )

"""The file of a backup: a zip of one member of lines for each table, a manifest, and a seal.

Owns the layout, the checksums and how the file comes to be: under a temporary name, synced, then
given its own, which must be free. A member `tables/NAME.jsonl` holds one row a line; the member
`manifest.json` says what the others hold; the comment at the end of the zip is the SHA-256 of every
byte before its digits. Knows no database, and holds one line at a time.

Invariant: a file of the final name is whole; one whose bytes changed in any place, or that ends
early, is refused before a row of it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from memory.backup.cells import read_row, write_row
from memory.backup.errors import BackupFailed, InvalidBackup
from memory.engine.times import Micros, format_rfc3339
from memory.version import VERSION

FORMAT: Final = "lambo-backup"
FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
CHAIN_KEY: Final = "chain-key"
FILE_MODE: Final = 0o600

_SEAL: Final = b"lambo-backup sha256 "
_DIGEST_DIGITS: Final = 64
_COMPRESSION_LEVEL: Final = 1
"""Vectors hardly shrink, and text does at any level."""
_BLOCK_BYTES: Final = 1 << 20
_LINE_BYTES_MAX: Final = 1 << 30
_MANIFEST_BYTES_MAX: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class TablePart:
    """A table in a backup. `database` is `engine` or `django`; `sha256` is of its lines."""

    name: str
    database: str
    columns: tuple[str, ...]
    row_count: int
    sha256: str

    @property
    def member(self) -> str:
        return f"tables/{self.name}.jsonl"


@dataclass(frozen=True, slots=True)
class ChainPart:
    """The newest link of the audit chain of one name when the backup was made."""

    session: str
    session_created_at: Micros
    sequence: int
    hash: str


@dataclass(frozen=True, slots=True)
class SessionPart:
    """A session in a backup, how far its log went, and what it held."""

    session: str
    position: int
    token: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself."""

    made_at: Micros
    made_by: str
    tables: tuple[TablePart, ...]
    sessions: tuple[SessionPart, ...]
    chains: tuple[ChainPart, ...]
    chain_key_fingerprint: str | None
    has_chain_key: bool

    @property
    def row_count(self) -> int:
        return sum(table.row_count for table in self.tables)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "made_at": self.made_at,
            "made_at_text": format_rfc3339(self.made_at),
            "made_by": self.made_by,
            "tables": [
                {
                    "name": table.name,
                    "database": table.database,
                    "columns": list(table.columns),
                    "rows": table.row_count,
                    "sha256": table.sha256,
                }
                for table in self.tables
            ],
            "sessions": [
                {
                    "session": part.session,
                    "position": part.position,
                    "token": part.token,
                    "counts": dict(part.counts),
                }
                for part in self.sessions
            ],
            "chains": [
                {
                    "session": part.session,
                    "session_created_at": part.session_created_at,
                    "sequence": part.sequence,
                    "hash": part.hash,
                }
                for part in self.chains
            ],
            "chain_key_fingerprint": self.chain_key_fingerprint,
            "has_chain_key": self.has_chain_key,
        }


def manifest_from_json(document: Any) -> Manifest:
    """Raises `InvalidBackup` for another version, or what is no manifest."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidBackup("its manifest is not that of a backup")
    version = document.get("version")
    if version != FORMAT_VERSION:
        raise InvalidBackup(
            f"its format is version {version!r:.40}, made by lambo "
            f"{document.get('made_by')!r:.40}; this version reads {FORMAT_VERSION}"
        )
    try:
        return Manifest(
            made_at=int(document["made_at"]),
            made_by=str(document["made_by"]),
            tables=tuple(
                TablePart(
                    str(table["name"]),
                    str(table["database"]),
                    tuple(map(str, table["columns"])),
                    int(table["rows"]),
                    str(table["sha256"]),
                )
                for table in document["tables"]
            ),
            sessions=tuple(
                SessionPart(
                    str(part["session"]),
                    int(part["position"]),
                    int(part["token"]),
                    {str(name): int(count) for name, count in part["counts"].items()},
                )
                for part in document["sessions"]
            ),
            chains=tuple(
                ChainPart(
                    str(part["session"]),
                    int(part["session_created_at"]),
                    int(part["sequence"]),
                    str(part["hash"]),
                )
                for part in document["chains"]
            ),
            chain_key_fingerprint=document["chain_key_fingerprint"],
            has_chain_key=bool(document["has_chain_key"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidBackup("its manifest cannot be read") from error


# -- writing ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _LineFile:
    """An open member, the digest of what went into it, and how many lines that were."""

    file: IO[bytes]
    digest: Any = field(default_factory=hashlib.sha256)
    line_count: int = 0


class ArchiveWriter:
    """A backup in the making. Use it in `with`: only `finish` makes a file of the final name."""

    def __init__(self, path: Path) -> None:
        """Raises `BackupFailed` where the name is taken or the folder cannot be written."""
        self.path = path
        self._fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        self._tables: list[TablePart] = []
        if path.exists() or path.is_symlink():
            raise self._failed("a file of this name exists already, and is not written over")
        try:
            descriptor = os.open(
                self._fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE
            )
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error
        self._file = open(descriptor, "w+b")  # noqa: SIM115  # closed by __exit__
        self._zip = zipfile.ZipFile(
            self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL
        )

    def add_table(
        self, name: str, database: str, columns: tuple[str, ...], rows: Iterable[Any]
    ) -> TablePart:
        """Write a table's rows as they come."""
        info = zipfile.ZipInfo(f"tables/{name}.jsonl")
        info.compress_type = zipfile.ZIP_DEFLATED
        try:
            with self._zip.open(info, "w", force_zip64=True) as member:
                out = _LineFile(member)
                for row in rows:
                    line = write_row(row)
                    out.file.write(line)
                    out.digest.update(line)
                    out.line_count += 1
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error
        part = TablePart(name, database, columns, out.line_count, out.digest.hexdigest())
        self._tables.append(part)
        return part

    @property
    def tables(self) -> tuple[TablePart, ...]:
        return tuple(self._tables)

    def finish(self, manifest: Manifest, *, chain_key: str | None) -> int:
        """Close, seal, sync and name the file; its size in bytes."""
        try:
            if chain_key is not None:
                self._zip.writestr(zipfile.ZipInfo(CHAIN_KEY), chain_key)
            text = json.dumps(manifest.as_json(), ensure_ascii=True, indent=1)
            self._zip.writestr(zipfile.ZipInfo(MANIFEST), text)
            self._zip.comment = _SEAL + b"0" * _DIGEST_DIGITS
            self._zip.close()
            self._file.flush()
            size = self._file.seek(0, os.SEEK_END)
            digest = _digest_of(self._file, size - _DIGEST_DIGITS)
            self._file.seek(size - _DIGEST_DIGITS)
            self._file.write(digest.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
            # A link fails where the name was taken meanwhile; a rename would write over it.
            os.link(self._fresh, self.path)
            self._fresh.unlink()
            _sync_folder(self.path.parent)
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error
        return size

    def _failed(self, reason: str) -> BackupFailed:
        return BackupFailed(f"cannot write {self.path}: {reason}", path=str(self.path))

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        # A zip that was not finished would write its end when it is collected.
        self._zip.fp = None
        self._file.close()
        self._fresh.unlink(missing_ok=True)


def _digest_of(file: IO[bytes], size: int) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    left = size
    while left and (block := file.read(min(_BLOCK_BYTES, left))):
        digest.update(block)
        left -= len(block)
    return digest.hexdigest()


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- reading ---------------------------------------------------------------------------------------


class Archive:
    """A backup to read. Opening it proves the seal; `check_tables` proves every row's line."""

    def __init__(self, path: Path) -> None:
        """Raises `InvalidBackup`."""
        self.path = path
        try:
            self._file = open(path, "rb")  # noqa: SIM115  # closed by __exit__
        except OSError as error:
            raise InvalidBackup(f"cannot read {path}: {error.strerror}", path=str(path)) from error
        try:
            self.seal = self._check_seal()
            self._zip = zipfile.ZipFile(self._file)
            self.manifest = manifest_from_json(json.loads(self._small(MANIFEST)))
        except InvalidBackup as error:
            self._file.close()
            raise self._named(error) from error
        except (zipfile.BadZipFile, zlib.error, LookupError, ValueError, OSError) as error:
            self._file.close()
            raise self._named(InvalidBackup(f"it cannot be read: {error}")) from error

    def _check_seal(self) -> str:
        tail = len(_SEAL) + _DIGEST_DIGITS
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, size - tail))
        sealed = self._file.read(tail)
        if not sealed.startswith(_SEAL) or len(sealed) != tail:
            raise InvalidBackup("it does not end as a backup does: it was cut short, or is none")
        digest = sealed[len(_SEAL) :].decode("ascii", "replace")
        if _digest_of(self._file, size - _DIGEST_DIGITS) != digest:
            raise InvalidBackup("its bytes do not fit its checksum: it was damaged or changed")
        return digest

    def _small(self, name: str) -> bytes:
        if self._zip.getinfo(name).file_size > _MANIFEST_BYTES_MAX:
            raise InvalidBackup(f"its {name} is too large")
        return self._zip.read(name)

    def _named(self, error: InvalidBackup) -> InvalidBackup:
        return InvalidBackup(f"{self.path} is not used: {error.message}", path=str(self.path))

    @property
    def chain_key(self) -> str | None:
        """The key the audit rows are linked with, if the backup holds it."""
        if not self.manifest.has_chain_key:
            return None
        return self._small(CHAIN_KEY).decode("ascii", "replace").strip()

    def table(self, name: str) -> TablePart:
        """Raises `InvalidBackup` where it holds no such table."""
        for part in self.manifest.tables:
            if part.name == name:
                return part
        raise self._named(InvalidBackup(f"it holds no table {name}"))

    def check_tables(self) -> Iterator[TablePart]:
        """Prove one table after the other: its checksum and its count of rows."""
        for part in self.manifest.tables:
            digest, count = hashlib.sha256(), 0
            for line in self._lines(part):
                digest.update(line)
                count += 1
            if count != part.row_count or digest.hexdigest() != part.sha256:
                raise self._named(
                    InvalidBackup(
                        f"{part.name} does not fit the manifest: {count} of {part.row_count} rows"
                    )
                )
            yield part

    def rows(self, name: str) -> Iterator[list[Any]]:
        """The rows of a table, in the order of the columns of its part."""
        part = self.table(name)
        for number, line in enumerate(self._lines(part), 1):
            try:
                yield read_row(line, len(part.columns))
            except InvalidBackup as error:
                where = f"{part.member} line {number}: {error.message}"
                raise self._named(InvalidBackup(where)) from error

    def _lines(self, part: TablePart) -> Iterator[bytes]:
        try:
            with self._zip.open(part.member) as member:
                while line := member.readline(_LINE_BYTES_MAX):
                    yield line
        except (zipfile.BadZipFile, zlib.error, KeyError, OSError, EOFError) as error:
            raise self._named(InvalidBackup(f"{part.member} cannot be read: {error}")) from error

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()


def new_manifest(
    writer: ArchiveWriter,
    *,
    made_at: Micros,
    sessions: Iterable[SessionPart],
    chains: Iterable[ChainPart],
    chain_key_fingerprint: str | None,
    has_chain_key: bool,
) -> Manifest:
    """The manifest of what was written so far."""
    return Manifest(
        made_at=made_at,
        made_by=VERSION,
        tables=writer.tables,
        sessions=tuple(sessions),
        chains=tuple(chains),
        chain_key_fingerprint=chain_key_fingerprint,
        has_chain_key=has_chain_key,
    )

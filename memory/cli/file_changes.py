"""Additions to files of others: planned first, kept on record, and taken back exactly.

Owns the order of a change (read, edit, back up, write in one step) and the record of each, in a
folder of the user's that nobody else can read, for such files hold secrets. Refuses to replace what
it did not write, and to touch a file that it cannot read whole. Knows no client.

Invariant: a file is either as it was or as planned, whenever this process ends; and while nobody
else has changed it, taking a change back restores its bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from memory.cli import commented_json, commented_toml
from memory.cli.client_files import Addition, Form
from memory.cli.commented_json import Malformed, find
from memory.data_folder import FILE_MODE, FOLDER_MODE
from memory.engine.errors import LamboError

FILE_BYTES_MAX: Final = 50_000_000

CREATED, CHANGED, UNCHANGED = "created", "changed", "unchanged"
RESTORED, REMOVED, KEPT, NOTHING = "restored", "removed", "kept", "nothing"


class FileNotEditable(LamboError):
    """A client's file cannot be read, edited or written; nothing was changed."""

    code: ClassVar[str] = "file_not_editable"


class EntryTaken(LamboError):
    """A client's file has such an entry already, and somebody else wrote it."""

    code: ClassVar[str] = "entry_taken"


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of a file, or became of it. `before` is None for one that was not there;
    `original` is what taking it back restores."""

    addition: Addition
    path: Path
    did: str
    before: str | None
    after: str | None
    original: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """What was done to a file: its text before (None: there was none), the digest of its text
    after, the value that was put there, and the folders that were made for it."""

    original: str | None
    digest: str
    value: Any
    folders: tuple[str, ...]


class Ledger:
    """The records, one file for each file of a client."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path_of(self, path: Path) -> Path:
        """Where the record of a file is, which holds its text from before."""
        return self._folder / f"{hashlib.sha256(str(path).encode()).hexdigest()[:24]}.json"

    def find(self, path: Path) -> Record | None:
        try:
            held = json.loads(self.path_of(path).read_text(encoding="utf-8"))
            return Record(held["original"], held["digest"], held["value"], tuple(held["folders"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileNotEditable(f"the record {self.path_of(path)} is damaged: {error}") from error

    def keep(self, path: Path, record: Record) -> None:
        self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        held = {
            "path": str(path),
            "original": record.original,
            "digest": record.digest,
            "value": record.value,
            "folders": record.folders,
        }
        _write(self.path_of(path), json.dumps(held, ensure_ascii=False, indent=1), mode=FILE_MODE)

    def forget(self, path: Path) -> None:
        self.path_of(path).unlink(missing_ok=True)


# -- planning --------------------------------------------------------------------------------------


def plan_addition(addition: Addition, ledger: Ledger, *, replaces: bool) -> Change:
    """What an addition comes to; writes nothing. Raises `FileNotEditable` and `EntryTaken`.

    `replaces` allows to take the place of an entry that somebody else wrote.
    """
    path = find_path(addition)
    before = _read(path)
    record = ledger.find(path)
    with _explained(path):
        after = _added(addition, before or "", record, replaces=replaces, path=path)
    if before is not None and after == before:
        return Change(addition, path, UNCHANGED, before, after, before)
    original = before
    if record is not None:
        is_untouched = before is not None and digest_of(before) == record.digest
        original = record.original if is_untouched else _without(addition, before, record)
    return Change(addition, path, CREATED if before is None else CHANGED, before, after, original)


def plan_removal(addition: Addition, ledger: Ledger) -> Change:
    """What taking an addition back comes to; writes nothing."""
    path = find_path(addition)
    before, record = _read(path), ledger.find(path)
    if record is None or before is None:
        return Change(addition, path, NOTHING, before, before, before)
    if digest_of(before) == record.digest:
        return Change(addition, path, RESTORED, before, record.original, record.original)
    # Somebody changed the file since: only what was added goes, and only as it was added.
    with _explained(path):
        after = _without(addition, before, record)
    did = KEPT if after == before else REMOVED
    return Change(addition, path, did, before, after, after)


def find_path(addition: Addition) -> Path:
    """The file itself, behind links; under another of its names if it is there so."""
    for path in (addition.path, *addition.alternatives):
        if path.exists():
            return path.resolve()
    return addition.path.resolve()


def _added(
    addition: Addition, text: str, record: Record | None, *, replaces: bool, path: Path
) -> str:
    value = addition.value
    if addition.form is Form.TEXT:
        is_ours = not text or text == value or (record is not None and text == record.value)
        if not (is_ours or replaces):
            raise _taken(path, "is there already")
        return str(value)
    editor = commented_json if addition.form is Form.JSON else commented_toml
    held = find(editor.read(text), addition.place)
    if addition.is_item:
        if isinstance(held, list) and value in held:
            return text
        if isinstance(held, list) and record is not None and record.value in held:
            text = commented_json.remove_item(text, addition.place, record.value)
        return commented_json.append(text, addition.place, value)
    if held == value:
        return text
    is_ours = held is None or (record is not None and held == record.value)
    if not (is_ours or replaces):
        raise _taken(path, f"has an entry '{'.'.join(addition.place)}' already")
    edited: str = editor.put(text, addition.place, value)
    return edited


def _without(addition: Addition, text: str | None, record: Record) -> str | None:
    """A text without what the record says was added; as it is where that was changed since."""
    if text is None:
        return None
    if addition.form is Form.TEXT:
        return None if text == record.value else text
    editor = commented_json if addition.form is Form.JSON else commented_toml
    held = find(editor.read(text), addition.place)
    if addition.is_item:
        if not isinstance(held, list) or record.value not in held:
            return text
        return commented_json.remove_item(text, addition.place, record.value)
    return editor.remove(text, addition.place) if held == record.value else text


def _taken(path: Path, what: str) -> EntryTaken:
    return EntryTaken(
        f"{path} {what}, which this command did not write; "
        "nothing was changed (--replace takes its place, --undo brings it back)",
        path=str(path),
    )


# -- carrying out ----------------------------------------------------------------------------------


def apply_addition(change: Change, ledger: Ledger) -> None:
    """Back up, then write. Does nothing for a file that is as it should be."""
    if change.did == UNCHANGED:
        return
    assert change.after is not None
    earlier = ledger.find(change.path)
    missing = [str(folder) for folder in change.path.parents if not folder.exists()]
    folders = (*(earlier.folders if earlier else ()), *missing)
    digest = digest_of(change.after)
    # First the record: whoever finds the file changed finds its text from before as well.
    ledger.keep(change.path, Record(change.original, digest, change.addition.value, folders))
    with _explained(change.path):
        change.path.parent.mkdir(parents=True, exist_ok=True)
        _write(change.path, change.after)


def apply_removal(change: Change, ledger: Ledger) -> None:
    """Write what was there before, or remove the file and the folders made for it."""
    record = ledger.find(change.path)
    if record is None or change.did == NOTHING:
        ledger.forget(change.path)
        return
    with _explained(change.path):
        if change.after is None:
            change.path.unlink(missing_ok=True)
            for folder in record.folders:
                # In use by something else by now, or gone.
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        elif change.after != change.before:
            _write(change.path, change.after)
    if change.did != KEPT:
        ledger.forget(change.path)


def digest_of(text: str) -> str:
    """By which a text is known again."""
    return hashlib.sha256(text.encode()).hexdigest()


# -- files -----------------------------------------------------------------------------------------


def _read(path: Path) -> str | None:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise FileNotEditable(f"{path} is larger than any client's file", path=str(path))
        # Bytes, not text: line ends stay as they are.
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileNotEditable(f"cannot read {path}: {error.strerror}", path=str(path)) from error
    except UnicodeDecodeError as error:
        raise FileNotEditable(
            f"{path} is not UTF-8; nothing was changed", path=str(path)
        ) from error


def _write(path: Path, text: str, *, mode: int | None = None) -> None:
    """Write in one step, with the mode the file has."""
    if mode is None and path.exists():
        mode = stat.S_IMODE(path.stat().st_mode)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(fresh, flags, 0o666 if mode is None else FILE_MODE)
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except Malformed as error:
        raise FileNotEditable(
            f"{path} cannot be edited: {error}; nothing was changed", path=str(path)
        ) from error
    except OSError as error:
        raise FileNotEditable(f"cannot write {path}: {error.strerror}", path=str(path)) from error

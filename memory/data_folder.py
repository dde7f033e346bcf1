"""The folder in which one server keeps everything, and the lock that makes it the only one.

Owns the folder's permissions, the node id with its lock, the runtime file by which clients find
the server, and the keys that sign cookies and seal audit rows. Knows nothing of sessions, databases
or HTTP. Invariant: a runtime file is believed only while the lock is held by the process that wrote
it, so a file left behind by a killed server never sends anyone to a stranger's port.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from memory.engine.errors import LamboError

FOLDER_MODE = 0o700
FILE_MODE = 0o600
SECRET_BYTES = 48
SECRET_CHARACTERS_MIN = 32
LOCK_ATTEMPTS = 10
LOCK_PAUSE_SECONDS = 0.02
"""A client that looks whether the lock is held takes it for a moment; a server tries again."""

NODE_FILE = "node-id"
_ID_BYTES = 36


class DataFolderUnusable(LamboError):
    """The data folder cannot be made, read or written; nothing was started."""

    code: ClassVar[str] = "data_folder_unusable"


class DataFolderHeld(LamboError):
    """Another server runs on the data folder; `pid`, `url` and `since` name it."""

    code: ClassVar[str] = "data_folder_held"


@dataclass(frozen=True, slots=True)
class Runtime:
    """How to reach the server that runs on a folder."""

    url: str
    pid: int
    version: str
    started_at: str
    node_id: str
    operator_secret: str = field(repr=False)
    """Opens the human acts. Never printed, never sent by the bridge."""


class DataFolder:
    """The files of one data folder. Making this object touches nothing on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.node_path = path / NODE_FILE
        self.runtime_path = path / "runtime.json"
        self.secret_key_path = path / "secret-key"
        self.chain_key_path = path / "chain-key"
        self.anchors_path = path / "anchors.jsonl"
        self.start_lock_path = path / "start.lock"
        self.log_path = path / "server.log"

    def prepare(self) -> None:
        """Make the folder, for its owner alone, and prove that it can be written.

        A folder that exists keeps its mode: it may be a mount that others set up on purpose, and
        every file in it that holds a secret is 0600 by itself.
        """
        with self._explained("make"):
            nearest = next(path for path in (self.path, *self.path.parents) if path.exists())
            if not nearest.is_dir():
                raise DataFolderUnusable(
                    f"the data folder {self.path} cannot be: {nearest} is a file; "
                    "name another folder with LAMBO_DATA_DIR",
                    path=str(self.path),
                )
            # The mode is for the last part only; parents get the user's own default.
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(mode=FOLDER_MODE)
        with self._explained("write to"):
            probe = self._temporary("probe")
            try:
                probe.write_bytes(b"lambo")
            finally:
                probe.unlink(missing_ok=True)

    def secret_key(self) -> str:
        """The key that signs cookies; made at the first call and kept. Safe to call at once."""
        return self._kept_key(
            self.secret_key_path,
            "remove the file and a new one is made (everyone has to log in again)",
        )

    def chain_key(self) -> str:
        """The key that seals audit rows; made at the first call and kept. Safe to call at once."""
        return self._kept_key(
            self.chain_key_path, "bring it back from a copy: no other one fits the audit rows"
        )

    def keep_chain_key(self, key: str) -> None:
        """Put the chain key of rows that come from elsewhere in place; one that is there stays."""
        self._put_key(self.chain_key_path, key)

    def _kept_key(self, path: Path, advice: str) -> str:
        with self._explained("read the key in"):
            if path.exists():
                return self._read_key(path, advice)
        self._put_key(path, _draw_secret())
        with self._explained("read the key in"):
            return self._read_key(path, advice)

    def _put_key(self, path: Path, key: str) -> None:
        self.prepare()
        with self._explained("write the key to"):
            fresh = self._temporary(path.name)
            try:
                _write_synced(fresh, key)
                # A link fails when the name exists: of two first starts, one key survives.
                with contextlib.suppress(FileExistsError):
                    os.link(fresh, path)
            finally:
                fresh.unlink(missing_ok=True)
            _sync_folder(self.path)

    def hold(self) -> HeldFolder:
        """Become the one server of this folder. Raises `DataFolderHeld` when there is one.

        The lock is the operating system's: it ends with the process, however that ends.
        """
        self.prepare()
        with self._explained("open the node id in"):
            descriptor = os.open(self.node_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            if not _lock(descriptor):
                raise self._held_by_another()
            with self._explained("write the node id to"):
                node_id = self._own_node_id(descriptor)
                started_at = _now()
                # Behind the id, so that a torn write can never damage it.
                os.pwrite(descriptor, f"\n{os.getpid()} {started_at}\n".encode(), _ID_BYTES)
                # Left behind by a process that was killed.
                self.runtime_path.unlink(missing_ok=True)
            return HeldFolder(self, descriptor, node_id=node_id, started_at=started_at)
        except BaseException:
            os.close(descriptor)
            raise

    def find_holder(self) -> int | None:
        """The process id of the server that holds the folder, or None."""
        try:
            descriptor = os.open(self.node_path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(descriptor)[0]
        finally:
            os.close(descriptor)  # gives a shared lock back too
        return None

    def find_runtime(self) -> Runtime | None:
        """The server that runs on this folder now, or None; a stale file counts as none."""
        holder = self.find_holder()
        if holder is None:
            return None
        try:
            document = json.loads(self.runtime_path.read_bytes())
            # A server of another version may say more; what is asked for must be there.
            runtime = Runtime(**{name.name: document[name.name] for name in fields(Runtime)})
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise DataFolderUnusable(
                f"{self.runtime_path} belongs to another user", path=str(self.runtime_path)
            ) from error
        except (ValueError, TypeError, KeyError) as error:
            raise DataFolderUnusable(
                f"{self.runtime_path} is damaged; stop the server, then remove the file",
                path=str(self.runtime_path),
            ) from error
        return runtime if holder == runtime.pid else None

    def _read_key(self, path: Path, advice: str) -> str:
        os.chmod(path, FILE_MODE)  # a restored copy may have lost its mode
        key = path.read_text(encoding="ascii", errors="replace").strip()
        if len(key) < SECRET_CHARACTERS_MIN:
            raise DataFolderUnusable(f"{path} holds no key; {advice}", path=str(path))
        return key

    def _own_node_id(self, descriptor: int) -> str:
        """The id on file, or a new one. A damaged one is refused: guessing takes leases over."""
        import uuid  # every command reads this module, none but a server has an id

        stored = os.pread(descriptor, _ID_BYTES, 0)
        if not stored.strip(b"\0\n "):
            node_id = str(uuid.uuid4())
            os.pwrite(descriptor, node_id.encode(), 0)
            os.fsync(descriptor)
            _sync_folder(self.path)
            return node_id
        try:
            return str(uuid.UUID(stored.decode("ascii")))
        except ValueError as error:
            raise DataFolderUnusable(
                f"{self.node_path} is damaged; remove the file and a new id is made "
                "(open sessions then wait for their lease to end)",
                path=str(self.node_path),
            ) from error

    def _held_by_another(self) -> DataFolderHeld:
        with contextlib.suppress(OSError):
            descriptor = os.open(self.node_path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                pid, since = _holder(descriptor)
            finally:
                os.close(descriptor)
            runtime = self.find_runtime()
            url = runtime.url if runtime else None
            serves = f"serves {url}" if url else "is starting or stopping"
            return DataFolderHeld(
                f"another server runs on {self.path}: process {pid} {serves} (since {since})",
                pid=pid,
                url=url,
                since=since,
            )
        return DataFolderHeld(f"another server runs on {self.path}", pid=None, url=None, since=None)

    def _temporary(self, name: str) -> Path:
        return self.path / f".{name}.{os.getpid()}.{os.urandom(4).hex()}"

    @contextlib.contextmanager
    def _explained(self, act: str) -> Iterator[None]:
        """Turn what the operating system says into an error that names the folder."""
        try:
            yield
        except OSError as error:
            hint = ""
            if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                hint = "; name another folder with LAMBO_DATA_DIR"
            raise DataFolderUnusable(
                f"cannot {act} the data folder {self.path}: {error.strerror}{hint}",
                path=str(self.path),
            ) from error


class HeldFolder:
    """A folder whose lock this process holds. Give it back with `release`, or use it in `with`."""

    def __init__(
        self, folder: DataFolder, descriptor: int, *, node_id: str, started_at: str
    ) -> None:
        self.folder = folder
        self.node_id = node_id
        self.started_at = started_at
        self._descriptor: int | None = descriptor

    def publish(self, *, url: str, version: str) -> Runtime:
        """Tell clients where to find this server; call when it answers. Replaces the last word."""
        runtime = Runtime(
            url=url,
            pid=os.getpid(),
            version=version,
            started_at=self.started_at,
            node_id=self.node_id,
            operator_secret=_draw_secret(),
        )
        fresh = self.folder._temporary("runtime")
        with self.folder._explained("write to"):
            try:
                _write_synced(fresh, json.dumps(asdict(runtime), indent=1))
                os.replace(fresh, self.folder.runtime_path)
            finally:
                fresh.unlink(missing_ok=True)
        return runtime

    def release(self) -> None:
        """Remove the runtime file, then let go of the lock. May be called twice."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):  # the lock decides, not the file
            self.folder.runtime_path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> HeldFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def is_data_folder(path: Path) -> bool:
    """Whether a server has kept its data there before."""
    return (path / NODE_FILE).is_file()


def read_runtime(path: Path) -> Runtime | None:
    """The server that runs on the data folder `path` now, or None."""
    return DataFolder(path).find_runtime()


def _draw_secret() -> str:
    import secrets  # every command reads this module, few draw one

    return secrets.token_urlsafe(SECRET_BYTES)


def _lock(descriptor: int) -> bool:
    for attempt in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if attempt + 1 < LOCK_ATTEMPTS:
                time.sleep(LOCK_PAUSE_SECONDS)
    return False


def _holder(descriptor: int) -> tuple[int | None, str]:
    """Process id and start of the holder as it wrote them behind the node id."""
    words = os.pread(descriptor, 128, _ID_BYTES).decode("ascii", "replace").split()
    if len(words) >= 2 and words[0].isdecimal():
        return int(words[0]), words[1]
    return None, "a moment ago"


def _write_synced(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _now() -> str:
    return datetime.now(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"

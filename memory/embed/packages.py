"""Loads what embedders need, and says what to do when it is absent or not as expected.

Embedders import their engines when they are built, not when this program starts: most programs use
one of them, and each costs seconds or hundreds of megabytes. Invariant: whatever is absent or
altered is an `InvalidConfiguration` that names the embedder and the way out, never a traceback.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from memory.engine.errors import InvalidConfiguration

WITHOUT: Final = (
    'To serve without an embedder, by words alone: LAMBO_EMBEDDER=none, or kind = "none" under '
    "[embedder] in lambo.toml"
)
"""The way on for who cannot mend an installation now."""


def load_package(name: str, *, kind: str, install: str) -> Any:
    """The module `name`; its type is Any because these packages ship no types."""
    try:
        return import_module(name)
    # OSError: a native library that does not fit this machine.
    except (ImportError, OSError) as error:
        raise InvalidConfiguration(
            f"embedder.kind {kind} needs the package {name}, which cannot be loaded here "
            f"({type(error).__name__}); install it with: pip install {install}. {WITHOUT}",
            setting="embedder.kind",
        ) from error


def checksum_of(path: Path, *, kind: str) -> str:
    """SHA-256 of a file, in lower-case hexadecimal."""
    digest = sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise InvalidConfiguration(
            f"embedder.kind {kind} cannot read its file {path.name}: {error.strerror}. {WITHOUT}",
            setting="embedder.kind",
        ) from error
    return digest.hexdigest()


def check_file(path: Path, expected: str, *, kind: str) -> None:
    """Refuse a file that is not byte for byte the one vectors were calibrated with."""
    found = checksum_of(path, kind=kind)
    if found != expected:
        raise InvalidConfiguration(
            f"embedder.kind {kind}: {path.name} is not the expected file (SHA-256 {found[:16]}..., "
            f"expected {expected[:16]}...); install its package again. {WITHOUT}",
            setting="embedder.kind",
        )

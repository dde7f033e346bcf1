"""What differs between database engines, as values; all other SQL of `memory.store` is shared.

A dialect is a handful of SQL fragments and the classification of that driver's errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper


class Verdict(Enum):
    """What an error of the driver means for the attempt."""

    REJECTED = "this data will never be accepted"
    TRANSIENT = "trying again may help"
    DISCONNECTED = "trying again may help, on a fresh connection"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The vendor's part of our SQL.

    `now_micros` is an expression for the server's clock. `row_lock` ends a SELECT that locks what
    it reads. `is_text`, `is_integer`, `is_real`, `is_flag` tell whether a column (a `%s`-free
    format with one `{}`) holds a value of its declared type, for engines that do not enforce types;
    `as_bytes`, another such format, is what a column holds as bytes. `judge` reads a driver's
    exception and gives the verdict and a sentence for people. `is_undecodable` tells whether a read
    failed for text that is not UTF-8; `decode_leniently` makes the connection give such text as
    bytes instead. `scrub` is the port's, on a cursor outside any transaction. `write_vectors` puts
    (contract, concept, numbers) of a session, and `read_vectors` gives what stands under a contract
    of it by concept id; the numbers are float32, little endian. `check_place` raises
    `StoreReplaced` where an open connection leads to another database than its address does by
    now, and `StoreTransient` where that leads nowhere.
    """

    now_micros: str
    row_lock: str
    is_text: str
    is_integer: str
    is_real: str
    is_flag: str
    as_bytes: str
    judge: Callable[[BaseException], tuple[Verdict, str]]
    is_undecodable: Callable[[BaseException], bool]
    decode_leniently: Callable[[Any], None]
    scrub: Callable[[CursorWrapper], bool]
    write_vectors: Callable[[CursorWrapper, str, Sequence[tuple[str, str, bytes]]], None]
    read_vectors: Callable[[CursorWrapper, str, str], list[tuple[str, bytes]]]
    check_place: Callable[[BaseDatabaseWrapper], None]


@cache
def dialect_for(vendor: str) -> Dialect:
    """The dialect of a Django connection's `vendor`. Raises `ValueError` for one we do not know."""
    if vendor == "sqlite":
        from memory.store.sqlite import SQLITE

        return SQLITE
    if vendor == "postgresql":
        from memory.store.postgres import POSTGRES

        return POSTGRES
    raise ValueError(f"no store dialect for the database vendor {vendor!r}")

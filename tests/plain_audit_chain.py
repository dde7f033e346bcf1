"""The audit chain written a second time, as plainly as can be: HMAC by hand, rows as dictionaries.

Follows the published definition of HMAC (two nested hashes with the key against 0x36 and 0x5c), and
the description of a link; shares no code with the product.
"""

from __future__ import annotations

import hashlib
from typing import Any

COVERED = (
    *("id", "kind", "node_id", "from_status", "to_status", "blast_radius", "last_demotion_time"),
    *("occurred_at", "actor", "superseded_by", "detail"),
)
TEXTS = ("reason", "texts", "removed")


def plain_hmac(key: bytes, message: bytes) -> bytes:
    block = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block) + message).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in block) + inner).digest()


def framed(value: Any) -> bytes:
    if value is None:
        return b"n"
    kind, data = ("t", value.encode()) if isinstance(value, str) else ("i", str(value).encode())
    return f"{kind}{len(data)}:".encode() + data


def plain_start(key: bytes, session: str, older: int) -> str:
    return plain_hmac(key, b"lambo audit start 1\n" + framed(session) + framed(older)).hex()


def plain_digests(key: bytes, row: dict[str, Any]) -> str | None:
    told = [
        f'"{name}":"'
        + plain_hmac(
            key, b"lambo audit text 1\n" + framed(row["id"]) + framed(name) + framed(row[name])
        ).hex()
        + '"'
        for name in TEXTS
        if row[name] is not None
    ]
    return "{" + ",".join(told) + "}" if told else None


def plain_link(key: bytes, session: str, previous: str, sequence: int, row: dict[str, Any]) -> str:
    """The link of a row whose `digests` stand in it."""
    message = b"lambo audit link 1\n" + framed(previous) + framed(session) + framed(sequence)
    message += b"".join(framed(row[name]) for name in COVERED) + framed(row["digests"])
    return plain_hmac(key, message).hex()

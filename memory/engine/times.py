"""Instants as integers: microseconds since the Unix epoch, UTC.

Integers compare, store and vectorise alike on every engine, and no zone can shift them. Text enters
and leaves as RFC 3339; a time without a zone is refused, never guessed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from memory.engine.errors import InvalidArgument

Micros: TypeAlias = int

SECOND: Micros = 1_000_000
EARLIEST: Micros = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z; no text and no datetime can say an earlier instant."""
LATEST: Micros = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE = timedelta(microseconds=1)
_RFC3339 = re.compile(
    # Hours are bounded here: newer Pythons read 24:00 as the next day, which the RFC has not.
    r"\d{4}-\d{2}-\d{2}[Tt ](?:[01]\d|2[0-3]):\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})",
    re.ASCII,
)


def to_micros(moment: datetime) -> Micros:
    """Microseconds since the epoch of an aware datetime."""
    assert moment.tzinfo is not None
    return (moment - EPOCH) // _ONE


def to_datetime(instant: Micros) -> datetime:
    """The aware UTC datetime of an instant."""
    return EPOCH + timedelta(microseconds=instant)


def parse_rfc3339(field: str, text: str) -> Micros:
    """Read an RFC 3339 time; years 1 to 9999 in UTC.

    Digits past the microsecond are cut. Raises `InvalidArgument` naming `field` for a naive or
    impossible time.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise InvalidArgument(
            field, f"{field} must be an RFC 3339 time with a zone, like 2026-01-31T12:00:00Z"
        )
    fraction = match.group(1)
    trimmed = text if fraction is None else text.replace(fraction, fraction[:7], 1)
    try:
        moment = datetime.fromisoformat(trimmed.upper().replace("Z", "+00:00"))
        return to_micros(moment.astimezone(UTC))
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(field, f"{field} is not a possible time") from error


def format_rfc3339(instant: Micros) -> str:
    """RFC 3339 in UTC with `Z`; the fraction is left out when it is zero."""
    moment = to_datetime(instant)
    # isoformat, not strftime: %Y drops leading zeros of early years on some platforms.
    return moment.replace(tzinfo=None).isoformat() + "Z"


def format_rfc3339_seconds(instant: Micros) -> str:
    """RFC 3339 in UTC cut to whole seconds, for lines people read."""
    return to_datetime(instant).replace(microsecond=0, tzinfo=None).isoformat() + "Z"

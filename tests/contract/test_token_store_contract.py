"""What every store of tokens does, durable or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from engine_counts import ENGINES
from engine_database import EngineDatabase, engine_database
from memory.engine.ports import StoreRejected
from memory.engine.rights import Scope
from memory.engine.tokens import TokenRecord, TokenStore
from memory.store.tokens import DjangoTokenStore, InMemoryTokenStore

RECORD = TokenRecord(
    "0123456789abcdef",
    "ci of the läden",
    "ann",
    frozenset({Scope.WRITE, Scope.READ}),
    ("shop-*", "läden"),
    may_act_for_others=True,
    digest="d" * 64,
    created_at=1_700_000_000_000_000,
)
OTHER = replace(RECORD, token_id="0123456789abcdee", may_act_for_others=False, expires_at=2**52)


@pytest.fixture(params=["in memory", *ENGINES])
def tokens(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[TokenStore]:
    if request.param == "in memory":
        yield InMemoryTokenStore()
        return
    with django_db_blocker.unblock(), engine_database(tmp_path, request.param) as database:
        yield DjangoTokenStore(database.writer, database.reader)


def test_tokens_come_back_as_they_were_put(tokens: TokenStore) -> None:
    assert list(tokens.load_tokens()) == []
    tokens.put_token(RECORD)
    tokens.put_token(OTHER)
    assert list(tokens.load_tokens()) == [OTHER, RECORD]


def test_id_is_taken_once(tokens: TokenStore) -> None:
    tokens.put_token(RECORD)
    with pytest.raises(StoreRejected):
        tokens.put_token(replace(RECORD, digest="e" * 64))
    assert list(tokens.load_tokens()) == [RECORD]


def test_revocation_keeps_its_first_time_and_touches_no_other(tokens: TokenStore) -> None:
    tokens.put_token(RECORD)
    tokens.put_token(OTHER)
    tokens.revoke_token(RECORD.token_id, at=5)
    tokens.revoke_token(RECORD.token_id, at=9)
    tokens.revoke_token("unknown", at=9)
    assert list(tokens.load_tokens()) == [OTHER, replace(RECORD, revoked_at=5)]


def test_time_of_use_never_moves_back(tokens: TokenStore) -> None:
    tokens.put_token(RECORD)
    tokens.note_token_use({RECORD.token_id: 7, "unknown": 7})
    tokens.note_token_use({RECORD.token_id: 3})
    assert list(tokens.load_tokens()) == [replace(RECORD, last_used_at=7)]


def test_dead_tokens_are_dropped_and_living_ones_kept(tokens: TokenStore) -> None:
    tokens.put_token(RECORD)
    tokens.put_token(OTHER)
    tokens.put_token(replace(RECORD, token_id="a" * 16, revoked_at=5))
    tokens.put_token(replace(RECORD, token_id="b" * 16, expires_at=5))
    assert tokens.drop_dead_tokens(before=5) == 0
    assert tokens.drop_dead_tokens(before=6) == 2
    assert list(tokens.load_tokens()) == [OTHER, RECORD]


def test_dead_token_that_tells_since_when_its_agent_is_known_is_kept(tokens: TokenStore) -> None:
    oldest = replace(RECORD, token_id="a" * 16, created_at=RECORD.created_at - 1, revoked_at=5)
    tokens.put_token(oldest)
    tokens.put_token(RECORD)
    assert tokens.drop_dead_tokens(before=6) == 0
    assert list(tokens.load_tokens()) == [oldest, RECORD]


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[EngineDatabase]:
    with django_db_blocker.unblock(), engine_database(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    "change", ["scopes = '[\"everything\"]'", "scopes = 'read'", "session_patterns = '7'"]
)
def test_row_that_a_foreign_hand_broke_opens_nothing(database: EngineDatabase, change: str) -> None:
    store = DjangoTokenStore(database.writer, database.reader)
    store.put_token(RECORD)
    store.put_token(OTHER)
    database.execute(f"UPDATE lambo_token SET {change} WHERE id = %s", RECORD.token_id)
    assert list(store.load_tokens()) == [OTHER]

"""Vectors on PostgreSQL: a table for each dimension, with pgvector's column of that dimension.

`lambo_embedding` is their parent and has the keys alone; a child inherits these and adds the
vector. So whatever concerns keys (deleting, counting, listing contracts) is said once, to the
parent, on every engine, while each vector column has a type that an index can be made for. A child
is made in the transaction that first needs it.

Numbers travel in binary both ways: as text they are five times as long and ten times as slow.
Outside this module a vector is float32 numbers, little endian.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import psycopg
from django.db.backends.utils import CursorWrapper
from pgvector import Vector
from pgvector.psycopg import register_vector

PARENT: Final = "lambo_embedding"
_PROVISIONING_LOCK: Final = 0x6C616D62
"""Of this database: two servers that need the same table make it one after the other."""

_CHUNK_ROWS: Final = 2_000
_BYTES_PER_NUMBER: Final = 4

_CHILDREN: Final = (
    "SELECT child.relname FROM pg_inherits link JOIN pg_class child ON child.oid = link.inhrelid"
    f" WHERE link.inhparent = '{PARENT}'::regclass ORDER BY child.relname"
)
_PUT: Final = (
    "INSERT INTO {table} (session_id, contract_id, concept_id, vector)"
    " VALUES (%s, %s, %s, %b)"
    " ON CONFLICT (session_id, contract_id, concept_id) DO UPDATE SET vector = excluded.vector"
    " WHERE {table}.vector IS DISTINCT FROM excluded.vector"
)
_DROP: Final = (
    f"DELETE FROM {PARENT} WHERE session_id = %s AND contract_id = %s AND concept_id = %s"
)
_READ: Final = "SELECT concept_id, vector FROM {table} WHERE session_id = %s AND contract_id = %s"


def vector_table(dimension: int) -> str:
    """The table of the vectors of so many numbers."""
    return f"{PARENT}_{dimension:d}"


def vector_tables(cursor: CursorWrapper) -> list[str]:
    """The tables of vectors there are."""
    cursor.execute(_CHILDREN)
    return [str(name) for (name,) in cursor.fetchall()]


def provision(cursor: CursorWrapper, dimension: int) -> str:
    """Make the table of a dimension unless it is there; its name."""
    table = vector_table(dimension)
    cursor.execute("SELECT to_regclass(%s) IS NULL", [table])
    if cursor.fetchone() == (False,):
        return table
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_PROVISIONING_LOCK])
    cursor.execute(
        f"CREATE TABLE IF NOT EXISTS {table} (vector vector({dimension:d}) NOT NULL,"
        f" PRIMARY KEY (session_id, contract_id, concept_id)) INHERITS ({PARENT})"
    )
    # For deleting a concept, whose vectors go with it under every contract.
    cursor.execute(
        f"CREATE INDEX IF NOT EXISTS {table}_concept ON {table} (session_id, concept_id)"
    )
    return table


def write_vectors(
    cursor: CursorWrapper, session_id: str, rows: Sequence[tuple[str, str, bytes]]
) -> None:
    """Store vectors by (contract, concept); one that is stored already is not written again.

    What the type cannot hold (no whole numbers, or none that is finite) is no vector to anybody: it
    leaves its concept without one.
    """
    by_dimension: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for contract, concept, data in rows:
        numbers = np.frombuffer(data[: len(data) - len(data) % _BYTES_PER_NUMBER], "<f4")
        if numbers.nbytes != len(data) or not len(data) or not np.isfinite(numbers).all():
            cursor.execute(_DROP, [session_id, contract, concept])
        else:
            by_dimension[len(numbers)].append((session_id, contract, concept, Vector(numbers)))
    for dimension, some in by_dimension.items():
        statement = _PUT.format(table=provision(cursor, dimension))
        # A cursor knows the types that its connection knew when it was made.
        connection = cursor.connection
        _know_vectors(connection)
        with psycopg.Cursor(connection) as knowing:
            knowing.executemany(statement.encode(), some)


def read_vectors(
    cursor: CursorWrapper, session_id: str, contract_key: str
) -> list[tuple[str, bytes]]:
    """What stands under one contract, by concept id."""
    tables = vector_tables(cursor)
    if not tables:
        return []
    connection = cursor.connection
    _know_vectors(connection)
    found: list[tuple[str, bytes]] = []
    # Django's own for reading binds on the client, where nothing is binary.
    with psycopg.Cursor(connection) as binary:
        for table in tables:
            query = _READ.format(table=table).encode()
            binary.execute(query, [session_id, contract_key], binary=True)
            while rows := binary.fetchmany(_CHUNK_ROWS):
                found += [
                    (str(concept), vector.to_numpy().astype("<f4").tobytes())
                    for concept, vector in rows
                ]
    found.sort()
    return found


def _know_vectors(connection: Any) -> None:
    """Teach a connection of the driver the vector type, once."""
    if connection.adapters.types.get("vector") is None:
        register_vector(connection)

"""The vectors of a session that are not its own: those of a contract it is being given.

Owns one table per contract, from the first vector that is put to the switch or the removal of its
concept. Nothing here is ever searched: until a session switches it answers from its own table, and
from then on the table that was filled here is its own. Knows no ids, no texts and no policy.

Invariant: a table holds vectors of one contract and of one width.
"""

from __future__ import annotations

from memory.engine.embedding import DIMENSIONS_MAX, EmbeddingContract, vector_from
from memory.engine.errors import InvalidSnapshot
from memory.engine.vector_table import VectorTable

_NUMBER_BYTES = 4


class VectorsBeside:
    """Vectors by contract key and concept row."""

    def __init__(self) -> None:
        self._table_by_key: dict[str, VectorTable] = {}

    def table(self, contract: EmbeddingContract) -> VectorTable | None:
        """What is kept under a contract, or None while there is nothing."""
        return self._table_by_key.get(contract.key)

    def count(self, contract: EmbeddingContract) -> int:
        """How many concepts have a vector under a contract."""
        table = self.table(contract)
        return 0 if table is None else len(table)

    def put(self, row: int, contract_key: str, vector: bytes) -> None:
        """Keep the vector of a concept row; raises `InvalidSnapshot` for one of another width."""
        table = self._table_by_key.get(contract_key)
        if table is None:
            dim, rest = divmod(len(vector), _NUMBER_BYTES)
            if rest or not 1 <= dim <= DIMENSIONS_MAX:
                raise InvalidSnapshot(f"a vector of {len(vector)} bytes is none")
            table = VectorTable(dim)
        if len(vector) != _NUMBER_BYTES * table.dim:
            raise InvalidSnapshot("two vectors of one contract differ in width")
        self._table_by_key[contract_key] = table
        table.put(row, vector_from(vector))

    def remove(self, row: int) -> None:
        """Forget the vectors of a concept row under every contract."""
        for table in self._table_by_key.values():
            table.remove(row)

    def lay(self, contract: EmbeddingContract, table: VectorTable) -> None:
        """Keep a whole table under a contract, as a load does with what is stored."""
        assert table.dim == contract.dim
        self._table_by_key[contract.key] = table

    def take(self, contract: EmbeddingContract) -> VectorTable:
        """The table of a contract, to be the session's own; every other one is forgotten.

        Raises `InvalidSnapshot`, and changes nothing, when its width is not the contract's.
        """
        table = self.table(contract)
        if table is None:
            table = VectorTable(contract.dim)
        if table.dim != contract.dim:
            raise InvalidSnapshot("the vectors kept for a contract have another width")
        self._table_by_key.clear()
        return table

"""What recall asks of the hot list: which nodes need attention now, and why.

Owns the port only. The list itself, its capacity and the re-checking of its entries belong to the
detectors; whoever calls recall hands in a view bound to the same graph and the same instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from memory.engine.types import NodeId


class HotCondition(StrEnum):
    """What a detector found at a node."""

    CONFLICT = "Conflict"
    HIGH_RISK = "HighRiskModification"
    DRIFT = "Drift"
    STALE = "StaleSession"


class HotEntry(NamedTuple):
    """A condition that holds now, and the line that tells a reader so."""

    condition: HotCondition
    line: str


class HotList(Protocol):
    """A view of the hot list at one instant; every entry it yields is still true."""

    def node_ids(self) -> Iterable[NodeId]:
        """The nodes that may have an entry, of either kind, each once."""

    def entries(self, node_id: NodeId) -> Sequence[HotEntry]:
        """The live entries of a node in hot-list order; empty when none holds any more."""


class _NoHotList:
    """Nothing needs attention; for readers without a writer."""

    def node_ids(self) -> Iterable[NodeId]:
        return ()

    def entries(self, node_id: NodeId) -> Sequence[HotEntry]:
        return ()


NO_HOT_LIST: HotList = _NoHotList()

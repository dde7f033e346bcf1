"""The interactions of a graph, in the order of their chain.

Owns the records and, by their rows, the lists that the graph fills: incident edges, and concepts
first written there. Checks nothing; the graph has.

Invariant: append-only. A row is a place in the chain and never changes.
"""

from __future__ import annotations

from memory.engine.types import Interaction, NodeId


class InteractionChain:
    """The interactions in chain order, which is row order; append-only."""

    def __init__(self) -> None:
        self.records: list[Interaction] = []
        self.row_by_id: dict[NodeId, int] = {}
        self.edges: list[list[int]] = []  # edge rows: Derives out, Temporal both ways
        self.originated: list[list[int]] = []  # rows of the concepts first written here

    def append(self, interaction: Interaction) -> None:
        self.row_by_id[interaction.id] = len(self.records)
        self.records.append(interaction)
        self.edges.append([])
        self.originated.append([])

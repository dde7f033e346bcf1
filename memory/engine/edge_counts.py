"""The counters that edges keep at their ends, and how whole bundles of edges change them.

Owns what one more or one fewer edge means for `degree`, `bonus_milli`, `derivations` and
`dependents`; the graph says what these are. Knows no ids and checks nothing.

Invariant: a bundle changes the counters as its edges would one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from memory.engine.columns import Array
from memory.engine.edge_table import pack_key
from memory.engine.rules import EDGE_TYPE_CODE, EDGE_TYPES, EDGES
from memory.engine.types import EdgeType

_COUNTERS: Final = ("degree", "bonus_milli", "derivations", "dependents")

_DERIVES: Final = EDGE_TYPE_CODE[EdgeType.DERIVES]
_TEMPORAL: Final = EDGE_TYPE_CODE[EdgeType.TEMPORAL]
_DEPENDENCY: Final = EDGE_TYPE_CODE[EdgeType.DEPENDENCY]
_HIERARCHICAL: Final = EDGE_TYPE_CODE[EdgeType.HIERARCHICAL]

_COUNTS_FOR_DEGREE: Final = np.array(
    [EDGES[kind].counts_for_degree and kind is not EdgeType.TEMPORAL for kind in EDGE_TYPES]
)
_BONUS_MILLI: Final = np.array([EDGES[kind].bonus_milli for kind in EDGE_TYPES], dtype=np.int64)


def count_edge(
    cells: Mapping[str, Array],
    row_by_key: Mapping[int, int],
    code: int,
    source: int,
    target: int,
    step: int,
) -> None:
    """Count one edge, which is not yet, or no longer, in `row_by_key`; `step` is 1 or -1.

    `cells` are the columns of the concepts.
    """
    if code == _TEMPORAL:
        return
    rule = EDGES[EDGE_TYPES[code]]
    if rule.counts_for_degree:
        # A self-edge is one incident edge: it counts once.
        ends = {target} if code == _DERIVES else {source, target}
        for end in ends:
            cells["degree"][end] += step
            cells["bonus_milli"][end] += step * rule.bonus_milli
    if code == _DERIVES:
        cells["derivations"][target] += step
    elif source != target:
        if code == _DEPENDENCY:
            if pack_key(_HIERARCHICAL, target, source) not in row_by_key:
                cells["dependents"][target] += step
        elif code == _HIERARCHICAL and pack_key(_DEPENDENCY, target, source) not in row_by_key:
            cells["dependents"][source] += step


def count_added(
    cells: Mapping[str, Array],
    row_by_key: Mapping[int, int],
    codes: Array,
    sources: Array,
    targets: Array,
) -> None:
    """`count_edge` of edges that are not yet in `row_by_key`; no natural key stands twice."""
    counting = _COUNTS_FOR_DEGREE[codes]
    at_source = counting & (codes != _DERIVES) & (sources != targets)
    for ends, chosen in ((targets, counting), (sources, at_source)):
        np.add.at(cells["degree"], ends[chosen], 1)
        np.add.at(cells["bonus_milli"], ends[chosen], _BONUS_MILLI[codes[chosen]])
    np.add.at(cells["derivations"], targets[codes == _DERIVES], 1)

    is_resting = ((codes == _DEPENDENCY) | (codes == _HIERARCHICAL)) & (sources != targets)
    joined: set[tuple[int, int]] = set()
    bases: list[int] = []
    for code, source, target in zip(
        *(column[is_resting].tolist() for column in (codes, sources, targets)), strict=True
    ):
        base, other = (target, _HIERARCHICAL) if code == _DEPENDENCY else (source, _DEPENDENCY)
        pair = (base, source + target - base)
        if pair not in joined and pack_key(other, target, source) not in row_by_key:
            bases.append(base)
        joined.add(pair)
    np.add.at(cells["dependents"], np.array(bases, dtype=np.int64), 1)


def count_removed(
    cells: Mapping[str, Array], row: int, codes: Array, sources: Array, targets: Array
) -> None:
    """Count all edges of a concept off both ends: its own counters are 0 then, which is read."""
    others = np.where(sources == row, targets, sources)
    chosen = _COUNTS_FOR_DEGREE[codes] & (codes != _DERIVES) & (sources != targets)
    np.subtract.at(cells["degree"], others[chosen], 1)
    np.subtract.at(cells["bonus_milli"], others[chosen], _BONUS_MILLI[codes[chosen]])
    rested = ((codes == _DEPENDENCY) & (sources == row)) | (
        (codes == _HIERARCHICAL) & (targets == row)
    )
    cells["dependents"][np.unique(others[rested & (sources != targets)])] -= 1
    for name in _COUNTERS:
        cells[name][row] = 0

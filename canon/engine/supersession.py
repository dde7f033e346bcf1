"""When a contradicted belief gives way: the contradictor has fresh evidence of its own.

`S` supersedes `C` if `S` contradicts `C` and what holds `S` up since `C`'s *watermark* clears the
bars of Venerable. The watermark is the later of `C`'s origin and its latest eligible evidence,
without what the declaring agent wrote and without `S`'s own dependence on `C`. So a belief that
others go on using cannot be released by evidence that is older than their use.

The evidence is that of `contradictions`, its age by write time, dates by claimed time. Of `S` both
the edge and the dependent's origin must be later than the watermark, and a piece counts only if
neither its edge nor its dependent was first written by the declaring agent. **Ambiguity never
demotes:** where it is not known who declared the contradiction, or who wrote a piece that would
matter, there is no claim. Under Quorum `S` needs two agents that count, as Venerable does.

*Pair rule:* where two contradict each other and both would win, the one whose newest counted piece
is later acts, then the smaller key, then the smaller id; the other does not.

Owns the question for one pair, and finding who answers it for one concept under a number of probes.
Which concepts are asked about, and what follows, is `evaluation`'s.

Invariant: the evidence of each concept is read once, so no two verdicts of a cycle can disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from canon.engine import gates
from canon.engine.contradictions import Declaration, declarations
from canon.engine.evidence import Pieces, count_distinct, coverage, gather, spans
from canon.engine.gate_times import Timeline, claimed_time
from canon.engine.gates import Check, is_cooling
from canon.engine.measurements import Circumstances
from canon.engine.quorum import AgentCodes, count_by_quorum
from canon.engine.settings import Policy
from memory.engine.columns import Array
from memory.engine.concept_table import cell_time
from memory.engine.graph import Graph
from memory.engine.times import Micros, format_rfc3339
from memory.engine.types import NodeId

NOBODY: Final = ""
"""How an unknown writer is stored."""


@dataclass(frozen=True, slots=True)
class Claim:
    """`by` (a row) would supersede `target`; `newest` is its newest counted piece of evidence.

    `checks` are the bars of Venerable over what was written since the `watermark`.
    """

    by: int
    target: int
    by_id: NodeId
    watermark: Micros
    newest: Micros
    checks: tuple[Check, ...]
    support_edges: tuple[int, ...]

    def as_wire(self) -> dict[str, Any]:
        return {
            "superseded_by": self.by_id,
            "watermark": format_rfc3339(self.watermark),
            "newest_evidence": format_rfc3339(self.newest),
        }


@dataclass(frozen=True, slots=True)
class _Held:
    """The eligible evidence of one concept, with codes of who wrote what."""

    pieces: Pieces
    writer: Array
    origin_agent: Array
    counts: Array  # by the policy
    claimed: Array  # of the edges
    origin_claimed: Array


class Rivals:
    """Who supersedes whom, asked pair by pair in one cycle."""

    def __init__(self, graph: Graph, circumstances: Circumstances, timeline: Timeline) -> None:
        self._graph = graph
        self._circumstances = circumstances
        self._timeline = timeline
        self._codes = AgentCodes()
        self._nobody = int(self._codes.of([NOBODY])[0])
        self._held: dict[int, _Held] = {}
        self._claims: dict[tuple[int, int], Claim | None] = {}

    def read(self, rows: Iterable[int]) -> None:
        """Read the evidence of concepts that will be asked about, in one go."""
        missing = sorted(set(rows).difference(self._held))
        if not missing:
            return
        graph, cutoff = self._graph, self._circumstances.cutoff
        pieces = gather(graph, self._timeline, missing)
        pieces = pieces.where(
            (pieces.written <= cutoff)
            & (pieces.origin_written <= cutoff)
            & (pieces.origin != pieces.own_origin)
        )
        counts = self._counts(pieces, missing)
        agents = graph.concepts.origin_agents
        whole = _Held(
            pieces,
            self._codes.of([graph.edges.created_by[edge] for edge in pieces.edge.tolist()]),
            self._codes.of([agents[row] for row in pieces.dependent.tolist()]),
            counts,
            np.minimum(pieces.dated, pieces.written),
            np.minimum(pieces.origin_dated, pieces.origin_written),
        )
        ends = np.searchsorted(pieces.owner, np.arange(len(missing)), side="right").tolist()
        start = 0
        for row, end in zip(missing, ends, strict=True):
            self._held[row] = _cut(whole, slice(start, end))
            start = end

    def _counts(self, pieces: Pieces, rows: Sequence[int]) -> Array:
        if self._circumstances.policy is not Policy.QUORUM:
            return np.ones(len(pieces), dtype=np.bool_)
        counts, _ = count_by_quorum(
            self._graph,
            pieces,
            rows,
            token_created_at=self._circumstances.token_created_at,
            now=self._circumstances.now,
            codes=AgentCodes(),
        )
        return counts

    def find_superseding(self, declaration: Declaration, target: int) -> Claim | None:
        """The claim of a contradictor against `target`, if it wins; the pair rule included."""
        claim = self._claim(declaration.by, target, declaration.edge)
        if claim is None:
            return None
        for back in declarations(self._graph, declaration.by):
            if back.by == target:
                counter = self._claim(target, declaration.by, back.edge)
                if counter is not None and self.rank(counter) < self.rank(claim):
                    return None
        return claim

    def rank(self, claim: Claim) -> tuple[Micros, str, NodeId]:
        """The order of claims, first wins: newest evidence, then key, then id."""
        return (-claim.newest, self._graph.key_at(claim.by), claim.by_id)

    def _claim(self, by: int, target: int, declared: int) -> Claim | None:
        pair = (by, target)
        if pair not in self._claims:
            self._claims[pair] = self._find_claim(by, target, declared)
        return self._claims[pair]

    def _find_claim(self, by: int, target: int, declared: int) -> Claim | None:
        declarer = self._graph.edges.created_by[declared]
        if declarer == NOBODY or self._is_cooling(by) or self._is_cooling(target):
            return None
        self.read((by, target))
        code = int(self._codes.of([declarer])[0])
        watermark = self._find_watermark(target, by, code)
        if watermark is None:
            return None
        held = self._held[by]
        fresh = (held.claimed > watermark) & (held.origin_claimed > watermark) & held.counts
        if bool(((held.writer == self._nobody) | (held.origin_agent == self._nobody))[fresh].any()):
            return None
        fresh &= (held.writer != code) & (held.origin_agent != code)
        checks = self._check(held, fresh)
        if not all(check.is_met for check in checks):
            return None
        return Claim(
            by=by,
            target=target,
            by_id=self._graph.id_at(by),
            watermark=watermark,
            newest=int(held.claimed[fresh].max()),
            checks=checks,
            support_edges=tuple(held.pieces.edge[fresh].tolist()),
        )

    def _find_watermark(self, target: int, by: int, declarer: int) -> Micros | None:
        """Until when `target` was held up by others; None where that cannot be told."""
        held = self._held[target]
        others = held.pieces.dependent != by
        if bool((held.writer[others] == self._nobody).any()):
            return None
        counted = held.claimed[others & (held.writer != declarer)]
        graph = self._graph
        origin = claimed_time(graph.chain.records[graph.concepts["origin"][target]])
        return max(origin, int(counted.max())) if len(counted) else origin

    def _check(self, held: _Held, fresh: Array) -> tuple[Check, ...]:
        pieces = held.pieces.where(fresh)
        owner = np.zeros(len(pieces), dtype=np.int64)
        stood_from = np.maximum(held.claimed, held.origin_claimed)[fresh]
        span = spans(owner, stood_from, 1)
        window = self._circumstances.settings.coverage_window
        checks = (
            gates.check_distinct(
                int(count_distinct(owner, pieces.origin, 1)[0]), gates.VENERABLE_DISTINCT
            ),
            gates.check_coverage(float(coverage(span, self._timeline.extent, window)[0])),
        )
        if self._circumstances.policy is not Policy.QUORUM:
            return checks
        agents = int(count_distinct(owner, held.writer[fresh], 1)[0])
        return (*checks, gates.check_agents(agents, gates.VENERABLE_AGENTS, reciprocal=None))

    def _is_cooling(self, row: int) -> bool:
        settings = self._circumstances.settings
        demoted = cell_time(self._graph.concepts["last_demotion_time"][row])
        return is_cooling(demoted, settings.repromotion_cooldown, self._circumstances.now)


def _cut(held: _Held, span: slice) -> _Held:
    return _Held(
        held.pieces.where(span),
        held.writer[span],
        held.origin_agent[span],
        held.counts[span],
        held.claimed[span],
        held.origin_claimed[span],
    )

"""Lines about contradictions and successions, and who comes in with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from memory.engine.config import SuspectedLine
from memory.engine.requests import ConceptFilter, RecallRequest
from memory.engine.times import Micros
from memory.engine.types import ConceptType, EdgeType, NodeId, Status
from recall.engine.candidates import Leg
from recall.engine.pipeline import recall
from recall.engine.results import AnnotationKind, Hit, RecallResult
from recall.engine.settings import DEFAULT_SETTINGS, RecallSettings
from recall_graphs import START, GraphWriter

Kind = AnnotationKind


@dataclass
class Team(GraphWriter):
    """A session, and what a test says of its contradictions."""

    standing: dict[int, int] = field(default_factory=dict)
    superseded: dict[int, Micros] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.interact()

    def contradict(self, by: NodeId, target: NodeId, *, stands: bool = True) -> None:
        self.edge(by, target, EdgeType.CONTRADICTS)
        if stands:
            self.standing[self.row(target)] = self.row(by)

    def contradictors(self, rows: Sequence[int]) -> Mapping[int, int]:
        return {row: self.standing[row] for row in rows if row in self.standing}

    def superseded_at(self, row: int) -> Micros | None:
        return self.superseded.get(row)

    def ask(
        self, request: RecallRequest, settings: RecallSettings = DEFAULT_SETTINGS
    ) -> RecallResult:
        return recall(self.graph, request, now=START, settings=settings, beliefs=self)

    def grow_old(self) -> None:
        for _ in range(DEFAULT_SETTINGS.recent_interactions):
            self.interact()


ALONE = RecallRequest("alpha", top_k=1, max_tokens=100_000, traversal_depth=0)


def lines(hit: Hit, *kinds: Kind) -> list[str]:
    return [note.text for note in hit.annotations if note.kind in kinds]


def test_a_contradicted_hit_and_its_contradictor_quote_each_other() -> None:
    team = Team()
    old, new = team.concept("alpha is nine"), team.concept("the count is\n" + "ten " * 40)
    team.contradict(new, old)
    team.grow_old()

    first, second = team.ask(ALONE).hits

    assert (first.node_id, second.node_id) == (old, new)
    quoted = ("the count is ⏎ " + "ten " * 40)[:79] + "…"
    assert lines(first, Kind.CONTRADICTION) == [f'⚠ Contradicted by "{quoted}" (id {new[:8]})']
    assert lines(second, Kind.CONTRADICTS) == [f'⚠ Contradicts "alpha is nine" (id {old[:8]})']
    assert (first.companion_of, second.companion_of) == (None, old)
    assert second.legs == (Leg.COMPANION,)
    assert second.as_wire()["companion_of"] == old
    assert "companion_of" not in first.as_wire()


def test_a_contradiction_that_does_not_stand_is_not_told() -> None:
    team = Team()
    old, new = team.concept("alpha is nine"), team.concept("ten")
    team.contradict(new, old, stands=False)
    team.grow_old()
    (hit,) = team.ask(ALONE).hits
    assert hit.annotations == ()


def test_an_ordinary_contradicted_concept_has_to_earn_its_slot() -> None:
    team = Team()
    team.concept("alpha")
    weak, new = team.concept("alpha and a lot more that is said about it"), team.concept("ten")
    team.contradict(new, weak)
    team.grow_old()
    assert [hit.content for hit in team.ask(ALONE).hits] == ["alpha"]


@pytest.mark.parametrize("status", [Status.VENERABLE, Status.CANONICAL])
def test_an_important_contradicted_concept_is_forced_and_brings_one_companion(
    status: Status,
) -> None:
    team = Team()
    team.concept("alpha")
    weak = team.concept("alpha and a lot more that is said about it", status=status)
    new, newest = team.concept("ten"), team.concept("eleven")
    team.contradict(new, weak)
    team.contradict(newest, new)
    team.grow_old()

    found = {hit.content: hit.companion_of for hit in team.ask(ALONE).hits}

    assert found == {"alpha": None, "alpha and a lot more that is said about it": None, "ten": weak}


def test_a_companion_that_is_shown_anyway_comes_once() -> None:
    team = Team()
    old, new = team.concept("alpha one"), team.concept("alpha two")
    team.contradict(new, old)
    result = team.ask(replace(ALONE, top_k=5))
    assert [hit.companion_of for hit in result.hits] == [None, None]


def test_one_contradictor_of_two_hits_comes_once() -> None:
    team = Team()
    first, second = team.concept("alpha one"), team.concept("alpha two")
    new = team.concept("neither")
    team.contradict(new, first)
    team.contradict(new, second)
    team.grow_old()
    ids = [hit.node_id for hit in team.ask(replace(ALONE, top_k=2)).hits]
    assert sorted(ids) == sorted([first, second, new])


def test_no_companion_that_a_filter_turns_down_comes() -> None:
    team = Team()
    old = team.concept("alpha", kind=ConceptType.LOGIC)
    new = team.concept("beta", kind=ConceptType.ENTITY)
    team.contradict(new, old)
    team.grow_old()
    request = replace(ALONE, wanted=ConceptFilter(types=(ConceptType.LOGIC,)))
    (hit,) = team.ask(request).hits
    assert len(lines(hit, Kind.CONTRADICTION)) == 1


def test_a_hit_tells_what_it_rests_on_that_is_contradicted_three_by_name() -> None:
    team = Team()
    grounds = [team.concept(f"ground {number}", number=number) for number in (14, 11, 15, 13, 12)]
    hit_id, new = team.concept("alpha", number=50), team.concept("beta", number=51)
    for ground in grounds:
        team.depend(hit_id, ground)
        team.contradict(new, ground)
    team.grow_old()

    (hit,) = team.ask(ALONE).hits

    assert lines(hit, Kind.RESTS_ON_CONTRADICTED) == [
        *(
            f'⚠ Rests on "ground {number}" (id 00000000), which is contradicted'
            for number in (11, 12, 13)
        ),
        "⚠ Rests on 2 more that are contradicted",
    ]


def test_a_hit_that_contradicts_its_ground_itself_does_not_say_that_it_rests_on_it() -> None:
    team = Team()
    ground, new = team.concept("ground"), team.concept("alpha")
    team.depend(new, ground)
    team.contradict(new, ground)
    team.grow_old()
    (hit,) = team.ask(ALONE).hits
    assert [note.kind for note in hit.annotations] == [Kind.CONTRADICTS]


def test_whoever_contradicts_many_names_three() -> None:
    team = Team()
    new = team.concept("alpha", number=90)
    for number in range(1, 6):
        team.contradict(new, team.concept(f"old {number}", number=number))
    team.grow_old()
    (hit,) = team.ask(ALONE).hits
    told = lines(hit, Kind.CONTRADICTS)
    assert len(told) == 4
    assert told[-1] == "⚠ Contradicts 2 more"


def suspected(*, newer_shown: bool) -> tuple[Team, NodeId, NodeId]:
    team = Team()
    old = team.concept("alpha is 9")
    team.interact()
    newer = team.concept("alpha is 10")
    team.interact()
    newest = team.concept("alpha is 11" if newer_shown else "beta")
    for one in (newer, newest):
        team.edge(one, old, EdgeType.SUSPECTED_SUPERSEDES, weight=0.9)
    team.grow_old()
    return team, old, newest


@pytest.mark.parametrize(
    ("line", "is_said"),
    [(SuspectedLine.ON, True), (SuspectedLine.OFF, False), (SuspectedLine.VALIDATED, False)],
)
def test_a_suspicion_is_a_field_always_and_a_line_where_it_may(
    line: SuspectedLine, is_said: bool
) -> None:
    team, old, newest = suspected(newer_shown=True)
    settings = replace(DEFAULT_SETTINGS, suspected_supersession_line=line)
    by_id = {hit.node_id: hit for hit in team.ask(replace(ALONE, top_k=3), settings).hits}
    told = f'⚠ Possibly superseded by "alpha is 11" (id {newest[:8]}), not declared'
    assert by_id[old].possibly_superseded_by == newest
    assert lines(by_id[old], Kind.POSSIBLY_SUPERSEDED) == ([told] if is_said else [])
    others = [hit.possibly_superseded_by for hit in by_id.values() if hit.node_id != old]
    assert others == [None, None]


def test_a_suspicion_is_told_only_when_both_are_shown() -> None:
    team, old, _ = suspected(newer_shown=True)
    hits = team.ask(replace(ALONE, wanted=ConceptFilter(until=START + 1))).hits
    assert [(hit.node_id, hit.possibly_superseded_by) for hit in hits] == [(old, None)]


def test_a_superseded_hit_says_since_when_and_is_not_forced() -> None:
    team = Team()
    first, weak = team.concept("alpha"), team.concept("alpha and a lot more of other words")
    team.superseded = {team.row(first): START, team.row(weak): START}
    team.grow_old()
    (hit,) = team.ask(ALONE).hits
    assert lines(hit, Kind.SUPERSEDED) == ["⤓ Superseded at 2025-07-08T18:40:00Z"]


def test_lines_count_against_the_budget() -> None:
    team = Team()
    old, new = team.concept("alpha is nine"), team.concept("ten")
    team.contradict(new, old)
    team.grow_old()
    whole = team.ask(ALONE)
    bare = recall(team.graph, ALONE, now=START)
    assert whole.tokens > bare.tokens
    tight = team.ask(replace(ALONE, max_tokens=whole.tokens - 1))
    assert tight.left_out == 1
    assert len(tight.warnings) == len(whole.warnings) == 2

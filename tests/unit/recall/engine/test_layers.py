"""One answer from several sessions: who enters, who comes first, which copy stays, what is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from graph_writing import look_up
from memory.engine.embedding import (
    EMBEDDING_GEMMA,
    EmbeddingContract,
    EmbeddingFailure,
    Vector,
    check_vector,
)
from memory.engine.graph import Graph
from memory.engine.hybrid import search_for_question
from memory.engine.requests import Layer, RecallRequest
from memory.engine.times import Micros
from memory.engine.types import EdgeType, NodeId, Status
from memory.engine.vector_table import VectorTable
from recall.engine.hot_list import NO_HOT_LIST, HotCondition, HotEntry, HotList
from recall.engine.layers import Tier, layer_request, merge, note_layer, note_tier
from recall.engine.pipeline import Ranked, rank
from recall.engine.results import RecallResult
from recall.engine.settings import DEFAULT_SETTINGS
from recall_graphs import START, GraphWriter, PlantedHotList

CONTRACT = EmbeddingContract("by hand", None, 3)
HOUR = 3_600_000_000
AWAY = (0.0, 0.0, 1.0)
RISK = HotEntry(HotCondition.HIGH_RISK, "High-risk modification: because")


def unit(*numbers: float) -> Vector:
    vector = check_vector(np.array(numbers), 3)
    assert not isinstance(vector, EmbeddingFailure)
    return vector


def like(cosine: float) -> tuple[float, float, float]:
    """A vector of that cosine with the question's, (1, 0, 0)."""
    return cosine, float(np.sqrt(1 - cosine**2)), 0.0


def apart(cosine: float, turn: float) -> tuple[float, float, float]:
    """The same, turned about the question's, so that two of them are not near each other."""
    rest = float(np.sqrt(1 - cosine**2))
    return cosine, rest * float(np.cos(turn)), rest * float(np.sin(turn))


@dataclass
class Session(GraphWriter):
    """A session with vectors, older than the recent leg looks once it is asked."""

    first: int = 0
    standing: dict[int, int] = field(default_factory=dict)
    hot: HotList = NO_HOT_LIST

    def __post_init__(self) -> None:
        self.graph.contract = CONTRACT
        self.graph.vectors = VectorTable(3)
        self.interact()

    def say(
        self,
        content: str,
        vector: Sequence[float] | None = None,
        status: Status = Status.NONE,
    ) -> NodeId:
        # Numbered apart, so that no id tells of two sessions.
        self.first += 1
        node = self.concept(content, number=self.first, status=status)
        if vector is not None:
            assert self.graph.vectors is not None
            self.graph.vectors.put(self.row(node), unit(*vector))
        return node

    def contradictors(self, rows: Sequence[int]) -> Mapping[int, int]:
        return {row: self.standing[row] for row in rows if row in self.standing}

    def superseded_at(self, row: int) -> Micros | None:
        return None

    def rank(self, request: RecallRequest, *, by_meaning: bool = True) -> Ranked:
        for _ in range(DEFAULT_SETTINGS.recent_interactions):
            self.interact()
        table = self.graph.vectors
        assert table is not None
        search = search_for_question(CONTRACT, request.query, unit(1, 0, 0), top_k=request.top_k)
        meanings = look_up(search, table) if by_meaning else None
        return rank(self.graph, request, now=START, meanings=meanings, hot=self.hot, beliefs=self)


def session(name: str, first: int) -> Session:
    return Session(Graph(name, START), first=first)


@pytest.fixture
def own() -> Session:
    return session("shop", 0)


@pytest.fixture
def infra() -> Session:
    return session("infra", 1_000)


def request(query: str = "alpha", top_k: int = 5, max_tokens: int = 100_000) -> RecallRequest:
    return RecallRequest(query, top_k, max_tokens, traversal_depth=0)


def ask(
    asked: RecallRequest,
    own: Session,
    *layers: Session,
    weight: float = 0.5,
    least: float | None = None,
    by_meaning: bool = True,
) -> RecallResult:
    tiers: list[Tier] = [note_tier(own.graph, own.rank(asked, by_meaning=by_meaning))]
    for one in layers:
        ranked = one.rank(layer_request(asked), by_meaning=by_meaning)
        tiers.append(note_layer(one.graph, ranked, Layer(one.graph.session_id, weight, least)))
    query = unit(1, 0, 0) if by_meaning else None
    return merge(tiers, asked, query=query, contract=CONTRACT)


def told(result: RecallResult) -> list[tuple[str | None, str]]:
    return [(hit.session, hit.content) for hit in result.hits]


def test_places_decide_by_weight_and_equals_go_to_the_nearer(own: Session, infra: Session) -> None:
    """Own places are worth 1, 1/2, 1/3, 1/4; those of the layer 1/2, 1/4."""
    for number in range(4):
        own.say(f"alpha of own {number}", apart(0.9 - 0.1 * number, 0.1 * number))
    for number in range(2):
        infra.say(f"alpha of infra {number}", apart(0.9 - 0.1 * number, 3.0 + number))

    result = ask(request(top_k=6), own, infra)

    assert told(result) == [
        (None, "alpha of own 0"),
        (None, "alpha of own 1"),
        ("infra", "alpha of infra 0"),
        (None, "alpha of own 2"),
        (None, "alpha of own 3"),
        ("infra", "alpha of infra 1"),
    ]
    alone = {hit.content: hit.score for hit in infra.rank(request()).hits}
    assert [hit.score for hit in result.hits if hit.session] == list(alone.values())


def test_a_layer_that_weighs_more_comes_first_with_scores_of_its_own(
    own: Session, infra: Session
) -> None:
    own.say("alpha of own", like(0.9))
    infra.say("unlike in words", apart(0.9, 2.0))
    result = ask(request(), own, infra, weight=1.5)
    assert told(result) == [("infra", "unlike in words"), (None, "alpha of own")]
    assert result.hits[0].score < result.hits[1].score


def test_a_label_of_a_layer_ends_with_where_it_comes_from(own: Session, infra: Session) -> None:
    own.say("alpha of own", like(0.9))
    infra.say("alpha of infra", apart(0.9, 2.0))
    first, second = ask(request(), own, infra).context.split("\n\n")
    assert first.endswith(")")
    assert second.endswith(") from infra")


@pytest.mark.parametrize(("cosine", "enters"), [(0.49, False), (0.51, True)])
def test_a_layer_hit_needs_a_cosine_at_the_floor_whatever_words_it_has(
    own: Session, infra: Session, cosine: float, enters: bool
) -> None:
    """Without a line of its own a contract has 0.50."""
    infra.say("alpha", like(cosine))
    assert told(ask(request(), own, infra)) == [("infra", "alpha")] * enters


def test_a_layers_own_line_holds_and_the_session_asked_has_none(
    own: Session, infra: Session
) -> None:
    own.say("alpha, far", like(0.1))
    infra.say("alpha, near", apart(0.8, 2.0))
    assert told(ask(request(), own, infra, least=0.81)) == [(None, "alpha, far")]
    assert len(told(ask(request(), own, infra, least=0.79))) == 2


def test_a_measured_contract_has_its_own_floor(infra: Session) -> None:
    infra.graph.contract = EMBEDDING_GEMMA
    assert note_layer(infra.graph, Ranked(()), Layer("infra")).floor == 0.72
    infra.graph.contract = None
    assert note_layer(infra.graph, Ranked(()), Layer("infra")).floor == 0.50


def test_what_has_no_vector_does_not_enter_from_a_layer(own: Session, infra: Session) -> None:
    infra.say("alpha without a vector")
    assert told(ask(request(), own, infra)) == []


def test_a_floor_counts_places_anew(own: Session, infra: Session) -> None:
    """What is kept out takes no place from those behind it."""
    own.say("alpha of own", like(0.9))
    own.say("alpha too", apart(0.8, 1.0))
    for number in range(5):
        infra.say(f"alpha {number}", None)
    infra.say("meant", apart(0.7, 3.0))
    assert told(ask(request(), own, infra, weight=0.6))[1] == ("infra", "meant")


def test_dependents_enter_without_a_vector_and_without_a_question_embedded(
    own: Session, infra: Session
) -> None:
    base, user = infra.say("the alpha", AWAY), infra.say("its user")
    infra.depend(user, base)
    asked = request("what depends on the alpha")
    for by_meaning in (True, False):
        result = ask(asked, own, infra, by_meaning=by_meaning)
        assert told(result) == [("infra", "its user")]
        line = "recall: dependency question answered by graph traversal (1 dependents)"
        assert result.warnings == (f"[infra] {line}",)


def test_without_the_questions_vector_a_layer_gives_no_ordinary_hit(
    own: Session, infra: Session
) -> None:
    own.say("alpha of own", like(0.9))
    infra.say("alpha of infra", like(0.9))
    assert told(ask(request(), own, infra, by_meaning=False)) == [(None, "alpha of own")]


def test_slots_are_shared_and_what_is_urgent_comes_beyond_them(
    own: Session, infra: Session
) -> None:
    for number in range(3):
        own.say(f"alpha of own {number}", apart(0.9, 0.1 * number))
        infra.say(f"alpha of infra {number}", apart(0.9 - 0.1 * number, 3.0 + 0.5 * number))
    risky = infra.say("alpha, risky", apart(0.5, 5.0))
    kept = infra.say("alpha, kept by somebody", apart(0.55, 5.5))
    far = infra.say("alpha, far and risky", apart(0.2, 4.5))
    infra.reserve(kept, agent="agent-b", expires_at=START + HOUR)
    infra.hot = PlantedHotList({risky: [RISK], far: [RISK]})

    result = ask(request(top_k=4), own, infra)

    ordinary = [hit for hit in result.hits if not hit.annotations]
    assert len(ordinary) == 4
    assert {hit.content for hit in result.hits if hit.annotations} == {
        "alpha, risky",
        "alpha, kept by somebody",
    }


def test_an_important_contradicted_layer_hit_and_its_companion_stay_beyond_the_slots(
    own: Session, infra: Session
) -> None:
    own.say("alpha of own", like(0.9))
    # Ranked behind another in its session, it would get no slot.
    infra.say("alpha of infra", apart(0.9, 3.0))
    doubted = infra.say("alpha, doubted", apart(0.6, 5.0), Status.VENERABLE)
    against = infra.say("the contrary", AWAY)
    infra.edge(against, doubted, EdgeType.CONTRADICTS)
    infra.standing = {infra.row(doubted): infra.row(against)}

    result = ask(request(top_k=1), own, infra)

    assert told(result) == [
        (None, "alpha of own"),
        ("infra", "alpha, doubted"),
        ("infra", "the contrary"),
    ]
    assert result.hits[2].companion_of == doubted
    lines = [line for hit in result.hits for line in (note.text for note in hit.annotations)]
    assert result.warnings == tuple(f"[infra] {line}" for line in lines)
    assert "[infra]" not in result.context


def test_a_contradicted_layer_hit_below_the_floor_brings_nobody(
    own: Session, infra: Session
) -> None:
    doubted = infra.say("alpha, doubted", like(0.1), Status.VENERABLE)
    against = infra.say("the contrary", AWAY)
    infra.edge(against, doubted, EdgeType.CONTRADICTS)
    infra.standing = {infra.row(doubted): infra.row(against)}
    assert told(ask(request(), own, infra)) == []


def test_of_the_same_memory_the_nearer_copy_stays_and_names_the_others(
    own: Session, infra: Session
) -> None:
    far = session("company", 2_000)
    mine = own.say("Alpha is up", like(0.7))
    own.say("alpha alpha", apart(0.9, 0.3))
    same_key = infra.say("alpha  is up", apart(0.9, 3.0))
    as_near = far.say("alpha is up again", like(0.71))

    result = ask(request(), own, infra, far)

    (copy,) = [hit for hit in result.hits if hit.node_id == mine]
    assert [tuple(one) for one in copy.also_in] == [("infra", same_key), ("company", as_near)]
    assert copy.as_wire()["also_in"] == [
        {"session": "infra", "node_id": same_key},
        {"session": "company", "node_id": as_near},
    ]
    label = next(line for line in result.context.splitlines() if line.startswith("Alpha is up"))
    assert f"also {same_key[:8]} in infra {as_near[:8]} in company)" in label
    assert {hit.session for hit in result.hits} == {None}


def test_a_copy_in_a_layer_that_finds_it_first_lends_its_place(
    own: Session, infra: Session
) -> None:
    for number in range(4):
        own.say(f"alpha {number}", apart(0.9, 0.2 * number))
    own.say("a beta", apart(0.6, 3.0))
    infra.say("a beta", apart(0.9, 3.0))
    assert "a beta" not in [content for _, content in told(ask(request(top_k=2), own))]
    assert (None, "a beta") in told(ask(request(top_k=5), own, infra))[:3]


@pytest.mark.parametrize("other", ["the alpha port is 5433", "the alpha port is not 5432"])
def test_near_texts_that_claim_something_else_are_two(
    own: Session, infra: Session, other: str
) -> None:
    own.say("the alpha port is 5432", like(0.9))
    infra.say(other, like(0.9))
    assert len(told(ask(request(), own, infra))) == 2


def test_a_copy_that_warns_of_something_stays(own: Session, infra: Session) -> None:
    own.say("alpha", like(0.9))
    kept = infra.say("alpha", like(0.9))
    infra.reserve(kept, agent="agent-b", expires_at=START + HOUR)
    result = ask(request(), own, infra)
    assert told(result) == [(None, "alpha"), ("infra", "alpha")]
    assert result.warnings == ("[infra] Reserved by agent-b until 2025-07-08T19:40:00Z",)


def test_all_share_one_budget_and_what_it_leaves_out_is_told(own: Session, infra: Session) -> None:
    own.say("alpha of own", like(0.9))
    infra.say("alpha of infra", apart(0.9, 3.0))
    whole = ask(request(), own, infra)
    cut = ask(replace(request(), max_tokens=whole.tokens - 1), own, infra)
    assert [hit.included_in_context for hit in cut.hits] == [True, False]
    assert cut.context == whole.context.split("\n\n")[0]


def test_a_cold_session_is_told_of(own: Session, infra: Session) -> None:
    own.say("alpha", like(0.9))
    assert ask(request(), own, infra).cold_start

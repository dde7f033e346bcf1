"""What a hybrid derive links, offers and suspects; vectors are set by hand, as angles."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from graph_writing import START, Scribe, concept, look_up, observation, reopened
from memory.engine.embedding import EmbeddingContract, EmbeddingFailure, Vector, check_vector
from memory.engine.errors import InvalidArgument
from memory.engine.graph import Graph
from memory.engine.hybrid import (
    CHANGES_IN_STEP,
    NEAREST,
    REPLACEMENTS,
    Meanings,
    ReplacementCandidate,
    is_behind,
    read_pairs,
    search_again,
    unread_pairs,
)
from memory.engine.lexical_veto import find_veto
from memory.engine.mutations import PutVector
from memory.engine.requests import ConceptInput
from memory.engine.supersession import is_new_version
from memory.engine.times import SECOND
from memory.engine.types import ConceptType, EdgeType
from memory.engine.vector_table import VectorTable

CONTRACT = EmbeddingContract("by hand", None, 3)  # unknown: the threshold is 0.85, 31.7 degrees
L, C, E = ConceptType.LOGIC, ConceptType.CONSTRAINT, ConceptType.ENTITY


def at(degrees: float) -> Vector:
    angle = math.radians(degrees)
    vector = check_vector([math.cos(angle), math.sin(angle), 0.0], 3)
    assert not isinstance(vector, EmbeddingFailure)
    return vector


class Writer(Scribe):
    """A scribe in a hybrid session."""

    def __init__(self) -> None:
        super().__init__(Graph("session", START, contract=CONTRACT, match_strategy="hybrid"))

    def place(self, **places: float) -> None:
        """Say at which angle texts lie; an underscore stands for a space."""
        for text, degrees in places.items():
            self.vectors[text.replace("_", " ")] = at(degrees)

    def vector_count(self) -> int:
        assert self.graph.vectors is not None
        return len(self.graph.vectors)


@pytest.fixture
def writer() -> Writer:
    return Writer()


def cosine(degrees: float) -> float:
    return pytest.approx(math.cos(math.radians(degrees)), abs=1e-6)  # type: ignore[return-value]


# -- linking ---------------------------------------------------------------------------------------


def test_a_near_text_is_a_new_concept_with_a_semantic_edge(writer: Writer) -> None:
    writer.place(mends_itself=0, heals_by_magic=20)
    writer.derive("mends itself")
    result = writer.derive("heals by magic")

    assert result.meaning is not None
    assert result.meaning.merged == [writer.id("mends itself")]
    assert len(result.created) == 1
    assert result.matched == ()
    source, target = sorted([writer.id("mends itself"), writer.id("heals by magic")])
    edge = writer.graph.edge_between(source, target, EdgeType.SEMANTIC)
    assert edge is not None
    assert edge.weight == cosine(20)
    assert writer.derivations("mends itself") == 1
    assert writer.graph.missing_vector_count == 0
    assert "1 linked by meaning" in result.text
    assert result.as_wire()["semantic_merged"] == [writer.id("mends itself")]


def test_the_threshold_is_the_contracts_and_inclusive_below_it_nothing(writer: Writer) -> None:
    writer.place(mends_itself=0, heals_by_magic=32)
    writer.derive("mends itself")
    writer.derive("heals by magic")
    assert writer.pairs(EdgeType.SEMANTIC) == []
    assert writer.vector_count() == 2


def test_the_key_comes_first_and_a_match_by_it_needs_no_vector(writer: Writer) -> None:
    writer.place(mends_itself=0, other=10)
    writer.derive("mends itself", "other")
    result = writer.derive("itself mends")
    assert result.matched == (writer.id("mends itself"),)
    assert result.meaning is not None
    assert result.meaning.merged == []


def test_only_the_best_hit_is_linked(writer: Writer) -> None:
    writer.place(alpha=0, beta=10, gamma=15)
    writer.derive("alpha")
    writer.derive("beta")
    result = writer.derive("gamma")
    assert result.meaning is not None
    assert result.meaning.merged == [writer.id("beta")]


def test_every_hit_tied_at_the_best_score_is_linked(writer: Writer) -> None:
    writer.place(alpha=0, beta=0, gamma=20, delta=5)
    writer.derive("alpha", "beta", "gamma")
    result = writer.derive("delta")
    assert result.meaning is not None
    assert result.meaning.merged == sorted([writer.id("alpha"), writer.id("beta")])


def test_a_vetoed_hit_gives_way_to_the_next(writer: Writer) -> None:
    writer.place(uses_port_1=0, speaks_TLS=20, uses_port_2=2)
    writer.derive("uses port 1", "speaks TLS")
    result = writer.derive("uses port 2")
    assert result.meaning is not None
    assert result.meaning.merged == [writer.id("speaks TLS")]


def test_a_concept_is_not_linked_to_what_it_contradicts(writer: Writer) -> None:
    writer.place(alpha=0, beta=20, gamma=2)
    writer.derive("alpha", "beta")
    result = writer.derive(concept("gamma", against=["alpha"]))
    assert result.meaning is not None
    assert result.meaning.merged == [writer.id("beta")]


def test_texts_of_one_call_are_not_linked_to_each_other(writer: Writer) -> None:
    writer.place(alpha=0, beta=5)
    writer.derive("alpha", "beta")
    assert writer.pairs(EdgeType.SEMANTIC) == []


def test_parts_named_in_a_pair_alone_get_a_vector_and_no_link(writer: Writer) -> None:
    writer.place(alpha=0, whole=3)
    writer.derive("alpha")
    result = writer.derive("alpha", parent_of=[("whole", "alpha")])
    assert result.meaning is not None
    assert result.meaning.merged == []
    assert writer.graph.missing_vector_count == 0


def test_a_chain_of_near_neighbours_never_joins_its_ends(writer: Writer) -> None:
    names = [f"q{chr(ord('a') + place)}q" for place in range(20)]
    writer.place(**{name: place * 9.0 for place, name in enumerate(names)})
    for name in names:
        writer.derive(name)
    pairs = writer.pairs(EdgeType.SEMANTIC)
    assert len(pairs) == 19
    assert {frozenset(pair) for pair in pairs} == {frozenset(pair) for pair in pairwise(names)}
    assert len(writer.contents()) == 20


def test_actions_and_observations_of_a_chunk_get_vectors_and_no_links(writer: Writer) -> None:
    writer.place(alpha=0, built_it=1, part=2)
    writer.vectors["One sentence."] = at(3)
    writer.derive("alpha")
    writer.act("built it", produces=["part"])
    writer.demote("One sentence.")
    assert writer.graph.missing_vector_count == 0
    assert writer.pairs(EdgeType.SEMANTIC) == []


# -- without vectors -------------------------------------------------------------------------------


def test_a_text_without_a_vector_is_stored_and_counted_as_missing(writer: Writer) -> None:
    result = writer.derive("alpha")
    assert len(result.created) == 1
    assert result.meaning is not None
    assert writer.graph.missing_vector_count == 1


def test_a_session_without_a_contract_ignores_vectors_and_says_nothing_of_meaning() -> None:
    scribe = Scribe()
    scribe.vectors["alpha"] = at(0)
    result = scribe.derive("alpha")
    assert result.meaning is None
    assert "semantic_merged" not in result.as_wire()
    assert not any(isinstance(mutation, PutVector) for mutation in scribe.last)


def test_a_canonical_session_with_a_contract_keeps_vectors_and_its_rules() -> None:
    scribe = Scribe(Graph("session", START, contract=CONTRACT))
    scribe.vectors |= {"alpha": at(0), "beta": at(1)}
    scribe.derive("alpha")
    result = scribe.derive("beta")
    assert result.meaning is None
    assert scribe.pairs(EdgeType.SEMANTIC) == []
    assert scribe.graph.missing_vector_count == 0


# -- from the look-up to the step ------------------------------------------------------------------


def test_what_was_written_since_the_look_up_counts(writer: Writer) -> None:
    writer.place(alpha=0, beta=8, gamma=10)
    writer.derive("alpha")
    stale = writer.meanings(["gamma"])
    writer.derive("beta")
    writer.retract("alpha")
    writer.meanings = lambda texts: stale  # type: ignore[method-assign]
    result = writer.derive("gamma")
    assert result.meaning is not None
    assert result.meaning.merged == [writer.id("beta")]


def test_a_look_up_in_a_graph_that_was_replaced_is_done_again(writer: Writer) -> None:
    writer.place(alpha=0, gamma=10)
    stale = Meanings(CONTRACT, {"gamma": at(10)}, {}, VectorTable(3), 700)
    writer.derive("alpha")
    writer.graph = reopened(writer.graph)
    writer.meanings = lambda texts: stale  # type: ignore[method-assign]
    result = writer.derive("gamma")
    assert result.meaning is not None
    assert result.meaning.merged == [writer.id("alpha")]


def test_a_look_up_that_lies_far_behind_is_done_again_with_the_same_result(writer: Writer) -> None:
    writer.place(alpha=0, beta=8, gamma=10)
    writer.derive("alpha")
    stale = writer.meanings(["gamma"])
    assert stale is not None
    assert not is_behind(writer.graph, stale)
    writer.derive("beta")
    assert not is_behind(writer.graph, stale)  # one change is for the step to bring in
    table = writer.graph.vectors
    assert table is not None
    for row in range(10, 11 + CHANGES_IN_STEP):
        table.put(row, at(170))
    assert is_behind(writer.graph, stale)
    fresh = look_up(search_again(stale), table)
    assert not is_behind(writer.graph, fresh)
    assert set(fresh.found["gamma"].rows.tolist()) == {writer.row("alpha"), writer.row("beta")}


def test_long_pairs_are_read_ahead_with_the_verdict_the_step_would_reach(writer: Writer) -> None:
    filler = "and so on with words that say little " * 300
    old, new, twin = (f"the port is {port} {filler}" for port in ("80", "81", "80"))
    twin += "again"
    writer.vectors |= {old: at(0), new: at(3), twin: at(4)}
    writer.derive(concept(old, L))
    meanings = writer.meanings([new, twin])
    assert meanings is not None
    pairs = unread_pairs(writer.graph, meanings)
    assert set(pairs) == {(new, old), (twin, old)}
    ready = read_pairs(meanings, pairs)
    assert unread_pairs(writer.graph, ready) == []
    for pair in pairs:
        veto = find_veto(*pair)
        assert ready.verdicts[pair].veto is (None if veto is None else veto.reason)
        assert ready.verdicts[pair].is_new_version == (veto is not None and is_new_version(*pair))
    assert ready.verdicts[new, old].is_new_version


def test_short_pairs_are_left_to_the_step(writer: Writer) -> None:
    writer.place(alpha=0, gamma=10)
    writer.derive("alpha")
    meanings = writer.meanings(["gamma"])
    assert meanings is not None
    assert unread_pairs(writer.graph, meanings) == []


# -- replacement candidates ------------------------------------------------------------------------


def test_a_new_claim_is_told_what_it_might_replace(writer: Writer) -> None:
    writer.place(uses_port_1=0, uses_port_2=5)
    writer.derive(concept("uses port 1", L))
    result = writer.derive(concept("uses port 2", L))
    assert result.meaning is not None
    assert result.meaning.replacements == [
        ReplacementCandidate(
            new=writer.id("uses port 2"),
            id=writer.id("uses port 1"),
            excerpt="uses port 1",
            cosine=cosine(5),
            merged=False,
            newer=False,
        )
    ]
    assert "may replace 'uses port 1'" in result.text
    assert result.as_wire()["summary"] == result.text.partition("\n")[0]


def test_a_linked_claim_is_offered_too_and_says_so(writer: Writer) -> None:
    writer.place(alpha=0, beta=5)
    writer.derive(concept("alpha", C))
    result = writer.derive(concept("beta", C), event_time=START - 100 * SECOND)
    assert result.meaning is not None
    (candidate,) = result.meaning.replacements
    assert candidate.merged
    assert candidate.newer


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (concept("alpha", E), concept("beta", E)),
        (concept("alpha", L), concept("beta", C)),
        (concept("alpha", L), concept("beta", L, depends_on=["alpha"])),
        (concept("alpha", L), concept("beta", L, against=["alpha"])),
    ],
)
def test_other_types_and_cited_claims_are_not_offered(
    writer: Writer, old: ConceptInput, new: ConceptInput
) -> None:
    writer.place(alpha=0, beta=5)
    writer.derive(old)
    result = writer.derive(new)
    assert result.meaning is not None
    assert result.meaning.replacements == []


def test_what_the_call_itself_writes_is_not_offered(writer: Writer) -> None:
    writer.place(alpha=0, beta=5)
    writer.derive(concept("alpha", L))
    result = writer.derive(concept("beta", L), concept("alpha", L))
    assert result.meaning is not None
    assert result.meaning.replacements == []
    assert result.meaning.merged == [writer.id("alpha")]


def test_at_most_a_few_are_offered_the_nearest_first(writer: Writer) -> None:
    names = [f"claim{chr(ord('a') + place)}" for place in range(NEAREST + 3)]
    writer.place(**{name: float(place) for place, name in enumerate(names)}, fresh=0)
    writer.derive(*(concept(name, L) for name in names))
    result = writer.derive(concept("fresh", L))
    assert result.meaning is not None
    offered = [candidate.excerpt for candidate in result.meaning.replacements]
    assert offered == names[:REPLACEMENTS]


# -- suspected supersession ------------------------------------------------------------------------


@pytest.fixture
def ports(writer: Writer) -> Writer:
    writer.vectors |= {"api uses port 1": at(0), "api uses port 2": at(5)}
    return writer


def test_a_later_version_of_a_claim_is_suspected_to_supersede_it(ports: Writer) -> None:
    ports.derive(concept("api uses port 1", L))
    ports.derive(concept("api uses port 2", L))
    assert ports.pairs(EdgeType.SUSPECTED_SUPERSEDES) == [("api uses port 2", "api uses port 1")]
    edge = ports.edge("api uses port 2", "api uses port 1", EdgeType.SUSPECTED_SUPERSEDES)
    assert edge.weight == cosine(5)
    assert ports.pairs(EdgeType.SEMANTIC) == []
    assert reopened(ports.graph).edge(edge.id) == edge


def test_the_later_about_time_is_the_newer_one(ports: Writer) -> None:
    ports.derive(concept("api uses port 1", L))
    ports.derive(concept("api uses port 2", L), event_time=START - SECOND)
    assert ports.pairs(EdgeType.SUSPECTED_SUPERSEDES) == [("api uses port 1", "api uses port 2")]


def test_a_time_in_the_future_counts_as_the_time_of_writing(ports: Writer) -> None:
    ports.derive(concept("api uses port 1", L), event_time=START + 10**6 * SECOND)
    ports.derive(concept("api uses port 2", L))
    assert ports.pairs(EdgeType.SUSPECTED_SUPERSEDES) == [("api uses port 2", "api uses port 1")]


def test_equal_times_write_nothing(ports: Writer) -> None:
    ports.derive(concept("api uses port 1", L), event_time=7)
    ports.derive(concept("api uses port 2", L), event_time=7)
    assert ports.pairs(EdgeType.SUSPECTED_SUPERSEDES) == []


@pytest.mark.parametrize(
    "new",
    [
        concept("api uses port 2", C),
        concept("api uses port 2", L, against=["api uses port 1"]),
        concept("api uses port 2", L, depends_on=["api uses port 1"]),
    ],
)
def test_another_type_or_a_citation_leaves_nothing_to_suspect(
    ports: Writer, new: ConceptInput
) -> None:
    ports.derive(concept("api uses port 1", L))
    ports.derive(new)
    assert ports.pairs(EdgeType.SUSPECTED_SUPERSEDES) == []


@pytest.mark.parametrize("way", ["against", "depends_on"])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_citation_settles_the_pair_either_way(ports: Writer, way: str, backwards: bool) -> None:
    ports.derive(concept("api uses port 1", L))
    ports.derive(concept("api uses port 2", L))
    pair = ["api uses port 1", "api uses port 2"]
    source, target = pair[::-1] if backwards else pair
    ports.derive(concept(source, L, **{way: [target]}))
    assert ports.pairs(EdgeType.SUSPECTED_SUPERSEDES) == []


def test_a_suspicion_goes_with_either_end(ports: Writer) -> None:
    ports.derive(concept("api uses port 1", L))
    ports.derive(concept("api uses port 2", L))
    ports.retract("api uses port 1")
    assert [
        e for e in ports.graph.all_edges() if e.edge_type is EdgeType.SUSPECTED_SUPERSEDES
    ] == []


# -- the rules of the strategy ---------------------------------------------------------------------


def test_a_repeated_observation_matches_in_any_spacing_and_unicode_form(writer: Writer) -> None:
    writer.derive(observation("caf\u00e9 opens  late"))
    result = writer.derive(observation("cafe\u0301 opens late"))
    assert result.created == ()
    assert result.matched == (writer.id("caf\u00e9 opens  late"),)
    assert writer.derivations("caf\u00e9 opens  late") == 2


def test_an_observation_of_the_same_words_in_another_order_or_case_is_another(
    writer: Writer,
) -> None:
    writer.derive(observation("cats chase dogs"))
    result = writer.derive(observation("dogs chase cats"), observation("Cats chase dogs"))
    assert len(result.created) == 2


def test_an_observation_repeated_within_a_call_is_one(writer: Writer) -> None:
    result = writer.derive(observation("rain fell"), observation("rain  fell"))
    assert len(result.created) == 1
    assert len(result.matched) == 1


def test_a_chunk_may_repeat_an_observation(writer: Writer) -> None:
    writer.demote("Rain fell.")
    writer.demote("Rain fell.")
    assert len(writer.contents()) == 2


def test_a_second_parent_is_accepted_and_a_parent_of_itself_is_not(writer: Writer) -> None:
    writer.derive("part", parent_of=[("one whole", "part"), ("another whole", "part")])
    assert len(writer.pairs(EdgeType.HIERARCHICAL)) == 2
    with writer.refused(InvalidArgument, field="parent_of[0]"):
        writer.derive("part", parent_of=[("part", "the part")])

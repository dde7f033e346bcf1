"""Chunks kept as observations: cut, never matched, marked with their group."""

from __future__ import annotations

import pytest

from graph_writing import START, Scribe
from memory.engine.errors import InvalidArgument
from memory.engine.limits import LIMIT_DEMOTE_SENTENCES
from memory.engine.types import ConceptType, EdgeType


def test_chunk_when_demoted_then_each_sentence_is_an_observation_of_the_group() -> None:
    scribe = Scribe()
    result = scribe.demote("  The user signed up. Then it failed!  ", "overflow 1")
    held = [scribe.graph.concept(node) for node in result.created]
    assert [one.content for one in held if one] == ["The user signed up.", "Then it failed!"]
    for one in held:
        assert one is not None
        assert one.concept_type is ConceptType.OBSERVATION
        assert one.chunk_group_id == "overflow 1"
        assert one.last_demotion_time == one.created_at == START
        assert scribe.derivations(one.content) == 1
    assert [one.canonical_key for one in held if one] == ["sign up. user", "failed! it then"]
    assert result.text == "kept 2 observation(s) in chunk group 'overflow 1'"


def test_interaction_when_demoted_then_has_no_prompt() -> None:
    scribe = Scribe()
    scribe.demote("It rained.")
    tail = scribe.graph.tail
    assert tail is not None
    assert (tail.prompt_text, tail.agent_id) == (None, "agent-a")


@pytest.mark.parametrize("blank", ["", "   ", "\n\t\n", "\u200d"])
def test_chunk_when_blank_then_nothing_is_written(blank: str) -> None:
    scribe = Scribe()
    result = scribe.demote(blank)
    assert result.created == ()
    assert scribe.last == ()
    assert (scribe.graph.epoch, scribe.graph.interaction_count) == (0, 0)


def test_sentence_when_repeated_in_a_chunk_and_over_calls_then_is_kept_each_time() -> None:
    scribe = Scribe()
    assert len(scribe.demote("It rained. It rained.").created) == 2
    assert len(scribe.demote("it rained.").created) == 1
    assert len(scribe.graph.observation_rows("it rained.")) == 3


def test_sentence_when_an_entity_has_its_key_then_is_not_matched() -> None:
    scribe = Scribe()
    scribe.derive("rained.")
    assert len(scribe.demote("rained.").created) == 1
    assert scribe.derivations("rained.") == 1


def test_sentence_when_only_stop_words_then_is_kept_with_an_empty_key() -> None:
    scribe = Scribe()
    (node,) = scribe.demote("and or the").created
    held = scribe.graph.concept(node)
    assert held is not None
    assert (held.content, held.canonical_key) == ("and or the", "")


def test_key_when_a_synonym_stands_then_follows_it() -> None:
    scribe = Scribe()
    scribe.declare_synonym("It rained.", "wet weather")
    (node,) = scribe.demote("It rained.").created
    held = scribe.graph.concept(node)
    assert held is not None
    assert (held.content, held.canonical_key) == ("It rained.", "weather wet")


def test_observations_when_demoted_together_then_do_not_co_occur() -> None:
    scribe = Scribe()
    scribe.demote("One thing. Other thing.")
    types = {edge.edge_type for edge in scribe.graph.all_edges()}
    assert types == {EdgeType.DERIVES}


def test_sentences_when_more_than_the_limit_then_refused_by_name() -> None:
    scribe = Scribe()
    most = "A b! " * LIMIT_DEMOTE_SENTENCES
    with scribe.refused(InvalidArgument, field="chunk"):
        scribe.demote(most + "A b!")
    assert len(scribe.demote(most).created) == LIMIT_DEMOTE_SENTENCES


@pytest.mark.parametrize("group", ["", "  ", "two\nlines", "g" * 256])
def test_group_when_not_a_name_then_refused(group: str) -> None:
    scribe = Scribe()
    with scribe.refused(InvalidArgument, field="chunk_group_id"):
        scribe.demote("It rained.", group)

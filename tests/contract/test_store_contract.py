"""What every `GraphStore` promises of a session's log: what is committed, loaded and refused."""

from __future__ import annotations

from itertools import pairwise

import pytest

from memory.engine.mutations import (
    ApplyTransition,
    DeleteConcept,
    DeleteEdge,
    DeleteReservation,
    Mutation,
    PutConcept,
    PutEdge,
    PutInteraction,
    PutReservation,
    PutSynonym,
    SetRootGoal,
)
from memory.engine.ports import (
    GraphStore,
    StoreRejected,
)
from memory.engine.snapshot import load_snapshot
from memory.engine.times import to_datetime
from memory.engine.types import ConceptType, EdgeType, Interaction, Reservation, Status
from session_log import START, SessionLog

YEAR_1 = -62_135_596_800_000_000
YEAR_9999 = 253_402_300_799_999_999


# -- what is committed is loaded ---------------------------------------------------------------


def test_commit_every_kind_of_record_then_load_gives_equal_records(log: SessionLog) -> None:
    interaction, mutations = log.call("prompt")
    first, puts = log.derived(interaction, "user schema")
    mutations += puts
    second, puts = log.derived(
        interaction,
        "said in passing",
        concept_type=ConceptType.OBSERVATION,
        access_count=3,
        last_accessed=START + 9,
        gc_survived=2,
        chunk_group_id="chunk-1",
    )
    mutations += puts
    needs = log.edge(first.id, second.id, EdgeType.DEPENDENCY, event_time=START - 5)
    goal = ["launch", {"nested": None}, "Zürich"]
    reservation = Reservation(first.id, "agent-b", START + 30)
    transition = log.transition(first, Status.NONE, Status.CANDIDATE, blast_radius=4)
    mutations += [
        PutEdge(needs),
        SetRootGoal(goal),
        PutSynonym("register_user", "create_user"),
        PutReservation(reservation),
        ApplyTransition(transition),
    ]

    assert not log.commit(mutations)

    snapshot = log.load()
    assert snapshot.session_id == "s"
    assert snapshot.created_at == START
    assert snapshot.root_goal == goal
    assert snapshot.interactions == (interaction,)
    promoted = first._replace(status=Status.CANDIDATE, blast_radius=4)
    assert snapshot.concepts == (promoted, second)
    assert needs in snapshot.edges
    assert snapshot.synonyms == (("register_user", "create_user"),)
    assert snapshot.reservations == (reservation,)
    assert snapshot.transitions == (transition,)
    assert all(type(edge.edge_type) is EdgeType for edge in snapshot.edges)
    assert load_snapshot(snapshot).concept_count == 2


def test_interactions_come_in_chain_order_also_at_equal_times(log: SessionLog) -> None:
    chain = []
    previous = None
    for _ in range(5):
        interaction = Interaction(log.ids.next_id(), "a", None, previous, START)
        previous = interaction.id
        chain.append(interaction)
    edges = [
        PutEdge(log.edge(later.id, earlier.id, EdgeType.TEMPORAL))
        for earlier, later in pairwise(chain)
    ]

    log.commit([PutInteraction(interaction) for interaction in reversed(chain)], edges)

    assert log.load().interactions == tuple(chain)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        "two\nlines\tand a tab",
        "Ünïcödé e\u0301 \u00e9",
        "\U0001f469\U0001f3fd\u200d\U0001f680 \u202eright to left",
        "日本語",
        "quote ' \" ; -- % %s {} \\ /* */",
        "\ufffd\ufffe\U0010ffff\u0001",
        "x" * 16_384,
    ],
    ids=ascii,
)
def test_text_comes_back_character_by_character(log: SessionLog, text: str) -> None:
    interaction, mutations = log.call(text)
    concept, puts = log.derived(interaction, text)
    mutations += [*puts, PutSynonym(text, text), SetRootGoal({text: [text]})]

    log.commit(mutations)

    snapshot = log.load()
    assert snapshot.interactions[0].prompt_text == text
    assert (snapshot.concepts[0].content, snapshot.concepts[0].canonical_key) == (text, text)
    assert snapshot.synonyms == ((text, text),)
    assert snapshot.root_goal == {text: [text]}
    assert concept in snapshot.concepts


def test_times_of_the_years_1_and_9999_come_back_exactly(log: SessionLog) -> None:
    interaction = Interaction(log.ids.next_id(), "a", None, None, YEAR_1, YEAR_9999)
    concept, puts = log.derived(interaction, "old", last_accessed=YEAR_9999)

    log.commit([PutInteraction(interaction), *puts])

    snapshot = log.load()
    assert snapshot.interactions == (interaction,)
    assert snapshot.concepts == (concept,)
    assert to_datetime(snapshot.concepts[0].created_at).year == 1


def test_a_batch_of_500_groups_is_stored_whole(log: SessionLog) -> None:
    groups: list[list[Mutation]] = []
    for number in range(500):
        interaction, mutations = log.call()
        _, puts = log.derived(interaction, f"concept {number}")
        groups.append([*mutations, *puts])

    assert not log.commit(*groups)

    snapshot = log.load()
    assert len(snapshot.interactions) == len(snapshot.concepts) == 500
    assert len(snapshot.edges) == 999
    assert log.position == 500


def test_an_unknown_session_loads_as_none(store: GraphStore) -> None:
    assert store.load_session("nobody") is None
    assert store.find_session("nobody") is None
    assert store.find_receipt("nobody", "a", "k") is None
    assert store.count_dead_letters("nobody") == 0
    assert store.read_positions(["nobody"]) == {}


# -- replay and order within a log -------------------------------------------------------------


def test_the_same_mutations_again_change_nothing(log: SessionLog) -> None:
    interaction, mutations = log.call()
    concept, puts = log.derived(interaction, "kept")
    gone, more = log.derived(interaction, "gone")
    transition = log.transition(concept, Status.NONE, Status.CANDIDATE)
    mutations += [*puts, *more, DeleteConcept(gone.id), ApplyTransition(transition)]
    mutations += [SetRootGoal("goal"), PutSynonym("a", "b")]
    log.commit(mutations)
    before = log.load()

    assert not log.commit(mutations)

    assert log.load() == before
    assert len(before.transitions) == 1


def test_create_delete_and_create_again_under_one_key_in_one_batch(log: SessionLog) -> None:
    interaction, mutations = log.call()
    first, first_puts = log.derived(interaction, "same key")
    second, second_puts = log.derived(interaction, "same key")

    assert not log.commit([*mutations, *first_puts], [DeleteConcept(first.id)], second_puts)

    snapshot = log.load()
    assert snapshot.concepts == (second,)
    assert [edge.target for edge in snapshot.edges] == [second.id]


def test_the_same_id_may_be_deleted_and_put_again_in_one_batch(log: SessionLog) -> None:
    interaction, mutations = log.call()
    concept, puts = log.derived(interaction, "back again", gc_survived=7)

    log.commit([*mutations, *puts, DeleteConcept(concept.id), *puts])

    assert log.load().concepts == (concept,)


def test_a_concept_created_and_promoted_in_one_batch_is_stored_promoted(log: SessionLog) -> None:
    interaction, mutations = log.call()
    concept, puts = log.derived(interaction, "rising")
    transition = log.transition(concept, Status.NONE, Status.CANDIDATE, blast_radius=2)
    counted = concept._replace(gc_survived=1, status=Status.CANDIDATE, blast_radius=2)

    log.commit([*mutations, *puts], [ApplyTransition(transition)], [PutConcept(counted)])

    snapshot = log.load()
    assert snapshot.concepts == (counted,)
    assert snapshot.transitions == (transition,)


def test_a_known_transition_found_in_a_batch_does_not_promote_a_second_time(
    log: SessionLog,
) -> None:
    interaction, mutations = log.call()
    concept, puts = log.derived(interaction, "rising")
    up = log.transition(concept, Status.NONE, Status.CANDIDATE)
    on = log.transition(concept, Status.CANDIDATE, Status.VENERABLE)
    log.commit([*mutations, *puts, ApplyTransition(up), ApplyTransition(on)])

    log.commit([ApplyTransition(up)])

    snapshot = log.load()
    assert snapshot.concepts[0].status is Status.VENERABLE
    assert snapshot.transitions == (up, on)


def test_a_put_never_touches_the_status_of_a_stored_concept(log: SessionLog) -> None:
    interaction, mutations = log.call()
    concept, puts = log.derived(interaction, "pillar")
    down = log.transition(
        concept, Status.CANONICAL, Status.NONE, last_demotion_time=START + 60, blast_radius=None
    )
    up = log.transition(concept, Status.VENERABLE, Status.CANONICAL, blast_radius=9)
    log.commit([*mutations, *puts, ApplyTransition(up)])

    stale = concept._replace(access_count=5, last_accessed=START + 1, status=Status.NONE)
    log.commit([PutConcept(stale)])

    kept = log.load().concepts[0]
    assert (kept.status, kept.blast_radius) == (Status.CANONICAL, 9)
    assert (kept.access_count, kept.last_accessed) == (5, START + 1)

    log.commit([ApplyTransition(down)])
    demoted = log.load().concepts[0]
    assert (demoted.status, demoted.blast_radius) == (Status.NONE, None)
    assert demoted.last_demotion_time == START + 60


def test_a_promotion_leaves_the_time_of_the_last_demotion(log: SessionLog) -> None:
    interaction, mutations = log.call()
    concept, puts = log.derived(interaction, "pillar")
    down = log.transition(concept, Status.CANONICAL, Status.NONE, last_demotion_time=START + 60)
    up = log.transition(concept, Status.NONE, Status.CANDIDATE)

    log.commit([*mutations, *puts, ApplyTransition(down), ApplyTransition(up)])

    assert log.load().concepts[0].last_demotion_time == START + 60


def test_reinforcing_an_edge_keeps_its_id_and_its_beginnings(log: SessionLog) -> None:
    interaction, mutations = log.call()
    first, puts = log.derived(interaction, "one")
    second, more = log.derived(interaction, "two")
    edge = log.edge(first.id, second.id, EdgeType.CO_OCCURRENCE)
    log.commit([*mutations, *puts, *more, PutEdge(edge)])
    again = log.edge(
        first.id,
        second.id,
        EdgeType.CO_OCCURRENCE,
        weight=1.5,
        reinforcements=2,
        created_at=START + 99,
        last_reinforced=START + 99,
        created_by="agent-b",
        reinforced_by="agent-b",
        event_time=START - 1,
    )

    log.commit([PutEdge(again)])

    (stored,) = (kept for kept in log.load().edges if kept.edge_type is EdgeType.CO_OCCURRENCE)
    assert stored == again._replace(id=edge.id, created_at=edge.created_at, created_by="agent-a")


def test_deleting_a_concept_takes_its_edges_and_its_reservation(log: SessionLog) -> None:
    kept, gone = log.write("kept", "gone")
    log.commit(
        [
            PutEdge(log.edge(kept.id, gone.id, EdgeType.DEPENDENCY)),
            PutEdge(log.edge(gone.id, kept.id, EdgeType.CAUSAL)),
            PutReservation(Reservation(gone.id, "agent-b", START)),
        ]
    )

    log.commit([DeleteConcept(gone.id)])

    snapshot = log.load()
    assert snapshot.concepts == (kept,)
    assert not any(gone.id in (edge.source, edge.target) for edge in snapshot.edges)
    assert snapshot.reservations == ()


def test_deleting_what_is_not_there_is_no_error(log: SessionLog) -> None:
    (concept,) = log.write("here")
    nobody = log.ids.next_id()

    log.commit([DeleteConcept(nobody), DeleteEdge(nobody), DeleteReservation(nobody)])

    assert log.load().concepts == (concept,)


def test_the_last_version_of_goal_synonym_and_reservation_counts(log: SessionLog) -> None:
    (concept,) = log.write("reserved")
    log.commit(
        [SetRootGoal("one"), PutSynonym("a", "b"), PutReservation(Reservation(concept.id, "x", 1))],
        [SetRootGoal("two"), PutSynonym("a", "c"), PutReservation(Reservation(concept.id, "y", 2))],
    )
    snapshot = log.load()
    assert snapshot.root_goal == "two"
    assert snapshot.synonyms == (("a", "c"),)
    assert snapshot.reservations == (Reservation(concept.id, "y", 2),)

    log.commit([SetRootGoal(None), DeleteReservation(concept.id)])
    assert log.load().root_goal is None
    assert log.load().reservations == ()


# -- what is refused is refused whole ----------------------------------------------------------


def test_a_second_concept_under_a_taken_key_is_rejected_and_nothing_is_stored(
    log: SessionLog,
) -> None:
    log.write("taken")
    before = log.load()
    interaction, mutations = log.call()
    _, puts = log.derived(interaction, "taken")

    with pytest.raises(StoreRejected):
        log.commit([*mutations, PutSynonym("x", "y"), *puts], [SetRootGoal("never")])

    assert log.load() == before


def test_observations_may_share_a_key(log: SessionLog) -> None:
    interaction, mutations = log.call()
    for _ in range(2):
        _, puts = log.derived(interaction, "seen", concept_type=ConceptType.OBSERVATION)
        mutations += puts

    log.commit(mutations)

    assert len(log.load().concepts) == 2


def test_an_edge_id_may_not_serve_two_edges(log: SessionLog) -> None:
    one, two = log.write("one", "two")
    edge = log.edge(one.id, two.id, EdgeType.DEPENDENCY)
    log.commit([PutEdge(edge)])

    with pytest.raises(StoreRejected):
        log.commit([PutEdge(edge._replace(edge_type=EdgeType.CAUSAL))])


def test_an_interaction_may_not_change_its_place(log: SessionLog) -> None:
    interaction, mutations = log.call()
    log.commit(mutations)

    with pytest.raises(StoreRejected):
        log.commit([PutInteraction(interaction._replace(created_at=START + 77))])


def test_a_transition_of_a_concept_that_is_not_stored_is_rejected(log: SessionLog) -> None:
    (concept,) = log.write("here")
    ghost = concept._replace(id=log.ids.next_id())

    with pytest.raises(StoreRejected):
        log.commit([ApplyTransition(log.transition(ghost, Status.NONE, Status.CANDIDATE))])

    assert log.load().transitions == ()


@pytest.mark.parametrize("value", ["half \ud800 a pair", float("nan"), {1, 2}], ids=ascii)
def test_a_value_no_engine_can_hold_is_rejected(log: SessionLog, value: object) -> None:
    with pytest.raises(StoreRejected):
        log.commit([SetRootGoal(value)])


def test_ids_of_another_session_are_rejected_and_left_alone(store: GraphStore) -> None:
    ours, theirs = SessionLog(store, "ours", seed=1), SessionLog(store, "theirs", seed=2)
    (concept,) = theirs.write("theirs")
    transition = theirs.transition(concept, Status.NONE, Status.CANDIDATE)
    theirs.commit([ApplyTransition(transition)])
    before = theirs.load()
    (own,) = ours.write("ours")

    for mutation in (
        PutInteraction(before.interactions[0]),
        PutConcept(concept._replace(gc_survived=9)),
        PutEdge(before.edges[0]),
        ApplyTransition(transition._replace(node_id=own.id)),
    ):
        with pytest.raises(StoreRejected):
            ours.commit([mutation])
    ours.commit([DeleteConcept(concept.id), DeleteEdge(before.edges[0].id)])

    assert theirs.load() == before


# -- rows that dangle --------------------------------------------------------------------------


def test_rows_that_dangle_are_set_aside_with_a_sentence_each(log: SessionLog) -> None:
    interaction, mutations = log.call()
    sound, puts = log.derived(interaction, "sound")
    orphan = log.concept(interaction, "derived by nobody")
    stray = log.concept(interaction._replace(id=log.ids.next_id()), "origin unknown")
    nowhere = log.edge(sound.id, log.ids.next_id(), EdgeType.DEPENDENCY)
    to_orphan = log.edge(sound.id, orphan.id, EdgeType.CAUSAL)
    wrong_sort = log.edge(interaction.id, sound.id, EdgeType.SEMANTIC)
    lost = Reservation(log.ids.next_id(), "agent", START)
    mutations += [*puts, PutConcept(orphan), PutConcept(stray), PutReservation(lost)]
    mutations += [PutEdge(nowhere), PutEdge(to_orphan), PutEdge(wrong_sort)]
    log.commit(mutations)

    loaded = log.store.load_session("s")

    assert loaded is not None
    assert loaded.snapshot.concepts == (sound,)
    assert [edge.edge_type for edge in loaded.snapshot.edges] == [EdgeType.DERIVES]
    assert loaded.snapshot.reservations == ()
    assert len(loaded.set_aside) == 6
    for record in (orphan, stray, nowhere, to_orphan, wrong_sort):
        assert any(record.id in item.sentence for item in loaded.set_aside)
    assert load_snapshot(loaded.snapshot).concept_count == 1


def test_a_broken_chain_is_joined_and_reported(log: SessionLog) -> None:
    first, mutations = log.call()
    missing = log.interaction()
    last, _ = log.call()
    log.commit([*mutations, PutInteraction(last)])

    loaded = log.store.load_session("s")

    assert loaded is not None
    assert loaded.snapshot.interactions == (first, last._replace(previous_id=first.id))
    (edge,) = loaded.snapshot.edges
    assert (edge.source, edge.target, edge.edge_type) == (last.id, first.id, EdgeType.TEMPORAL)
    assert any(missing.id in item.sentence for item in loaded.set_aside)
    assert load_snapshot(loaded.snapshot).interaction_count == 2
    assert log.store.load_session("s") == loaded

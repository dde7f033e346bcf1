from __future__ import annotations

from canon.engine.survivors import PendingSurvivors
from graph_writing import Scribe
from memory.engine.limits import COUNTER_MAX
from memory.engine.mutations import DeleteConcept, PutConcept


def filled(count: int) -> Scribe:
    scribe = Scribe()
    for start in range(0, count, 60):
        scribe.derive(*(f"part {number}" for number in range(start, min(start + 60, count))))
    return scribe


def ids_of(scribe: Scribe) -> list[str]:
    return sorted(scribe.graph.id_at(row) for row in scribe.graph.concept_rows())


def test_survivors_are_counted_by_id_and_few_at_a_time() -> None:
    scribe = filled(5)
    names = ids_of(scribe)
    pending = PendingSurvivors(reversed(names))
    first = pending.plan_round(scribe.graph, limit=3)
    assert [one.concept.id for one in first] == names[:3]
    assert [one.concept.gc_survived for one in first] == [1, 1, 1]
    assert pending
    assert pending.cursor == names[2]
    assert [one.concept.id for one in pending.plan_round(scribe.graph, limit=3)] == names[3:]
    assert not pending
    assert pending.plan_round(scribe.graph) == ()


def test_a_round_counts_five_hundred() -> None:
    scribe = filled(501)
    pending = PendingSurvivors(ids_of(scribe))
    assert len(pending.plan_round(scribe.graph)) == 500
    assert len(pending.plan_round(scribe.graph)) == 1


def test_a_concept_gone_meanwhile_is_passed_over_and_takes_no_place() -> None:
    scribe = filled(4)
    names = ids_of(scribe)
    pending = PendingSurvivors(names)
    scribe.graph.apply(DeleteConcept(names[0]))
    counted = pending.plan_round(scribe.graph, limit=2)
    assert [one.concept.id for one in counted] == names[1:3]


def test_the_count_stops_at_its_limit() -> None:
    scribe = filled(1)
    (name,) = ids_of(scribe)
    full = scribe.held("part 0")._replace(gc_survived=COUNTER_MAX)
    scribe.graph.apply(PutConcept(full))
    (counted,) = PendingSurvivors([name]).plan_round(scribe.graph)
    assert counted.concept.gc_survived == COUNTER_MAX


def test_a_new_process_goes_on_after_the_cursor_and_leaves_out_what_is_younger() -> None:
    scribe = filled(4)
    names, swept_at = ids_of(scribe), scribe.now
    pending = PendingSurvivors(names)
    scribe.graph.apply_all(pending.plan_round(scribe.graph, limit=1))
    scribe.now += 1
    scribe.derive("younger")
    resumed = PendingSurvivors.resume(scribe.graph, swept_at=swept_at, cursor=pending.cursor)
    assert resumed.cursor == names[0]
    assert [one.concept.id for one in resumed.plan_round(scribe.graph)] == names[1:]
    from_the_start = PendingSurvivors.resume(scribe.graph, swept_at=swept_at, cursor=None)
    assert len(from_the_start.plan_round(scribe.graph)) == 4

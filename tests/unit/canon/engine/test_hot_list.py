from __future__ import annotations

from canon.engine.hot_list import (
    Condition,
    Findings,
    Hit,
    HotView,
    build_hot_list,
    in_standing_order,
)
from recall_graphs import numbered_id


def hits(condition: Condition, *instants: int, first: int = 1) -> list[Hit]:
    """One hit for each instant, at nodes numbered upwards."""
    return [Hit(numbered_id(first + n), condition, at) for n, at in enumerate(instants)]


ALL: Findings = {
    Condition.STALE: hits(Condition.STALE, 90),
    Condition.DRIFT: hits(Condition.DRIFT, 80, 70),
    Condition.HIGH_RISK: hits(Condition.HIGH_RISK, 60),
    Condition.CONTRADICTION: hits(Condition.CONTRADICTION, 50, 40),
    Condition.CONFLICT: hits(Condition.CONFLICT, 30, 20),
}


def test_the_order_is_by_severity_and_conflicts_precede_contradictions() -> None:
    found = [(hit.condition, hit.at) for hit in build_hot_list(ALL).hits]
    assert found == [
        (Condition.CONFLICT, 30),
        (Condition.CONFLICT, 20),
        (Condition.CONTRADICTION, 50),
        (Condition.CONTRADICTION, 40),
        (Condition.HIGH_RISK, 60),
        (Condition.DRIFT, 80),
        (Condition.DRIFT, 70),
        (Condition.STALE, 90),
    ]


def test_hits_of_a_condition_stand_newest_first_then_by_id() -> None:
    given = [Hit(numbered_id(3), Condition.DRIFT, 5), *hits(Condition.DRIFT, 5, 6)]
    assert [hit.node_id[-1] for hit in in_standing_order(given)] == ["2", "1", "3"]


def test_over_capacity_the_last_are_left_out() -> None:
    found = build_hot_list(ALL, capacity=5, contradiction_max=5)
    assert [hit.condition for hit in found.hits] == [
        *[Condition.CONFLICT] * 2,
        *[Condition.CONTRADICTION] * 2,
        Condition.HIGH_RISK,
    ]


def test_contradictions_have_half_the_list_and_the_oldest_declared_go_first() -> None:
    many = {Condition.CONTRADICTION: hits(Condition.CONTRADICTION, 9, 8, 7, 6, 5)}
    assert [hit.at for hit in build_hot_list(many, capacity=6).hits] == [9, 8, 7]
    assert [hit.at for hit in build_hot_list(many, contradiction_max=1).hits] == [9]


def test_a_node_has_its_hits_in_order() -> None:
    by_node = build_hot_list(ALL).by_node
    assert [hit.condition for hit in by_node[numbered_id(1)]] == list(Condition)
    assert numbered_id(3) not in by_node


def test_a_view_shows_what_still_holds_as_it_is_now() -> None:
    def recheck(hit: Hit) -> Hit | None:
        return None if hit.condition is Condition.DRIFT else hit._replace(at=hit.at + 1)

    view = HotView(build_hot_list(ALL), recheck, 1_000)
    assert list(view.node_ids()) == [numbered_id(1), numbered_id(2)]
    assert [(hit.condition, hit.at) for hit in view.entries(numbered_id(2))] == [
        (Condition.CONFLICT, 21),
        (Condition.CONTRADICTION, 41),
    ]
    assert view.entries(numbered_id(7)) == ()

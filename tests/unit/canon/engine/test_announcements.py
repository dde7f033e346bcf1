from __future__ import annotations

from canon.engine.announcements import REANNOUNCED_AFTER, Announcement, Announcer
from canon.engine.hot_list import NO_PATH_HOPS, Condition, Hit
from memory.engine.times import SECOND
from recall_graphs import numbered_id

NOW = 1_000 * SECOND


def hit(number: int, condition: Condition = Condition.DRIFT) -> Hit:
    return Hit(numbered_id(number), condition, NOW)


def announce(announcer: Announcer, *hits: Hit) -> list[tuple[Condition, int]]:
    findings: dict[Condition, list[Hit]] = {}
    for one in hits:
        findings.setdefault(one.condition, []).append(one)
    said = announcer.announce(findings, NOW, drift_threshold=5)
    return [(one.condition, int(one.node_id[-4:])) for one in said]


def test_a_finding_is_announced_once_while_it_persists() -> None:
    announcer = Announcer()
    assert announce(announcer, hit(1)) == [(Condition.DRIFT, 1)]
    assert announce(announcer, hit(1)) == []
    assert announce(announcer, hit(1), hit(2)) == [(Condition.DRIFT, 2)]


def test_a_finding_that_went_away_is_announced_again() -> None:
    announcer = Announcer()
    announce(announcer, hit(1), hit(2))
    assert announce(announcer, hit(2)) == []
    assert announce(announcer, hit(1), hit(2)) == [(Condition.DRIFT, 1)]


def test_one_finding_takes_the_place_of_another() -> None:
    announcer = Announcer()
    announce(announcer, hit(1))
    assert announce(announcer, hit(2)) == [(Condition.DRIFT, 2)]
    assert announce(announcer, hit(1)) == [(Condition.DRIFT, 1)]


def test_the_order_is_conflict_contradiction_high_risk_drift_stale() -> None:
    given = [hit(1, kind) for kind in reversed(Condition)]
    assert [condition for condition, _ in announce(Announcer(), *given)] == [
        Condition.CONFLICT,
        Condition.CONTRADICTION,
        Condition.HIGH_RISK,
        Condition.DRIFT,
        Condition.STALE,
    ]


def test_a_contradiction_is_announced_with_who_declared_it() -> None:
    declared = Hit(numbered_id(1), Condition.CONTRADICTION, NOW, writer="ann", by=numbered_id(2))
    findings = {Condition.CONTRADICTION: [declared]}
    (said,) = Announcer().announce(findings, NOW + 3 * SECOND, drift_threshold=5)
    assert said.by == numbered_id(2)
    assert said.detail == f"ann contradicts it with {numbered_id(2)}, 3s ago"


def test_the_same_node_is_announced_for_each_condition() -> None:
    announcer = Announcer()
    announce(announcer, hit(1))
    assert announce(announcer, hit(1), hit(1, Condition.STALE)) == [(Condition.STALE, 1)]


def test_after_256_others_the_oldest_is_announced_again_one_a_cycle() -> None:
    announcer = Announcer()
    announce(announcer, hit(1))
    announce(announcer, hit(1), hit(2))
    others = [hit(number) for number in range(3, 1 + REANNOUNCED_AFTER)]
    assert len(announce(announcer, hit(1), hit(2), *others)) == 254
    # 255 came after the first, then 256.
    assert announce(announcer, hit(1), hit(2), *others) == []
    said = announce(announcer, hit(1), hit(2), *others, hit(900))
    assert said == [(Condition.DRIFT, 900), (Condition.DRIFT, 1)]
    # The repetition is the 256th after the second.
    assert announce(announcer, hit(1), hit(2), *others, hit(900)) == [(Condition.DRIFT, 2)]
    last = announce(announcer, hit(1), hit(2), *others, hit(900))
    assert last == [(Condition.DRIFT, 3)]


def test_an_announcement_says_in_a_sentence_what_was_found() -> None:
    node, goal = numbered_id(1), numbered_id(2)
    conflict = hit(1, Condition.CONFLICT)._replace(
        at=NOW - 11 * SECOND, writer="agent-b", agents=("agent-a", "agent-b")
    )
    risk = hit(1, Condition.HIGH_RISK)._replace(reason="high-value node")
    far = hit(1)._replace(hops=6, goal=goal)
    lost = hit(3)._replace(hops=NO_PATH_HOPS)
    stale = hit(1, Condition.STALE)._replace(at=NOW - 900 * SECOND)
    findings = {
        Condition.CONFLICT: [conflict],
        Condition.HIGH_RISK: [risk],
        Condition.DRIFT: [far, lost],
        Condition.STALE: [stale],
    }
    assert Announcer().announce(findings, NOW, drift_threshold=5) == (
        Announcement(
            Condition.CONFLICT,
            node,
            "agents agent-a, agent-b write to it; agent-b did 11s ago",
            agents=("agent-a", "agent-b"),
        ),
        Announcement(Condition.HIGH_RISK, node, "high-value node"),
        Announcement(
            Condition.DRIFT,
            node,
            f"concept {node} drifted 6 hops from root goal {goal} (threshold 5)",
            hops=6,
        ),
        Announcement(
            Condition.DRIFT,
            numbered_id(3),
            f"concept {numbered_id(3)} has no path to the root goal (threshold 5)",
            hops=4_294_967_295,
        ),
        Announcement(Condition.STALE, node, f"no activity for 900s; the last was at {node}"),
    )

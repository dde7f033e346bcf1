from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.retrieval.baselines import rank_by_bm25, rank_by_overlap
from benchmarks.retrieval.figures import Judged, interval, judge, mean, summary
from benchmarks.retrieval.generated import generate_tasks
from benchmarks.retrieval.locomo import read_locomo
from benchmarks.retrieval.tasks import Question
from memory.engine.inverted_index import InvertedIndex

GROUPS = {name: f"group {name[0]}" for name in ("a1", "a2", "b1", "c1", "d1", "e1", "f1")}


def question(*evidence: str) -> Question:
    return Question("what?", "kind", frozenset(evidence))


def test_evidence_is_the_share_found_among_the_first_hits() -> None:
    ranking = [(name,) for name in ("a1", "b1", "c1", "d1", "e1", "f1")]

    judged = judge(question("a1", "f1"), ranking, GROUPS)

    assert (judged.evidence_5, judged.evidence_10) == (0.5, 1.0)
    assert (judged.group_5, judged.group_10) == (0.5, 1.0)
    assert judged.reciprocal == 1.0


def test_a_group_counts_once_and_a_hit_may_stand_for_several_texts() -> None:
    judged = judge(question("b1"), [("a1", "a2"), ("a2",), ("b1",)], GROUPS)

    assert judged.reciprocal == pytest.approx(1 / 3)
    assert judged.group_5 == 1.0


def test_what_is_not_found_is_worth_nothing() -> None:
    judged = judge(question("f1"), [("a1",)], GROUPS)

    assert judged == Judged("kind", 0.0, 0.0, 0.0, 0.0, 0.0)


def test_an_interval_holds_the_difference_and_repeats_itself() -> None:
    better = [Judged("k", 1.0, float(n % 3 != 0), 0, 0, 0) for n in range(60)]
    worse = [Judged("k", 1.0, float(n % 2), 0, 0, 0) for n in range(60)]

    low, high = interval(better, worse, lambda one: one.evidence_10, seed=3)

    assert low < summary(better)["evidence@10"] - summary(worse)["evidence@10"] < high
    assert (low, high) == interval(better, worse, lambda one: one.evidence_10, seed=3)
    assert interval(better, better, lambda one: one.evidence_10) == (0.0, 0.0)


def test_the_mean_of_nothing_is_nothing() -> None:
    assert mean([]) == 0.0


words = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), min_size=1, max_size=6)


@given(st.lists(words, min_size=1, max_size=8), words)
def test_the_baseline_is_the_bm25_of_the_index(texts: list[list[str]], asked: list[str]) -> None:
    """Two ways of writing the same formula; equals come in the order of the texts."""
    index = InvertedIndex()
    for place, tokens in enumerate(texts):
        index.add(place, tokens)
    found = index.search(asked, 100, tie_key=lambda row: f"{row:03d}")

    ranked = rank_by_bm25([" ".join(tokens) for tokens in texts])(" ".join(asked))

    scores = {row: round(score, 9) for row, score in found}
    assert set(ranked) == set(scores)
    assert [scores[row] for row in ranked] == sorted(scores.values(), reverse=True)


def test_overlap_counts_different_words() -> None:
    rank = rank_by_overlap(["blue blue blue", "blue green", "red"])

    assert rank("Is it blue, or green?") == [1, 0]


def test_a_dialogue_is_read_by_the_protocol(tmp_path: Path) -> None:
    record = {
        "sample_id": "one",
        "conversation": {
            "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "Bye."}],
            "session_2_date_time": "two",
            "session_1": [
                {"speaker": "Al", "dia_id": "D1:1", "text": "Hi!", "blip_caption": "a cat"}
            ],
            "session_1_date_time": "noon",
        },
        "qa": [
            {"question": "q1", "evidence": ["D1:1; D9:9", "D"], "category": 1},
            {"question": "q2", "evidence": ["D9:9"], "category": 2},
            {"question": "q3", "evidence": [], "category": 3},
        ],
    }
    file = tmp_path / "dialogues.json"
    file.write_text(json.dumps([record]), encoding="utf-8")

    (task,) = read_locomo(file)

    assert [write.text for write in task.writes] == [
        "Al (noon): Hi! [shares a cat]",
        "Bo (two): Bye.",
    ]
    assert task.group_of == {"D1:1": "session_1", "D2:1": "session_2"}
    assert task.questions == (Question("q1", "multi-hop", frozenset({"D1:1"})),)


def test_generated_tasks_follow_from_the_seed_and_cite_what_was_written() -> None:
    tasks = generate_tasks(projects=2)

    assert tasks == generate_tasks(projects=2)
    assert tasks != generate_tasks(projects=2, seed=12)
    for task in tasks:
        written: set[str] = set()
        for write in task.writes:
            assert written.issuperset((*write.depends_on, *write.against))
            written.add(write.text)
        assert {one.category for one in task.questions} == {
            "fact", "conflict", "stale plan", "hand-over", "dependents", "reply", "identifier",
        }  # fmt: skip

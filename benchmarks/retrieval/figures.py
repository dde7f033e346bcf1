"""From rankings to figures: how much of the evidence stands how far up, and how sure that is.

Owns the measures and the bootstrap. A ranking is a list of hits, each of which stands for one text
or, where equal texts became one memory, for several.

evidence@k is the share of a question's evidence among the first k hits, group@k the share of its
evidence's groups among the first k different groups of the ranking; MRR the mean of 1 over the
place of the first hit that is evidence. All are means over questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from benchmarks.retrieval.tasks import Question

Ranking: TypeAlias = Sequence[tuple[str, ...]]
"""Hits, best first; each the ids of the texts it stands for."""

DEPTH: Final = 50
"""How far down a ranking is looked at."""
RESAMPLES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Judged:
    """What one ranking is worth to its question."""

    category: str
    evidence_5: float
    evidence_10: float
    group_5: float
    group_10: float
    reciprocal: float


def judge(question: Question, ranking: Ranking, group_of: Mapping[str, str]) -> Judged:
    """The measures of one question."""
    hits = ranking[:DEPTH]
    wanted_groups = {group_of[text] for text in question.evidence}
    groups = list(dict.fromkeys(group_of[text] for hit in hits for text in hit))

    def share_of_evidence(k: int) -> float:
        found = {text for hit in hits[:k] for text in hit}
        return len(found & question.evidence) / len(question.evidence)

    def share_of_groups(k: int) -> float:
        return len(wanted_groups & set(groups[:k])) / len(wanted_groups)

    firsts = (place for place, hit in enumerate(hits, 1) if question.evidence & set(hit))
    first = next(firsts, None)
    return Judged(
        question.category,
        share_of_evidence(5),
        share_of_evidence(10),
        share_of_groups(5),
        share_of_groups(10),
        0.0 if first is None else 1 / first,
    )


def summary(judged: Sequence[Judged]) -> dict[str, float]:
    """The means, as columns of a table; to three digits, more say nothing."""
    columns = {
        "evidence@5": [one.evidence_5 for one in judged],
        "evidence@10": [one.evidence_10 for one in judged],
        "session@5": [one.group_5 for one in judged],
        "session@10": [one.group_10 for one in judged],
        "MRR": [one.reciprocal for one in judged],
    }
    return {name: round(mean(values), 3) for name, values in columns.items()}


def by_category(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """The questions of each category, in the order in which these first occur."""
    found: dict[str, list[Judged]] = {}
    for one in judged:
        found.setdefault(one.category, []).append(one)
    return found


def interval(
    judged: Sequence[Judged],
    baseline: Sequence[Judged],
    measure: Callable[[Judged], float],
    *,
    seed: int = 0,
) -> tuple[float, float]:
    """The 95 % interval of how much better one is than the other, on the same questions.

    Paired bootstrap: questions are drawn with replacement, and the mean of their differences is
    taken, `RESAMPLES` times.
    """
    assert len(judged) == len(baseline)
    differences = [
        measure(one) - measure(other) for one, other in zip(judged, baseline, strict=True)
    ]
    random = Random(seed)
    means = sorted(mean(random.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return means[round(0.025 * (RESAMPLES - 1))], means[round(0.975 * (RESAMPLES - 1))]


def mean(values: Iterable[float]) -> float:
    """The mean; of nothing, 0."""
    held = list(values)
    return sum(held) / len(held) if held else 0.0

"""`python -m benchmarks.merge_calibration KIND`: where should an embedder draw the line of a merge?

Reads the labelled pairs, embeds both sides of each, and counts which pairs would be joined at each
threshold, with the lexical veto and without. Precision is the share of joined pairs that say the
same; recall the share of pairs that say the same and are joined. The threshold is picked on the
half of the pairs the veto was developed on and then shown on the other half.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.report import Budget, Report, Row
from memory.embed.registry import CHOICES, build_embedder
from memory.engine.embedding import Embedder, EmbeddingFailure, Vector, calibration_of
from memory.engine.lexical_veto import find_veto

PAIRS: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "merge_pairs.json"
PRECISION_MIN: Final = 0.95
RECALL_MIN: Final = 0.55
GRID: Final = tuple(step / 100 for step in range(50, 100))
AROUND: Final = (-0.10, -0.05, 0.0, 0.05, 0.10)
DEADLINE_SECONDS: Final = 600.0

DEVELOP, HELD_OUT = "develop", "held_out"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts, and whether a reader would call them the same statement."""

    id: str
    group: str
    split: str
    is_same: bool
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A pair with what was found out about it; a text without a vector has no cosine."""

    pair: Pair
    cosine: float | None
    is_vetoed: bool

    def is_merged(self, threshold: float, *, with_veto: bool) -> bool:
        near = self.cosine is not None and self.cosine >= threshold
        return near and not (with_veto and self.is_vetoed)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a line does. Without any merge the precision is 1: nothing wrong was said."""

    merged: int
    merged_rightly: int
    same: int

    @property
    def precision(self) -> float:
        return self.merged_rightly / self.merged if self.merged else 1.0

    @property
    def recall(self) -> float:
        return self.merged_rightly / self.same if self.same else 1.0


Sample: TypeAlias = Sequence[Measured]


def load_pairs(path: Path = PAIRS) -> list[Pair]:
    """The labelled set, in file order."""
    return [
        Pair(row["id"], row["class"], row["split"], row["merge"], row["left"], row["right"])
        for row in json.loads(path.read_text(encoding="utf-8"))["pairs"]
    ]


def measure(embedder: Embedder, pairs: Sequence[Pair]) -> list[Measured]:
    """Cosine and veto of every pair."""
    texts = [text for pair in pairs for text in (pair.left, pair.right)]
    results = embedder.embed(texts, deadline_seconds=DEADLINE_SECONDS)
    return [
        Measured(
            pair,
            _cosine(results[2 * place], results[2 * place + 1]),
            find_veto(pair.left, pair.right) is not None,
        )
        for place, pair in enumerate(pairs)
    ]


def _cosine(left: Vector | EmbeddingFailure, right: Vector | EmbeddingFailure) -> float | None:
    if isinstance(left, EmbeddingFailure) or isinstance(right, EmbeddingFailure):
        return None
    return float(left @ right)


def of_split(measured: Sample, split: str) -> list[Measured]:
    """The part of a sample that belongs to one half."""
    return [one for one in measured if one.pair.split == split]


def judge(measured: Sample, threshold: float, *, with_veto: bool = True) -> Verdict:
    """Precision and recall of a line over a sample."""
    merged = [one for one in measured if one.is_merged(threshold, with_veto=with_veto)]
    return Verdict(
        merged=len(merged),
        merged_rightly=sum(one.pair.is_same for one in merged),
        same=sum(one.pair.is_same for one in measured),
    )


def pick_threshold(measured: Sample) -> float:
    """The line that finds most while it stays precise; the highest of those that find as much."""
    precise = [line for line in GRID if judge(measured, line).precision >= PRECISION_MIN]
    return max(precise, key=lambda line: (judge(measured, line).recall, line))


def table_of_classes(measured: Sample, thresholds: Iterable[float]) -> list[Row]:
    """Per class: pairs, vetoes, and merges at each threshold as `with veto / without`."""
    lines = tuple(thresholds)
    rows = []
    for group in dict.fromkeys(one.pair.group for one in measured):
        members = [one for one in measured if one.pair.group == group]
        row: Row = {
            "class": group,
            "same": "yes" if members[0].pair.is_same else "no",
            "pairs": len(members),
            "vetoed": sum(one.is_vetoed for one in members),
        }
        for line in lines:
            kept = sum(one.is_merged(line, with_veto=True) for one in members)
            all_near = sum(one.is_merged(line, with_veto=False) for one in members)
            row[f"at {line:.2f}"] = f"{kept} / {all_near}"
        rows.append(row)
    return rows


def report(embedder: Embedder, *, threshold: float | None = None) -> Report:
    """Everything about one embedder at its own line, or at the one given."""
    measured = measure(embedder, load_pairs())
    line = calibration_of(embedder.contract).merge_threshold if threshold is None else threshold
    halves = {
        "all": measured,
        DEVELOP: of_split(measured, DEVELOP),
        HELD_OUT: of_split(measured, HELD_OUT),
    }
    rows = [
        {"pairs of": name, "with veto": with_veto} | _shown(judge(half, line, with_veto=with_veto))
        for with_veto in (True, False)
        for name, half in halves.items()
    ]
    picked = pick_threshold(halves[DEVELOP])
    picked_verdict = judge(halves[HELD_OUT], picked)
    total = judge(measured, line)
    return Report(
        f"merge_calibration: {embedder.contract.describe()}",
        f"Which of the labelled pairs are joined at cosine {line:.2f}, with the veto and without?",
        rows,
        table_of_classes(measured, (line + step for step in AROUND if 0.0 < line + step < 1.0)),
        [
            Budget("precision of merges", total.precision, PRECISION_MIN, at_most=False),
            Budget("recall of merges", total.recall, RECALL_MIN, at_most=False),
        ],
        [
            f"Picked on the pairs of `{DEVELOP}`: {picked:.2f}. "
            f"On those of `{HELD_OUT}` that gives precision {picked_verdict.precision:.3f} "
            f"and recall {picked_verdict.recall:.3f}.",
            f"Texts without a vector: {sum(one.cosine is None for one in measured)} pairs.",
        ],
    )


def _shown(verdict: Verdict) -> Row:
    return {
        "merged": verdict.merged,
        "wrongly": verdict.merged - verdict.merged_rightly,
        "precision": f"{verdict.precision:.3f}",
        "recall": f"{verdict.recall:.3f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.merge_calibration")
    parser.add_argument("kind", help=f"of {', '.join(CHOICES)}")
    parser.add_argument("--threshold", type=float, help="instead of the contract's own")
    parser.add_argument("--dim", type=int)
    parser.add_argument("--url")
    parser.add_argument("--model")
    parser.add_argument("--model-path", type=Path)
    options = parser.parse_args()
    embedder = build_embedder(
        options.kind,
        dim=options.dim,
        url=options.url,
        model=options.model,
        model_path=options.model_path,
    )
    if embedder is None:
        parser.error("none has no vectors to compare")
    try:
        print(report(embedder, threshold=options.threshold).as_markdown())
    finally:
        embedder.close()


if __name__ == "__main__":
    main()

"""`python -m benchmarks.line_calibration KIND`: the other lines of an embedder's contract.

Suspicions: of labelled pairs of statements, which does the trigger call a later version, and how
many of those are one? The line about a suspicion is said where nine of ten are. Layer floor: how
near to a question do the texts stand that hold its answer, and the others? The recent score is
what the nearest of those others reach: a concept that is only new should not come before an answer.
The questions are those of the generated retrieval set.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Budget, Report, Row
from benchmarks.retrieval.generated import generate_tasks
from memory.embed.registry import CHOICES, build_embedder
from memory.engine.embedding import Embedder, EmbeddingFailure, Vector, calibration_of
from memory.engine.lexical_veto import find_veto
from memory.engine.supersession import REPLACING_VETOES, is_new_version

PAIRS: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "supersession_pairs.json"
PRECISION_MIN: Final = 0.90
ANSWERS_KEPT_MIN: Final = 0.95
STEPS: Final = (-0.10, -0.05, 0.0, 0.05, 0.10)
DEADLINE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements, and whether the later one replaces the earlier."""

    group: str
    replaces: bool
    left: str
    right: str


def load_pairs(path: Path = PAIRS) -> list[Pair]:
    """The labelled set, in file order."""
    return [
        Pair(row["class"], row["replaces"], row["left"], row["right"])
        for row in json.loads(path.read_text(encoding="utf-8"))["pairs"]
    ]


def is_suspected(pair: Pair, cosine: float, *, threshold: float) -> bool:
    """Whether the trigger calls one of the two a later version of the other."""
    if cosine < threshold:
        return False
    veto = find_veto(pair.left, pair.right)
    is_of_value = veto is not None and veto.reason in REPLACING_VETOES
    return is_of_value and is_new_version(pair.left, pair.right)


def measure_suspicions(embedder: Embedder) -> tuple[list[Row], float]:
    """A row per class and one for all, and the precision over all."""
    line = calibration_of(embedder.contract).merge_threshold
    pairs = load_pairs()
    left = _embed(embedder, [pair.left for pair in pairs])
    right = _embed(embedder, [pair.right for pair in pairs])
    suspected = [
        is_suspected(pair, float(left[at] @ right[at]), threshold=line)
        for at, pair in enumerate(pairs)
    ]
    rows: list[Row] = []
    for group in dict.fromkeys(pair.group for pair in pairs):
        members = [at for at, pair in enumerate(pairs) if pair.group == group]
        rows.append(
            {
                "class": group,
                "replaces": "yes" if pairs[members[0]].replaces else "no",
                "pairs": len(members),
                "suspected": sum(suspected[at] for at in members),
            }
        )
    right_count = sum(
        is_one and pair.replaces for is_one, pair in zip(suspected, pairs, strict=True)
    )
    return rows, right_count / max(sum(suspected), 1)


def measure_nearness(embedder: Embedder) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosines of questions with the texts that answer them, and with all others."""
    answers: list[float] = []
    others: list[NDArray[np.float32]] = []
    for task in generate_tasks():
        texts = _embed(embedder, [write.text for write in task.writes])
        questions = [question for question in task.questions if question.evidence]
        asked = _embed(embedder, [question.text for question in questions])
        cosines = asked @ texts.T
        for row, question in zip(cosines, questions, strict=True):
            holds = np.array([write.id in question.evidence for write in task.writes])
            answers.append(float(row[holds].max()))
            others.append(row[~holds])
    return np.array(answers, dtype=np.float32), np.concatenate(others)


def report(embedder: Embedder) -> Report:
    """Everything about one embedder, at its own lines and around them."""
    lines = calibration_of(embedder.contract)
    suspicions, precision = measure_suspicions(embedder)
    answers, others = measure_nearness(embedder)
    floors: list[Row] = [
        {
            "floor": f"{floor:.2f}",
            "answers kept": f"{float((answers >= floor).mean()):.3f}",
            "others passing": f"{float((others >= floor).mean()):.4f}",
        }
        for floor in (lines.layer_floor + step for step in STEPS)
    ]
    kept = float((answers >= lines.layer_floor).mean())
    return Report(
        f"line_calibration: {embedder.contract.describe()}",
        "Which suspicions are right, and which cosines are an answer's?",
        suspicions,
        floors,
        [
            Budget("precision of suspicions", precision, PRECISION_MIN, at_most=False),
            Budget("answers kept by the layer floor", kept, ANSWERS_KEPT_MIN, at_most=False),
        ],
        [
            f"Of texts that do not answer, 95 of 100 stand below "
            f"{float(np.percentile(others, 95)):.2f}, 99 below "
            f"{float(np.percentile(others, 99)):.2f}; the recent score is "
            f"{lines.recent_score:.2f}.",
        ],
    )


def _embed(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    found: list[Vector] = []
    for result in embedder.embed(texts, deadline_seconds=DEADLINE_SECONDS):
        assert not isinstance(result, EmbeddingFailure), result
        found.append(result)
    return np.stack(found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.line_calibration")
    parser.add_argument("kind", help=f"of {', '.join(CHOICES)}")
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
        print(report(embedder).as_markdown())
    finally:
        embedder.close()


if __name__ == "__main__":
    main()

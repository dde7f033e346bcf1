"""Reads long dialogues with questions from a file in the LoCoMo format.

Owns the format and the protocol: a turn is one text that names its speaker and the date of its
session, and every question that names a known turn is asked as it stands. The file is read where
it lies; nothing of it is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.retrieval.tasks import Question, Task, Write

CATEGORIES: Final[Mapping[int, str]] = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
"""What the numbers of the file mean, in the words of its authors."""

_TURN: Final = re.compile(r"D\d+:\d+")


def read_locomo(path: Path) -> list[Task]:
    """One task for each dialogue of the file, in file order."""
    return [_task(dialogue) for dialogue in json.loads(path.read_text(encoding="utf-8"))]


def _task(dialogue: Mapping[str, Any]) -> Task:
    writes = tuple(_turns(dialogue["conversation"]))
    known = {write.id for write in writes}
    return Task(dialogue["sample_id"], writes, tuple(_questions(dialogue["qa"], known)))


def _turns(conversation: Mapping[str, Any]) -> Iterator[Write]:
    numbers = sorted(
        int(name.removeprefix("session_"))
        for name in conversation
        if re.fullmatch(r"session_\d+", name)
    )
    for number in numbers:
        session = f"session_{number}"
        date = conversation[f"{session}_date_time"]
        for turn in conversation[session]:
            caption = turn.get("blip_caption")
            shared = f" [shares {caption}]" if caption else ""
            text = f"{turn['speaker']} ({date}): {turn['text']}{shared}"
            yield Write(turn["dia_id"], session, turn["speaker"], text)


def _questions(records: Sequence[Mapping[str, Any]], known: set[str]) -> Iterator[Question]:
    """Those that name a turn there is: some name none, and some more than one in a word."""
    for record in records:
        named = _TURN.findall(" ".join(record["evidence"]))
        evidence = frozenset(named) & known
        if evidence:
            yield Question(record["question"], CATEGORIES[record["category"]], evidence)

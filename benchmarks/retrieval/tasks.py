"""What a retrieval benchmark is made of: texts that are written, and questions with their evidence.

Owns the records alone. Evidence is named by the ids of texts, groups by the group of a text; who
reads or generates a task fills them in, and who asks its questions never looks inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memory.engine.types import ConceptType


@dataclass(frozen=True, slots=True)
class Write:
    """One statement, as an agent writes it. `depends_on` and `against` quote earlier texts."""

    id: str
    group: str
    agent: str
    text: str
    kind: ConceptType = ConceptType.OBSERVATION
    depends_on: tuple[str, ...] = ()
    against: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the ids of the texts that hold its answer."""

    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Task:
    """One session's worth of writing, in order, and what is asked of it."""

    name: str
    writes: tuple[Write, ...]
    questions: tuple[Question, ...]
    group_of: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        group_of = {write.id: write.group for write in self.writes}
        assert len(group_of) == len(self.writes), "every text has an id of its own"
        assert all(question.evidence <= group_of.keys() for question in self.questions)
        object.__setattr__(self, "group_of", group_of)

"""Dependency questions through the whole product, on projects whose graph is known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from benchmarks.retrieval.dependency_projects import DependencyProject
from dependency_questions import ASKING, NOT_ASKING
from hosting import AGENT, hosting
from memory.engine.limits import TOP_K_MAX
from memory.engine.requests import RecallRequest
from memory.service.memory import Memory
from memory.testing import InMemoryStore, ManualClock, SequentialIds

ANCHORS = 40


@asynccontextmanager
async def written(project: DependencyProject) -> AsyncIterator[Memory]:
    async with hosting(InMemoryStore(), clock=ManualClock(), ids=SequentialIds()) as host:
        memory = await host.memory("s", create=True)
        for request in project.derives():
            await memory.derive(request, AGENT)
        yield memory


async def ask(memory: Memory, question: str) -> dict[str, Any]:
    reply = await memory.recall(RecallRequest(question, TOP_K_MAX, 100_000))
    return reply.structured


@pytest.mark.parametrize(
    "size", [100, 1_000, pytest.param(10_000, marks=pytest.mark.slow)], ids=str
)
async def test_a_dependency_question_is_answered_by_exactly_the_dependents(size: int) -> None:
    project, random = DependencyProject(size, seed=size), Random(size)
    async with written(project) as memory:
        pillars = sorted(
            project.dependents, key=lambda text: (-len(project.dependents[text]), text)
        )
        anchors = pillars[: ANCHORS // 2] + random.sample(pillars, k=ANCHORS // 2)
        for number, anchor in enumerate(anchors):
            form = ASKING[number % len(ASKING)]
            reply = await ask(memory, form.format(x=anchor))
            answered = {hit["content"] for hit in reply["hits"]}
            truth = project.dependents[anchor]
            assert len(reply["hits"]) == len(answered) == min(TOP_K_MAX, len(truth)), form
            assert answered <= truth, form
            assert any("answered by graph traversal" in line for line in reply["warnings"])


async def test_a_question_about_something_else_or_without_dependents_is_looked_up() -> None:
    project = DependencyProject(200, seed=3)
    async with written(project) as memory:
        pillar = max(project.dependents, key=lambda text: len(project.dependents[text]))
        (leaf, *_) = sorted(set().union(*project.dependents.values()) - project.dependents.keys())
        questions = [form.format(x=pillar) for form in NOT_ASKING]
        questions += [form.format(x=leaf) for form in ASKING]
        for question in questions:
            reply = await ask(memory, question)
            assert not any("graph traversal" in line for line in reply["warnings"]), question

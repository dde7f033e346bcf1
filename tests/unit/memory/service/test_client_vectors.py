"""Vectors that callers send, for content the server's own model cannot read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hosting import hosting
from memory.embed.fixture import FixtureEmbedder
from memory.engine.config import MatchStrategy
from memory.engine.embedding import FIXTURE
from memory.engine.errors import EmbeddingMismatch, InvalidArgument, LamboError
from memory.engine.requests import Caller, ConceptInput, DeriveRequest, RecallRequest
from memory.engine.types import ConceptType
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.testing import EmbedderFault, InMemoryStore, ScriptedEmbedder

AGENT = Caller("agent-a")
MODEL = FIXTURE.model
PICTURE = "screens/checkout.png, a screenshot"


def axis(number: int, length: float = 1.0) -> tuple[float, ...]:
    """A vector along one axis."""
    return tuple(length if place == number else 0.0 for place in range(FIXTURE.dim))


def picture(
    vector: Sequence[float] | None, model: str | None = MODEL, content: str = PICTURE
) -> DeriveRequest:
    given = None if vector is None else tuple(vector)
    concept = ConceptInput(content, ConceptType.RESOURCE, vector=given)
    return DeriveRequest((concept,), vector_model=model)


async def derive(host: SessionHost, request: DeriveRequest, *, session: str = "s") -> Reply:
    return await host.write(session, lambda memory: memory.derive(request, AGENT), create=True)


async def refusal(host: SessionHost, request: DeriveRequest) -> LamboError:
    with pytest.raises(LamboError) as caught:
        await derive(host, request)
    return caught.value


@pytest.fixture
def embedder() -> ScriptedEmbedder:
    return ScriptedEmbedder(FixtureEmbedder())


async def test_an_image_is_found_by_the_vector_that_came_with_it(
    embedder: ScriptedEmbedder,
) -> None:
    store = InMemoryStore()
    asked = RecallRequest("zzz", top_k=5, vector=axis(7), vector_model=MODEL)
    settings: dict[str, Any] = {
        "accept_client_vectors": True,
        "match_strategy": MatchStrategy.HYBRID,
    }
    async with hosting(store, embedder=embedder, **settings) as host:
        await derive(host, picture(axis(7, length=40.0)))
        for number in range(30):
            other = ConceptInput(f"noise {number} of another kind", ConceptType.LOGIC)
            await derive(host, DeriveRequest((other,)))
        answer = await (await host.view("s")).recall(asked)
        assert PICTURE in [hit["content"] for hit in answer.structured["hits"]]
        # The client's vector is at length one, whatever length it had, and no text was embedded.
        graph = (await host.memory("s", create=False)).graph
        row = graph.find_by_key(graph.concepts.keys[0])
        assert row is not None
        assert graph.vectors is not None
        stored = graph.vectors.get(row)
        assert stored is not None
        assert stored.tolist() == list(axis(7))
    # And after a restart it is the same: nothing computes it anew.
    async with hosting(store, embedder=embedder, **settings) as host:
        answer = await (await host.view("s")).recall(asked)
        assert PICTURE in [hit["content"] for hit in answer.structured["hits"]]


async def test_a_client_vector_needs_no_embedder_that_answers(embedder: ScriptedEmbedder) -> None:
    embedder.fault = EmbedderFault.DOWN
    async with hosting(InMemoryStore(), embedder=embedder, accept_client_vectors=True) as host:
        await derive(host, picture(axis(7)))
        memory = await host.memory("s", create=False)
        assert memory.graph.missing_vector_count == 0
        answer = await memory.recall(RecallRequest("zzz", vector=axis(7), vector_model=MODEL))
        assert [hit["content"] for hit in answer.structured["hits"]] == [PICTURE]
        assert answer.structured["warnings"] == []


async def test_a_vector_is_refused_where_the_operator_asked_for_none(
    embedder: ScriptedEmbedder,
) -> None:
    store = InMemoryStore()
    async with hosting(store, embedder=embedder) as host:
        error = await refusal(host, picture(axis(7)))
        assert error.code == "invalid_argument"
        assert "embedder.accept_client_vectors" in error.message
        assert store.find_session("s") is None
        for session in ("s", "t"):
            view = await host.view(session)
            with pytest.raises(InvalidArgument, match="accept_client_vectors"):
                await view.recall(RecallRequest("x", vector=axis(7), vector_model=MODEL))
            await derive(host, picture(None, None), session="t")


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (axis(7)[:-1], "has 383 dimensions, not 384"),
        ((*axis(7), 0.0), "has 385 dimensions, not 384"),
        (tuple([0.0] * FIXTURE.dim), "is zero"),
    ],
    ids=["narrow", "wide", "zero"],
)
async def test_a_vector_of_another_width_or_without_direction_is_refused(
    embedder: ScriptedEmbedder, vector: tuple[float, ...], message: str
) -> None:
    async with hosting(InMemoryStore(), embedder=embedder, accept_client_vectors=True) as host:
        error = await refusal(host, picture(vector))
        assert isinstance(error, InvalidArgument)
        assert error.field == "concepts[0].vector"
        assert message in error.message


@pytest.mark.parametrize("number", [float("nan"), float("inf"), True, "1"], ids=str)
def test_a_vector_holds_finite_numbers_alone(number: float) -> None:
    with pytest.raises(InvalidArgument) as caught:
        picture([0.5, number])
    assert caught.value.field == "concepts[0].vector[1]"


async def test_vectors_of_two_models_are_never_mixed(embedder: ScriptedEmbedder) -> None:
    """The same width says nothing: neighbours across two spaces are noise."""
    async with hosting(InMemoryStore(), embedder=embedder, accept_client_vectors=True) as host:
        error = await refusal(host, picture(axis(7), "clip-vit-b-32"))
        assert isinstance(error, EmbeddingMismatch)
        assert error.fields["contract"] == FIXTURE.as_wire()
        await derive(host, picture(axis(7)))
        view = await host.view("s")
        with pytest.raises(EmbeddingMismatch):
            await view.recall(RecallRequest("x", vector=axis(7), vector_model="clip-vit-b-32"))


async def test_a_session_without_a_contract_takes_no_vector() -> None:
    async with hosting(InMemoryStore(), accept_client_vectors=True) as host:
        error = await refusal(host, picture(axis(7)))
        assert isinstance(error, EmbeddingMismatch)
        await derive(host, picture(None, None))
        view = await host.view("s")
        with pytest.raises(EmbeddingMismatch):
            await view.recall(RecallRequest("x", vector=axis(7), vector_model=MODEL))


async def test_an_unknown_session_answers_a_question_with_a_vector_from_nothing(
    embedder: ScriptedEmbedder,
) -> None:
    async with hosting(InMemoryStore(), embedder=embedder, accept_client_vectors=True) as host:
        view = await host.view("nobody")
        answer = await view.recall(RecallRequest("x", vector=axis(7), vector_model=MODEL))
        assert answer.structured["hits"] == []


def test_a_vector_names_its_model_and_a_model_its_vector() -> None:
    for wrong in (
        lambda: picture(axis(7), None),
        lambda: picture(None, MODEL),
        lambda: RecallRequest("x", vector=axis(7)),
        lambda: RecallRequest("x", vector_model=MODEL),
    ):
        with pytest.raises(InvalidArgument) as caught:
            wrong()
        assert caught.value.field == "vector_model"


async def test_a_concept_that_is_known_keeps_its_vector(embedder: ScriptedEmbedder) -> None:
    async with hosting(InMemoryStore(), embedder=embedder, accept_client_vectors=True) as host:
        await derive(host, picture(axis(7)))
        await derive(host, picture(axis(8)))
        graph = (await host.memory("s", create=False)).graph
        assert graph.vectors is not None
        stored = graph.vectors.get(0)
        assert stored is not None
        assert stored.tolist() == list(axis(7))


async def test_of_equal_contents_the_first_vector_decides(embedder: ScriptedEmbedder) -> None:
    one, two = (
        ConceptInput(PICTURE, ConceptType.RESOURCE, vector=axis(number)) for number in (7, 8)
    )
    async with hosting(InMemoryStore(), embedder=embedder, accept_client_vectors=True) as host:
        await derive(host, DeriveRequest((one, two), vector_model=MODEL))
        graph = (await host.memory("s", create=False)).graph
        assert graph.vectors is not None
        stored = graph.vectors.get(0)
        assert stored is not None
        assert stored.tolist() == list(axis(7))

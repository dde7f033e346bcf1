"""Vectors that callers send: when they are taken, and as what.

Owns the rule that keeps spaces apart: a vector is taken where the operator allows it, into a
session that has a contract, from a caller that names the contract's model, at the contract's width.
What made a vector cannot be seen in its numbers, so its sender must say it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory.engine.embedding import EmbeddingContract, EmbeddingFailure, Vector, check_vector
from memory.engine.errors import EmbeddingMismatch, InvalidArgument
from memory.engine.requests import DeriveRequest

SETTING = "embedder.accept_client_vectors"


def check_allowed(field: str, *, is_allowed: bool) -> None:
    """Refuse a vector where the operator did not ask for any."""
    if not is_allowed:
        raise InvalidArgument(
            field, f"{field} is not taken: this server runs with {SETTING} = false", setting=SETTING
        )


def take_vector(
    field: str, numbers: Sequence[float], model: str | None, contract: EmbeddingContract | None
) -> Vector:
    """The vector of a caller at length one. Raises `EmbeddingMismatch` or `InvalidArgument`."""
    if contract is None:
        raise EmbeddingMismatch(
            f"{field} is not taken: the session has no embedding contract, so that nothing can be "
            "compared with it",
            contract=None,
        )
    own = contract.model or contract.kind
    if model != own:
        raise EmbeddingMismatch(
            f"{field} is not taken: it was made by {model!r:.80}, and the session holds vectors of "
            f"{contract.describe()}; vectors of two models cannot be compared",
            contract=contract.as_wire(),
        )
    vector = check_vector(numbers, contract.dim)
    if isinstance(vector, EmbeddingFailure):
        raise InvalidArgument(field, f"{field}: {vector}")
    return vector


def vectors_of(
    request: DeriveRequest, contract: EmbeddingContract | None, *, is_allowed: bool
) -> Mapping[str, Vector]:
    """The vectors of a derive by content; of equal contents the first that has one decides."""
    vectors: dict[str, Vector] = {}
    for place, given in enumerate(request.concepts):
        if given.vector is None:
            continue
        field = f"concepts[{place}].vector"
        check_allowed(field, is_allowed=is_allowed)
        vector = take_vector(field, given.vector, request.vector_model, contract)
        vectors.setdefault(given.content, vector)
    return vectors

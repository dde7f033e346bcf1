"""Any embedding model in a GGUF file, in this process, by llama-cpp-python (extra `llama`).

Owns one `Llama` object and the lock around it: its context is one, so calls take turns. The model
is named by the file's name and the beginning of its checksum, since a name alone would let another
file of the same name mix its vectors with the stored ones.

Invariant: one text a call, so a text has the same vector whatever else is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from memory.embed.deadline import BLANK, CLOSED, Deadline
from memory.embed.packages import checksum_of, load_package
from memory.engine.embedding import Embedded, EmbeddingContract, EmbeddingFailure, check_vector
from memory.engine.errors import InvalidConfiguration
from memory.engine.text import is_blank

KIND: Final = "llama"
CONTEXT_PIECES_MAX: Final = 512
"""What follows is not read. Models that were trained on less use their own length."""

_CHECKSUM_SHOWN: Final = 12


class LlamaEmbedder:
    """The port over one llama.cpp context."""

    def __init__(self, model: Any, contract: EmbeddingContract) -> None:
        self._model = model
        self._contract = contract
        self._turn = Lock()

    @property
    def contract(self) -> EmbeddingContract:
        return self._contract

    def embed(self, texts: Sequence[str], *, deadline_seconds: float) -> Sequence[Embedded]:
        """See `Embedder`. Waiting for a turn counts; a text in progress is not broken off."""
        deadline = Deadline(deadline_seconds)
        return [self._one(text, deadline) for text in texts]

    def close(self) -> None:
        with self._turn:
            model, self._model = self._model, None
        if model is not None:
            model.close()

    def _one(self, text: str, deadline: Deadline) -> Embedded:
        if is_blank(text):
            return BLANK
        if not self._turn.acquire(timeout=deadline.remaining_seconds()):
            return deadline.failure()
        try:
            if self._model is None:
                return CLOSED
            if deadline.is_over:
                return deadline.failure()
            vector = self._model.embed(text, normalize=True, truncate=True)
        # What llama.cpp raises when it refuses an input.
        except (RuntimeError, ValueError) as error:
            return EmbeddingFailure(f"llama.cpp refused the text ({type(error).__name__})")
        finally:
            self._turn.release()
        return check_vector(vector, self._contract.dim)


def build(path: Path, *, dim: int | None = None, model: str | None = None) -> LlamaEmbedder:
    """Load the file; `dim` is checked against the model's own width, `model` replaces its name."""
    llama_cpp = load_package("llama_cpp", kind=KIND, install="'lambo[llama]'")
    checksum = checksum_of(path, kind=KIND)
    try:
        loaded = llama_cpp.Llama(
            model_path=str(path),
            embedding=True,
            n_ctx=CONTEXT_PIECES_MAX,
            # A text must fit one batch whole; smaller ones make long texts fail.
            n_batch=CONTEXT_PIECES_MAX,
            n_ubatch=CONTEXT_PIECES_MAX,
            n_threads=1,
            n_threads_batch=1,
            verbose=False,
        )
    except (ValueError, RuntimeError, AssertionError) as error:
        raise InvalidConfiguration(
            f"embedder.kind {KIND}: {path.name} is no GGUF file this llama.cpp can load",
            setting="embedder.model_path",
        ) from error
    width = int(loaded.n_embd())
    if dim is not None and dim != width:
        loaded.close()
        raise InvalidConfiguration(
            f"embedder.dim is {dim}, but {path.name} gives {width} dimensions",
            setting="embedder.dim",
        )
    name = f"{model or path.stem}@{checksum[:_CHECKSUM_SHOWN]}"
    return LlamaEmbedder(loaded, EmbeddingContract(KIND, name, width))

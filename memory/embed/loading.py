"""A native model that a thread of its own loads while the server already answers.

Owns that thread, the wait of a call for it, and what is said when loading failed. What can be
refused is refused before: packages, files and checksums are the builder's business, so that a
server that cannot embed does not start. Knows no model.

Invariant: a call waits for the model at most as long as its deadline, and none after `close`.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, Final

from memory.embed.deadline import CLOSED, Deadline
from memory.engine.embedding import EmbeddingFailure

log = logging.getLogger("lambo.embedder")

NOT_LOADED: Final = EmbeddingFailure("the embedding model could not be loaded")


class LoadingModel:
    """The model that `load` returns; its type is Any, as native engines ship no types."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._model: Future[Any] = Future()
        self._is_closed = False
        # A daemon: a load that never returns must not keep the process from ending.
        self._thread = Thread(target=self._load, args=(load,), name="lambo-model", daemon=True)
        self._thread.start()

    def wait(self, deadline: Deadline) -> Any | EmbeddingFailure:
        """The model, or why there is none by the deadline."""
        if self._is_closed:
            return CLOSED
        try:
            return self._model.result(deadline.remaining_seconds())
        except TimeoutError:
            return deadline.failure()

    def close(self, *, seconds_max: float = 2.0) -> None:
        """Drop the model; one that is being loaded is waited for, a native engine must not be left
        at work in a process that ends."""
        self._is_closed = True
        self._thread.join(seconds_max)
        self._model = Future()

    def _load(self, load: Callable[[], Any]) -> None:
        try:
            model = load()
        except Exception:  # foreign code: the server goes on, by words, and says why
            log.exception("the embedding model could not be loaded; texts get no vectors")
            model = NOT_LOADED
        else:
            _give_back_freed_memory()
        self._model.set_result(model)


def _give_back_freed_memory() -> None:
    """Return to the system what loading used and freed: a third of what the process then holds.

    glibc keeps it otherwise; other C libraries have no such function, and need none.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
